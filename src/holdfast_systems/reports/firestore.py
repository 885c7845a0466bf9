"""Runs, prompts and schemas in Firestore, by Google's own client: optimistic updates, never a transaction.

Collections: `flow_runs`, `llm_prompts`, `llm_schemas`. A definition's document is its newest version; all versions are
below it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, TypeVar

from holdfast.base import utc_text
from holdfast.operate import Audited
from holdfast_systems.reports.faults import FIRESTORE_UNAVAILABLE, FLOW_RUN_INVALID
from holdfast_systems.reports.model import ABSENT, Document, Patch, RunStatus, applied, expired, time_us
from holdfast_systems.reports.ports import Definition, Page, Snapshot
from holdfast_systems.reports.views import summary_of

T = TypeVar("T")

RUNS, PROMPTS, SCHEMAS, VERSIONS = "flow_runs", "llm_prompts", "llm_schemas", "versions"
TIMEOUT_S = 10.0
SCANNED_MAX = 1_000
"""Running runs that one round of the reaper looks at."""
DEFINE_TRIES = 10
EMULATOR = "FIRESTORE_EMULATOR_HOST"

_environment = Lock()


def connect(database: str, *, host: str = "") -> Any:
    """A client for `project` or `project/database`; with a host, for an emulator there."""
    from google.auth.credentials import AnonymousCredentials
    from google.cloud.firestore import Client

    project, _, name = database.partition("/")
    with _named_emulator(host):
        credentials = AnonymousCredentials() if host else None  # type: ignore[no-untyped-call]
        client = Client(project=project, database=name or "(default)", credentials=credentials)
        client._firestore_api  # noqa: B018 - the channel is opened here, while the host is known
    return client


class FirestoreRuns:
    """Runs as documents of Firestore."""

    def __init__(self, client: Any, *, lease_s: float) -> None:
        self._client = client
        self._ttl_us = int(lease_s * 1_000_000)

    def create(self, run_id: str, document: Document) -> Snapshot | None:
        """Write a new run; None when the id is taken."""
        from google.api_core.exceptions import Conflict, InvalidArgument

        try:
            result = asked(lambda: self._reference(run_id).create(document, retry=None, timeout=TIMEOUT_S))
        except Conflict:
            return None
        except InvalidArgument as refused:
            raise FLOW_RUN_INVALID(field="", reason="Firestore does not take the document") from refused
        return Snapshot(run_id, document, result.update_time, _us(result.update_time))

    def get(self, run_id: str) -> Snapshot | None:
        """The run, or None."""
        found = asked(lambda: self._reference(run_id).get(retry=None, timeout=TIMEOUT_S))
        return _snapshot(found) if found.exists else None

    def patch(self, snapshot: Snapshot, patch: Patch, *, audited: Audited | None = None) -> Snapshot | None:  # noqa: ARG002 - Flows writes the row around a change in Firestore
        """Change these fields, if the document is still the one that was read; None when it is not."""
        from google.api_core.exceptions import Aborted, FailedPrecondition, NotFound
        from google.cloud.firestore import DELETE_FIELD
        from google.cloud.firestore_v1.field_path import FieldPath

        changes = {
            FieldPath(*path).to_api_repr(): DELETE_FIELD if value is ABSENT else value for path, value in patch.items()
        }
        option = self._client.write_option(last_update_time=snapshot.update_time)
        try:
            result = asked(
                lambda: self._reference(snapshot.run_id).update(changes, option=option, retry=None, timeout=TIMEOUT_S)
            )
        except (Aborted, FailedPrecondition, NotFound):
            # Contention is the same to the caller as a lost race: read again and see.
            return None
        document = applied(snapshot.document, patch)
        return Snapshot(snapshot.run_id, document, result.update_time, _us(result.update_time))

    def page(self, *, count: int, after: str | None = None) -> Page:
        """Summaries of runs, newest first."""
        query = self._client.collection(RUNS).order_by("createdAt", direction="DESCENDING")
        query = query.order_by("runId", direction="DESCENDING").limit(count + 1)
        if after is not None:
            moment, _, run_id = after.partition(":")
            query = query.start_after({"createdAt": utc_text(int(moment)), "runId": run_id})
        found = asked(lambda: list(query.stream(retry=None, timeout=TIMEOUT_S)))
        shown = [one.to_dict() for one in found[:count]]
        last = shown[-1] if len(found) > count else None
        following = None if last is None else f"{time_us(last.get('createdAt'))}:{last.get('runId')}"
        return Page([summary_of(document) for document in shown], following)

    def overdue(self, *, count: int) -> Sequence[Snapshot]:
        """Runs with a step whose lease has ended by Firestore's clock."""
        from google.cloud.firestore_v1.base_query import FieldFilter

        query = self._client.collection(RUNS).where(filter=FieldFilter("status", "==", RunStatus.RUNNING.value))
        found = asked(lambda: list(query.limit(SCANNED_MAX).stream(retry=None, timeout=TIMEOUT_S)))
        late = []
        for one in found:
            snapshot = _snapshot(one)
            if expired(snapshot.document, at_us=snapshot.read_us, ttl_us=self._ttl_us):
                late.append(snapshot)
        return late[:count]

    def close(self) -> None:
        """Close the channel."""
        self._client.close()

    def _reference(self, run_id: str) -> Any:
        return self._client.collection(RUNS).document(run_id)


class FirestoreDefinitions:
    """Prompts and schemas as documents of Firestore."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def put_prompt(self, prompt_id: str, template: str, *, audited: Audited | None = None) -> Definition:  # noqa: ARG002 - as above
        """Make this the newest version; the same content as the newest is that version."""
        return self._put(PROMPTS, prompt_id, "template", template)

    def prompt(self, prompt_id: str, version: int | None = None) -> Definition | None:
        """A version of a prompt, the newest without one; None when there is none."""
        return self._get(PROMPTS, prompt_id, "template", version)

    def put_schema(self, schema_id: str, schema: Mapping[str, Any], *, audited: Audited | None = None) -> Definition:  # noqa: ARG002 - as above
        """Make this the newest version; the same content as the newest is that version."""
        return self._put(SCHEMAS, schema_id, "jsonSchema", dict(schema))

    def schema(self, schema_id: str, version: int | None = None) -> Definition | None:
        """A version of a schema, the newest without one; None when there is none."""
        return self._get(SCHEMAS, schema_id, "jsonSchema", version)

    def _get(self, collection: str, key: str, field: str, version: int | None) -> Definition | None:
        reference = self._client.collection(collection).document(key)
        if version is not None:
            reference = reference.collection(VERSIONS).document(str(version))
        found = asked(lambda: reference.get(retry=None, timeout=TIMEOUT_S))
        said = found.to_dict() if found.exists else None
        if said is None or said.get(field) is None:
            return None
        # A document that somebody wrote by hand has no versions.
        number = said.get("version")
        return Definition(number if type(number) is int else 1, said[field])

    def _put(self, collection: str, key: str, field: str, content: Any) -> Definition:
        from google.api_core.exceptions import Aborted, Conflict, FailedPrecondition, InvalidArgument, NotFound

        reference = self._client.collection(collection).document(key)
        for _ in range(DEFINE_TRIES):
            found = asked(lambda: reference.get(retry=None, timeout=TIMEOUT_S))
            said = found.to_dict() if found.exists else {}
            number = said.get("version")
            before = number if type(number) is int else int(found.exists)
            if found.exists and said.get(field) == content:
                return Definition(before, content)
            batch = self._client.batch()
            fresh = {field: content, "version": before + 1}
            batch.create(reference.collection(VERSIONS).document(str(before + 1)), fresh)
            if found.exists:
                batch.update(reference, fresh, option=self._client.write_option(last_update_time=found.update_time))
            else:
                batch.create(reference, fresh)
            try:
                asked(lambda batch=batch: batch.commit(retry=None, timeout=TIMEOUT_S))  # type: ignore[misc]
            except (Aborted, Conflict, FailedPrecondition, NotFound):
                continue  # somebody else was first
            except InvalidArgument as refused:
                raise FLOW_RUN_INVALID(field=field, reason="Firestore does not take the document") from refused
            return Definition(before + 1, content, created=True)
        raise FIRESTORE_UNAVAILABLE(reason="too many versions are written at once")


def asked(work: Callable[[], T]) -> T:
    """What Firestore answers; a lost race and a refused document are the caller's to understand.

    Raises:
        Failure: FIRESTORE_UNAVAILABLE for everything else that goes wrong.
    """
    from google.api_core.exceptions import (
        Aborted,
        AlreadyExists,
        Conflict,
        FailedPrecondition,
        GoogleAPIError,
        InvalidArgument,
        NotFound,
    )

    try:
        return work()
    except (Aborted, AlreadyExists, Conflict, FailedPrecondition, InvalidArgument, NotFound):
        raise
    except GoogleAPIError as error:
        code = getattr(error, "grpc_status_code", None)
        raise FIRESTORE_UNAVAILABLE(reason=code.name if code is not None else type(error).__name__) from error


@contextmanager
def _named_emulator(host: str) -> Iterator[None]:
    """The client finds an emulator by the environment alone; ours is in the settings."""
    with _environment:
        before = os.environ.get(EMULATOR)
        if host:
            os.environ[EMULATOR] = host
        try:
            yield
        finally:
            if host and before is None:
                del os.environ[EMULATOR]
            elif before is not None:
                os.environ[EMULATOR] = before


def _snapshot(found: Any) -> Snapshot:
    return Snapshot(found.id, found.to_dict(), found.update_time, _us(found.read_time))


def _us(moment: Any) -> int:
    return int(moment.timestamp_pb().ToMicroseconds())
