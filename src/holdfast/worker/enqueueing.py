"""How new jobs get into the store: checked, given their ids, and inserted, by one statement or by a stream of rows.

Ids are made before the first try, so a commit whose reply was lost is recognised when it is repeated: nothing doubles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import repeat
from typing import Any

from holdfast.base import limits, new_id, new_ids
from holdfast.catalog import current_context
from holdfast.catalog.core import BAD_REQUEST
from holdfast.store import Tx
from holdfast.worker.job import Enqueued, NewJob
from holdfast.worker.ledger import payload_text

NAME_CHARS_MAX = 200
TWIN_TRIES = 5
STREAM_MIN = 300
"""From so many rows on they are streamed to a database that can take a stream."""
STREAM_ROWS = 250
"""So many rows are prepared while the database takes in those before."""

CHECKED_MAX = 1_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_checked: set[tuple[object, object, object]] = set()

Prepared = tuple[Any, ...]
"""A job as the statement takes it, in the order of `COLUMNS`."""
COLUMNS = (
    "id", "tenant", "queue", "kind", "priority", "delay_us", "payload", "dedupe_key", "unique_us", "attempts_max",
    "timeout_us", "due_us", "trace",
)  # fmt: skip


class Batch:
    """Jobs that are enqueued together. Ids are made at once, the rest of a row when it is needed."""

    def __init__(self, jobs: Sequence[NewJob]) -> None:
        """
        Raises:
            Failure: BAD_REQUEST names a kind, queue, tenant or dedupe key that cannot be.
        """
        for job in jobs:
            _check_names(job)
        self._jobs = jobs
        self._ids = new_ids(len(jobs))
        self._rows: list[Prepared] = []
        self._keyed = any(job.dedupe_key is not None for job in jobs)

    def enqueue(self, tx: Tx) -> list[Enqueued]:
        """Insert them; where a twin keeps one out, the twin is the answer.

        Raises:
            Failure: as `prepared`; the transaction must not be committed then.
        """
        if self._keyed or len(self._jobs) < STREAM_MIN or not tx.streams:
            return enqueue(tx, self._prepared(len(self._jobs)))
        began = tx.row("job.stream_begin", id=self._ids[0])
        assert began is not None
        now_us, there = began
        if not there:
            tx.stream("job.stream", self._lines(now_us))
        return [*map(Enqueued, self._ids, repeat(True))]

    def _prepared(self, count: int) -> list[Prepared]:
        """The first so many rows, whatever has been prepared before."""
        have = len(self._rows)
        wanted = zip(self._jobs[have:count], self._ids[have:count], strict=True)
        trace = current_context().traceparent or None
        self._rows += [_row(job, job_id, trace) for job, job_id in wanted]
        return self._rows

    def _lines(self, now_us: int) -> Iterator[str]:
        """The rows as PostgreSQL's COPY reads them; it takes in some while the next are prepared."""
        for start in range(0, len(self._jobs), STREAM_ROWS):
            rows = self._prepared(start + STREAM_ROWS)[start : start + STREAM_ROWS]
            yield "".join([_line(row, now_us) for row in rows])


def prepared(job: NewJob) -> Prepared:
    """The job with an id.

    Raises:
        Failure: BAD_REQUEST names the field; JOB_PAYLOAD_TOO_LARGE.
    """
    _check_names(job)
    return _row(job, new_id(), current_context().traceparent or None)


def _row(job: NewJob, job_id: str, trace: str | None) -> Prepared:
    if type(job.priority) is not int or not -32_768 <= job.priority <= 32_767:
        raise BAD_REQUEST("{field} is a whole number between -32768 and 32767.", field="priority")
    if job.attempts is not None:
        most = limits().attempts_max
        if not (type(job.attempts) is int and 1 <= job.attempts <= most):
            raise BAD_REQUEST("{field} is a whole number between 1 and {most}.", field="attempts", most=most)
    return (
        job_id,
        job.tenant,
        job.queue,
        job.kind,
        job.priority,
        0 if job.delay_s == 0 else _us("delay_s", job.delay_s),
        payload_text(job.payload),
        job.dedupe_key,
        None if job.unique_s is None else _us("unique_s", job.unique_s),
        job.attempts,
        None if job.timeout_s is None else _us("timeout_s", job.timeout_s),
        None if job.due is None else _due_us(job),
        trace,
    )


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
    return tx.many("job.enqueue", rows) > 0


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


def _line(row: Prepared, now_us: int) -> str:
    job_id, tenant, queue, kind, priority, delay_us, payload, _, _, attempts, timeout_us, asked_us, trace = row
    due_us = now_us + delay_us if asked_us is None else max(asked_us, now_us)
    lane = "waiting" if due_us > now_us else "ready"
    text = f"{job_id}\t{tenant}\t{queue}\t{kind}\t{lane}\t{priority}\t{due_us}\t{payload}"
    if "\\" in text or "\n" in text or text.count("\t") != 7 or "\r" in text:
        parts = (job_id, tenant, queue, kind, lane, str(priority), str(due_us), payload)
        text = "\t".join([_escaped(part) for part in parts])
    return f"{text}\t{_or_null(attempts)}\t{_or_null(timeout_us)}\t{_or_null(trace)}\t{now_us}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def _or_null(value: object) -> object:
    return "\\N" if value is None else value


def _check_names(job: NewJob) -> None:
    # Queues, kinds and tenants are few and come again and again.
    names = (job.kind, job.queue, job.tenant)
    try:
        known = names in _checked
    except TypeError:
        known = False  # something unhashable, and no text
    if not known:
        check_name("kind", job.kind)
        check_name("queue", job.queue)
        check_name("tenant", job.tenant, least=0)
        if len(_checked) < CHECKED_MAX:
            _checked.add(names)
    if job.dedupe_key is not None:
        check_name("dedupe_key", job.dedupe_key)


def check_name(field: str, value: object, *, least: int = 1, most: int = NAME_CHARS_MAX) -> None:
    """Refuse a name that is too short, too long or cannot be stored.

    Raises:
        Failure: BAD_REQUEST names the field.
    """
    if not isinstance(value, str) or not least <= len(value) <= most:
        raise BAD_REQUEST("{field} is text of {least} to {most} characters.", field=field, least=least, most=most)
    if "\0" in value or not (value.isascii() or value == value.encode("utf-8", "replace").decode()):
        raise BAD_REQUEST("{field} holds a character that no database stores: NUL or half a pair.", field=field)


def _due_us(job: NewJob) -> int:
    if not isinstance(job.due, datetime) or job.due.tzinfo is None:
        raise BAD_REQUEST("{field} is a datetime with a time zone; write datetime(…, tzinfo=UTC).", field="due")
    if job.delay_s:
        raise BAD_REQUEST("Give {field} or delay_s, not both.", field="due")
    return (job.due - _EPOCH) // _MICROSECOND


def _us(field: str, seconds: float) -> int:
    if not 0 <= seconds <= limits().delay_s_max:
        raise BAD_REQUEST(
            "{field} is a number of seconds between 0 and {most}.", field=field, most=limits().delay_s_max
        )
    return int(seconds * 1_000_000)
