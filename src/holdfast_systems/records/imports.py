"""Imports: rows that are stored many at a time, each once, however often the process dies.

A file is cut into parts when it arrives. Each part is a job; its rows are stored in batches, and how far it has come is
written in the transaction of each batch. Always true: a batch counts only if the import stands where the worker thinks
it stands, so that a worker that was overtaken stores nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any

from holdfast.artifact import Artifacts
from holdfast.base import Json, bus, decode, encode
from holdfast.policy import Backoff, Extra, Retry
from holdfast.store import Store, Tx
from holdfast.worker import Job, Jobs
from holdfast_systems.records import companies
from holdfast_systems.records.faults import DUPLICATE_RECORD
from holdfast_systems.records.import_rows import Bad, Format, Good, Row, rows
from holdfast_systems.records.model import Kind
from holdfast_systems.records.tables import Numbers

QUEUE = "records.import"
KIND = "records.import"
# A worker that dies must not bury an import, nor make it wait: it goes on where it stood, however often that happens.
RETRY = Retry(attempts=100, backoff=Backoff.exponential(0.5, cap_s=5.0, jitter=Extra(0.1)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where an import stands."""

    id: str
    account_id: str
    parts: int
    part: int
    row: int
    """Rows of this part that are done."""
    done: int
    """Rows of the whole file that are done."""


@dataclass(slots=True)
class Outcome:
    """What became of one row: the id it got, or the code it failed with."""

    row: int
    uid: str | None = None
    bad: Bad | None = None

    def kept(self) -> list[Any]:
        """As the table keeps it."""
        return [self.row, self.uid] if self.bad is None else [self.row, None, *_kept(self.bad)]


class Lost(Exception):
    """Another worker has taken the import over."""


class Importer:
    """Does the jobs of imports. Threads may share it."""

    def __init__(self, store: Store, jobs: Jobs, artifacts: Artifacts, numbers: Numbers, *, batch_rows: int) -> None:
        self._store = store
        self._jobs = jobs
        self._artifacts = artifacts
        self._numbers = numbers
        self._batch_rows = batch_rows

    def work(self, job: Job) -> Json:
        """Store the rows of one part that are not stored yet, and let the next part follow.

        Raises:
            Failure: the storage's or the database's own; the part goes on where it stood.
        """
        import_id, part = str(job.payload["import"]), int(job.payload["part"])
        found = self._store.look("records_import.work", id=import_id)
        if not found:
            return None
        account_id, format, header, parts, at_part, at_row, done, finished = found[0]
        if finished is not None or at_part != part:
            return None  # an earlier attempt was not able to say that it had finished
        at = Position(id=import_id, account_id=account_id, parts=parts, part=part, row=at_row, done=done)
        content = self._artifacts.get(part_name(import_id, part), bytes_max=PART_READ_MAX)
        columns = [] if header is None else decode(header)
        remaining = islice(rows(content, Format(format), columns, headed=part == 0), at.row, None)
        try:
            self._store_all(job, at, remaining)
        except Lost:
            return None
        self._artifacts.delete(part_name(import_id, part))
        return None

    def _store_all(self, job: Job, at: Position, remaining: Iterator[Row]) -> None:
        """Store batch after batch; while one is stored, the one after the next is read."""

        def take() -> list[Row]:
            return list(islice(remaining, self._batch_rows))

        with ThreadPoolExecutor(1, thread_name_prefix="records-import") as ahead:
            batch, following = take(), take()
            while True:
                reading = ahead.submit(take) if following else None
                at = self._store_batch(job, at, batch, last=not following)
                if reading is None or job.cancelled:
                    return
                batch, following = following, reading.result()

    def _store_batch(self, job: Job, at: Position, batch: Sequence[Row], *, last: bool) -> Position:
        outcomes = [Outcome(at.done + number) for number in range(1, len(batch) + 1)]
        new = self._numbered(batch)

        def phase(tx: Tx) -> int:
            if tx.row("records_import.hold", id=at.id, part=at.part, row=at.row) is None:
                raise Lost
            _judge(tx, at.account_id, batch, new, outcomes)
            failed = sum(1 for one in outcomes if one.bad is not None)
            self._advance(tx, job, at, outcomes, failed, last=last)
            return failed

        failed = self._store.atomic(phase)
        if bus.listeners:
            bus.tell("import.advanced", id=at.id, tenant=at.account_id, rows=len(batch), failed=failed)
        return Position(
            id=at.id,
            account_id=at.account_id,
            parts=at.parts,
            part=at.part,
            row=at.row + len(batch),
            done=at.done + len(batch),
        )

    def _numbered(self, batch: Sequence[Row]) -> list[str]:
        """An id for each row of the batch that may need one, in order; taken before the transaction, held by none."""
        found: list[str] = [""] * len(batch)
        for kind, name in ((Kind.COMPANY, "company"), (Kind.PERSON, "person")):
            places = [place for place, row in enumerate(batch) if isinstance(row, Good) and row.kind == name]
            for place, uid in zip(places, self._numbers.many(kind, len(places)) if places else (), strict=True):
                found[place] = uid
        return found

    def _advance(self, tx: Tx, job: Job, at: Position, outcomes: Sequence[Outcome], failed: int, *, last: bool) -> None:
        if outcomes:
            tx.run(
                "records_import.add_batch",
                import_id=at.id,
                first_row=at.done + 1,
                rows=len(outcomes),
                failed=failed,
                outcomes=encode([one.kept() for one in outcomes]),
            )
        following = at.part + 1 if last else at.part
        finished = following >= at.parts
        job_id = job.id
        if last and not finished:
            payload = {"import": at.id, "part": following}
            job_id = self._jobs.enqueue(KIND, payload, queue=QUEUE, tenant=at.account_id, tx=tx).id
        tx.rows(
            "records_import.advance",
            id=at.id,
            next_part=following,
            next_row=0 if last else at.row + len(outcomes),
            succeeded=len(outcomes) - failed,
            failed=failed,
            job_id=job_id,
            finished=int(finished),
        )
        if last:
            job.finish(tx, {"rows": at.row + len(outcomes)})


PART_READ_MAX = 8 * 1_048_576
"""No part is larger than this."""


def part_name(import_id: str, part: int) -> str:
    """Where a part of an import is kept."""
    return f"imports/{import_id}/{part:06d}"


def _judge(tx: Tx, account_id: str, batch: Sequence[Row], new: Sequence[str], outcomes: Sequence[Outcome]) -> None:
    """Store what can be stored, and say of each row what became of it."""
    made: list[tuple[Outcome, Good, str]] = []
    people: list[tuple[Outcome, Good, str]] = []
    for row, uid, outcome in zip(batch, new, outcomes, strict=True):
        outcome.uid = outcome.bad = None  # the phase may run again
        if isinstance(row, Bad):
            outcome.bad = row
        else:
            (made if row.kind == "company" else people).append((outcome, row, uid))
    _add_companies(tx, account_id, made)
    _add_people(tx, account_id, people)


def _add_companies(tx: Tx, account_id: str, made: Sequence[tuple[Outcome, Good, str]]) -> None:
    if not made:
        return
    values = [
        (uid, row.values["name"], row.values["website"], row.website_key, row.values["industry"])
        for _, row, uid in made
    ]
    stored = {uid for (uid,) in tx.many_rows("records_import.add_companies", values, account_id=account_id)}
    for outcome, row, uid in made:
        if uid in stored:
            outcome.uid = uid
        else:
            failure = DUPLICATE_RECORD(field="website", value=row.values["website"])
            outcome.bad = Bad(failure.code, failure.message, failure.details)
    if stored:
        tx.many("records_import.add_slots", [(uid,) for _, _, uid in made if uid in stored])


def _add_people(tx: Tx, account_id: str, people: Sequence[tuple[Outcome, Good, str]]) -> None:
    if not people:
        return
    wanted = sorted({str(row.values["company_uid"]) for _, row, _ in people})
    known = {uid for (uid,) in tx.rows("records_import.companies", uids=wanted, account_id=account_id)}
    values = []
    for outcome, row, uid in people:
        if row.values["company_uid"] not in known:
            failure = companies.missing(row.values["company_uid"])
            outcome.bad = Bad(failure.code, failure.message, failure.details)
            continue
        outcome.uid = uid
        values.append((uid, *(row.values[name] for name in ("company_uid", "full_name", "email", "role"))))
    if values:
        tx.many("records_import.add_people", values, account_id=account_id)


def _kept(bad: Bad) -> tuple[str, str, Json]:
    return bad.code, bad.message, dict(bad.details)
