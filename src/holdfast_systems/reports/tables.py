"""The embedded store: runs, prompts and schemas in SQL, and the change feed that drives everything.

Always true: a change of a run and the job that follows from it are committed together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from holdfast.base import Json, decode, encode
from holdfast.catalog import Failure
from holdfast.operate import Audited
from holdfast.store import Store, Tx
from holdfast.worker import Jobs
from holdfast_systems.reports.faults import FIRESTORE_UNAVAILABLE
from holdfast_systems.reports.model import (
    CHANGED,
    QUEUE,
    Document,
    Patch,
    StepState,
    applied,
    each_step,
    lease_until_us,
    next_due_us,
    time_us,
)
from holdfast_systems.reports.ports import Definition, Page, Snapshot
from holdfast_systems.reports.views import summary_of

T = TypeVar("T")

PACKAGE = "holdfast_systems.reports"
SYSTEM = "reports"
DEFINE_TRIES = 10
LAST_US = 1 << 62
COMMIT_UNKNOWN = "COMMIT_UNKNOWN"


def prepare(store: Store) -> None:
    """Bring the tables up to date and load the statements."""
    store.migrate(PACKAGE, system=SYSTEM)
    store.load(PACKAGE)


class SqlRuns:
    """Runs in the embedded store."""

    def __init__(self, store: Store, jobs: Jobs, *, lease_s: float, feeds: bool = True) -> None:
        """
        Args:
            lease_s: how long a step may run that says nothing about its lease.
            feeds: whether changes are followed by jobs; without, somebody else has to send events.
        """
        self._store = store
        self._jobs = jobs
        self._ttl_us = int(lease_s * 1_000_000)
        self._feeds = feeds

    def create(self, run_id: str, document: Document) -> Snapshot | None:
        """Write a new run; None when the id is taken."""

        def phase(tx: Tx) -> Snapshot | None:
            created_us = time_us(document.get("createdAt")) or 0
            found = tx.row("reports.create", run_id=run_id, created_us=created_us, **self._columns(document))
            return self._written(tx, run_id, document, found)

        return self._asked(lambda: self._store.atomic(phase))

    def get(self, run_id: str) -> Snapshot | None:
        """The run, or None."""
        found = self._asked(lambda: self._store.look("reports.get", run_id=run_id))
        return Snapshot(run_id, _document(found[0][0]), found[0][1], found[0][2]) if found else None

    def patch(self, snapshot: Snapshot, patch: Patch, *, audited: Audited | None = None) -> Snapshot | None:
        """Change these fields, if the document is still the one that was read; None when it is not."""
        document = applied(snapshot.document, patch)

        def phase(tx: Tx) -> Snapshot | None:
            columns = self._columns(document)
            found = tx.row("reports.patch", run_id=snapshot.run_id, update_us=snapshot.update_time, **columns)
            if found is not None and audited is not None:
                audited.within(tx)
            return self._written(tx, snapshot.run_id, document, found)

        try:
            return self._asked(lambda: self._store.atomic(phase))
        except Failure as failure:
            if not isinstance(failure.__cause__, Failure) or failure.__cause__.code != COMMIT_UNKNOWN:
                raise
        # The reply to the commit was lost. Every patch that matters holds a new token or time, so the document tells.
        now = self.get(snapshot.run_id)
        return now if now is not None and now.document == document else None

    def page(self, *, count: int, after: str | None = None) -> Page:
        """Summaries of runs, newest first."""
        before_us, before_id = _place(after)
        found = self._asked(
            lambda: self._store.look("reports.page", before_us=before_us, before_id=before_id, count=count + 1)
        )
        shown = found[:count]
        following = f"{shown[-1][1]}:{shown[-1][2]}" if len(found) > count else None
        return Page([_document(row[0]) for row in shown], following)

    def overdue(self, *, count: int) -> Sequence[Snapshot]:
        """Runs with a step whose lease has ended by the database's clock."""
        found = self._asked(lambda: self._store.look("reports.overdue", count=count))
        return [Snapshot(row[0], _document(row[1]), row[2], row[3]) for row in found]

    def close(self) -> None:
        """The store is not ours to close."""

    def _columns(self, document: Document) -> dict[str, Any]:
        leases = [
            lease_until_us(step, ttl_us=self._ttl_us)
            for _, step in each_step(document)
            if step.get("state") == StepState.RUNNING
        ]
        return {
            "document": encode(document),
            "summary": encode(summary_of(document)),
            "status": document["status"],
            "lease_until_us": min(leases, default=None),
        }

    def _written(self, tx: Tx, run_id: str, document: Document, found: Any) -> Snapshot | None:
        if found is None:
            return None
        due_us = next_due_us(document) if self._feeds else None
        if due_us is not None:
            delay_s = max(0, due_us - found[1]) / 1_000_000
            self._jobs.enqueue(CHANGED, {"runId": run_id}, queue=QUEUE, delay_s=delay_s, tx=tx)
        return Snapshot(run_id, document, found[0], found[1])

    @staticmethod
    def _asked(work: Callable[[], T]) -> T:
        return asked(work)


class SqlDefinitions:
    """Prompts and schemas in the embedded store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def put_prompt(self, prompt_id: str, template: str, *, audited: Audited | None = None) -> Definition:
        """Make this the newest version; the same content as the newest is that version."""
        return self._put("prompt", prompt_id, template, audited)

    def prompt(self, prompt_id: str, version: int | None = None) -> Definition | None:
        """A version of a prompt, the newest without one; None when there is none."""
        return self._get("prompt", prompt_id, version)

    def put_schema(self, schema_id: str, schema: Mapping[str, Any], *, audited: Audited | None = None) -> Definition:
        """Make this the newest version; the same content as the newest is that version."""
        return self._put("schema", schema_id, dict(schema), audited)

    def schema(self, schema_id: str, version: int | None = None) -> Definition | None:
        """A version of a schema, the newest without one; None when there is none."""
        return self._get("schema", schema_id, version)

    def _put(self, kind: str, key: str, content: Json, audited: Audited | None) -> Definition:
        def phase(tx: Tx) -> Definition:
            made = newest_or_next(tx)
            if audited is not None:
                audited.within(tx, changed=made.created)
            return made

        def newest_or_next(tx: Tx) -> Definition:
            # Others may take the next number at the same time.
            for _ in range(DEFINE_TRIES):
                newest = tx.row("reports.definition", kind=kind, id=key, version=None)
                if newest is not None and decode(newest[1]) == content:
                    return Definition(newest[0], content)
                version = 1 if newest is None else newest[0] + 1
                if tx.run("reports.define", kind=kind, id=key, version=version, content=encode(content)):
                    return Definition(version, content, created=True)
            raise FIRESTORE_UNAVAILABLE(reason="too many versions are written at once")

        return asked(lambda: self._store.atomic(phase, repeatable=True))

    def _get(self, kind: str, key: str, version: int | None) -> Definition | None:
        found = asked(lambda: self._store.look("reports.definition", kind=kind, id=key, version=version))
        return Definition(found[0][0], decode(found[0][1])) if found else None


def asked(work: Callable[[], T]) -> T:
    """What the work answers.

    Raises:
        Failure: FIRESTORE_UNAVAILABLE for every failure of the database.
    """
    try:
        return work()
    except Failure as failure:
        if failure.code == FIRESTORE_UNAVAILABLE.code:
            raise
        raise FIRESTORE_UNAVAILABLE(reason=failure.code) from failure


def _document(text: str) -> Document:
    found = decode(text, bytes_max=DOCUMENT_TEXT_MAX)
    assert isinstance(found, dict)
    return found


DOCUMENT_TEXT_MAX = 16 * 1_048_576


def _place(after: str | None) -> tuple[int, str]:
    moment, _, run_id = (after or "").partition(":")
    return (int(moment), run_id) if after else (LAST_US, "")
