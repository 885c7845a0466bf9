"""How new jobs get into the store: by one statement, or by a stream of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.base import encode, new_ids
from holdfast.catalog import current_context
from holdfast.catalog.core import BAD_REQUEST
from holdfast.store import Engine, Tx
from holdfast.worker import sequences
from holdfast.worker.job import Enqueued, NewJob
from holdfast.worker.joined import token_of
from holdfast.worker.prepared import COLUMNS, Names, Prepared, as_row, check_name, check_names
from holdfast.worker.streaming import Lines

TWIN_TRIES = 5
ALIKE_MIN = 4
"""Minimum average size of a group of alike jobs at which the jobs of each group are written together."""
STREAM_MIN = 300
"""Minimum number of rows that are streamed to a database that can take a stream."""
STREAM_FIRST, STREAM_ROWS = 60, 240
"""Number of rows in the first and in each later piece of a stream; the next piece is prepared while the database takes
in the one before, and the first is small so that the database soon has work."""


class Batch:
    """Jobs that are enqueued together. Each is given its id when that is first needed, and keeps it in every try."""

    def __init__(self, jobs: Sequence[NewJob]) -> None:
        """
        Raises:
            Failure: BAD_REQUEST names a kind, queue or tenant that cannot be.
        """
        if not all(issubclass(kind, NewJob) for kind in set(map(type, jobs))):
            raise BAD_REQUEST("{field} is a list of NewJob: write [NewJob(kind=…, payload=…)].", field="jobs")
        self.queues = {queue for _, queue, _ in _names(jobs)}
        """Where they will wait."""
        self._jobs = jobs
        self._ids: list[str] = []
        self._rows: list[Prepared] = []
        self._made: list[Enqueued] = []
        self._keyed = any(job.dedupe_key is not None for job in jobs)
        self.sequences = {job.sequence for job in jobs if job.sequence is not None}
        """Those that they belong to."""
        for name in self.sequences:
            check_name("sequence", name, most=sequences.NAME_CHARS_MAX)

    def enqueue(self, tx: Tx) -> list[Enqueued]:
        """Insert them; where a twin keeps one out, the twin is the answer.

        Raises:
            Failure: as `as_row`; the transaction must not be committed then.
        """
        made = self._insert(tx)
        if self.sequences:
            pairs = zip(made, self._jobs, strict=True)
            members = [(one.id, job.sequence) for one, job in pairs if one.created and job.sequence is not None]
            if members:
                sequences.join(tx, members)
        return made

    def _insert(self, tx: Tx) -> list[Enqueued]:
        if self._keyed or len(self._jobs) < STREAM_MIN or not tx.streams:
            return enqueue(tx, self._prepared())
        began = tx.row("job.stream_begin", id=self._known(STREAM_FIRST)[0])
        assert began is not None
        now_us, there = began
        if not there:
            tx.stream("job.stream", self._pieces(now_us))
        return self._made

    def _prepared(self) -> list[Prepared]:
        if not self._rows:
            trace = current_context().traceparent or None
            ids = self._known(len(self._jobs))
            self._rows = [as_row(job, job_id, trace) for job, job_id in zip(self._jobs, ids, strict=True)]
        return self._rows

    def _known(self, count: int) -> list[str]:
        """The ids of the first `count` jobs, or of more."""
        missing = min(count, len(self._jobs)) - len(self._ids)
        if missing > 0:
            self._ids += new_ids(missing)
        return self._ids

    def _pieces(self, now_us: int) -> Iterator[str]:
        """The rows as COPY reads them; the database takes in some while the next are prepared."""
        lines = Lines(now_us)
        start, stop = 0, STREAM_FIRST
        while start < len(self._jobs):
            yield lines.text(self._jobs[start:stop], self._known(stop)[start:stop])
            start, stop = stop, stop + STREAM_ROWS
        # Here, because the database is still at work.
        self._made = [Enqueued(job_id, created=True) for job_id in self._ids]


def _names(jobs: Sequence[NewJob]) -> set[Names]:
    """The kinds, queues and tenants, each combination once: there are few of them."""
    try:
        names = {(job.kind, job.queue, job.tenant) for job in jobs}
    except TypeError:  # something unhashable, and no text
        for job in jobs:
            check_names((job.kind, job.queue, job.tenant))
        raise
    for each in names:
        check_names(each)
    return names


def enqueue(tx: Tx, rows: Sequence[Prepared]) -> list[Enqueued]:
    """Insert the rows; where a twin keeps one out, the twin is the answer."""
    unkeyed = [row for row in rows if row[7] is None]
    if unkeyed:
        insert(tx, unkeyed)
    if len(unkeyed) == len(rows):
        return [Enqueued(row[0], created=True) for row in rows]
    return [Enqueued(row[0], created=True) if row[7] is None else _enqueue_keyed(tx, row) for row in rows]


def insert(tx: Tx, rows: Sequence[Prepared]) -> bool:
    """Insert the rows; False when they were there already, or a twin keeps the only one out."""
    if tx.engine is Engine.SQLITE:
        alike: dict[Prepared, dict[str, str]] = {}
        for row in rows:  # all but the id and the payload
            alike.setdefault((*row[1:6], *row[7:]), {})[row[0]] = row[6]
        if len(alike) * ALIKE_MIN <= len(rows):
            at_us = tx.now_us()
            return sum(_insert_alike(tx, shared, payloads, at_us) for shared, payloads in alike.items()) > 0
    return tx.many("job.enqueue", rows, token=token_of(tx)) > 0


def _insert_alike(tx: Tx, shared: Prepared, payloads: dict[str, str], at_us: int) -> int:
    """Insert jobs without dedupe keys that have everything in common but their payloads."""
    values = dict(zip((*COLUMNS[1:6], *COLUMNS[7:]), shared, strict=True))
    return tx.run("job.enqueue_alike", given=encode(payloads), at_us=at_us, token=token_of(tx), **values)


def _enqueue_keyed(tx: Tx, row: Prepared) -> Enqueued:
    scope = {"tenant": row[1], "queue": row[2], "dedupe_key": row[7]}
    for _ in range(TWIN_TRIES):
        tx.run("job.free_unique", **scope)
        if insert(tx, [row]):
            return Enqueued(row[0], created=True)
        twin = tx.row("job.twin", **scope)
        if twin is not None:
            # After a lost reply the twin is the row itself.
            return Enqueued(twin[0], created=twin[0] == row[0])
        if tx.row("job.kind", id=row[0]) is not None:
            return Enqueued(row[0], created=True)  # inserted by a try whose reply was lost, and failed since
    raise BAD_REQUEST("The dedupe key {dedupe_key} changes hands too fast.", dedupe_key=row[7])
