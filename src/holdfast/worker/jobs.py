"""The client's side of jobs: enqueue, look, wait, cancel."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from holdfast.base import Json, limits, monotonic_s, new_id, now_us, world
from holdfast.catalog import current_context
from holdfast.catalog.core import BAD_REQUEST
from holdfast.catalog.durable import JOB_CANCELLED, JOB_NOT_FOUND, JOB_NOT_READY
from holdfast.lifecycle import JobState
from holdfast.store import Engine, Store, Tx
from holdfast.worker.combiner import Combiner
from holdfast.worker.job import DEFAULT_QUEUE, Enqueued, NewJob
from holdfast.worker.ledger import payload_text
from holdfast.worker.settlement import fingerprint
from holdfast.worker.wake import Notifier

COMBINE_MAX = 500
NAME_CHARS_MAX = 200
TWIN_TRIES = 5
POLL_S = 0.05
POLL_S_MAX = 1.0

CHECKED_MAX = 1_000
_checked: set[tuple[int, object]] = set()

Prepared = tuple[Any, ...]
"""A job as the statement takes it: id, tenant, queue, kind, priority, delay_us, payload, dedupe_key, …"""


class Jobs:
    """Jobs on a store. Threads may share it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.notifier = Notifier(store)
        self._known_queues: set[str] = set()
        self._combiner: Combiner[Prepared, str] = Combiner(self._insert, most=COMBINE_MAX)

    def enqueue(
        self,
        kind: str,
        payload: Json = None,
        *,
        queue: str = DEFAULT_QUEUE,
        priority: int = 0,
        delay_s: float = 0.0,
        due: datetime | None = None,
        dedupe_key: str | None = None,
        unique_s: float | None = None,
        attempts: int | None = None,
        timeout_s: float | None = None,
        tenant: str = "",
        tx: Tx | None = None,
    ) -> Enqueued:
        """Ask for work to be done; it is on disk when this returns, or with the caller's transaction.

        Raises:
            Failure: BAD_REQUEST names the field; JOB_PAYLOAD_TOO_LARGE; or the database's own failure.
        """
        if due is not None:
            delay_s = _until_s(due, delay_s)
        new = NewJob(
            kind=kind,
            payload=payload,
            queue=queue,
            priority=priority,
            delay_s=delay_s,
            dedupe_key=dedupe_key,
            unique_s=unique_s,
            attempts=attempts,
            timeout_s=timeout_s,
            tenant=tenant,
        )
        if tx is not None or dedupe_key is not None:
            return self.enqueue_many([new], tx=tx)[0]
        row = _prepared(new)
        self._register(queue)
        self._combiner.submit(row)
        self.notifier.wake(queue)
        return Enqueued(row[0], created=True)

    def enqueue_many(self, jobs: Sequence[NewJob], *, tx: Tx | None = None) -> list[Enqueued]:
        """Ask for many at once, in one transaction.

        Raises:
            Failure: as `enqueue`; nothing is enqueued then.
        """
        most = limits().enqueue_batch_max
        if len(jobs) > most:
            raise BAD_REQUEST(
                "{count} jobs are more than one call takes; send at most {most}.", count=len(jobs), most=most
            )
        rows = [_prepared(job) for job in jobs]
        if tx is not None:
            # Of a joined transaction nobody here sees the commit: there the workers' own look finds the jobs.
            tx.after_commit.append(lambda: self._wake(jobs))
            return _enqueue(tx, rows)
        for queue in {job.queue for job in jobs}:
            self._register(queue)
        # Ids are made before the first try, so a repeated commit finds its own rows and doubles nothing.
        result = self.store.atomic(lambda here: _enqueue(here, rows), repeatable=True)
        self._wake(jobs)
        return result

    def show(self, job_id: str) -> dict[str, Any]:
        """Everything about one job.

        Raises:
            Failure: JOB_NOT_FOUND.
        """
        found = self.store.atomic(lambda tx: tx.records("job.show", id=job_id), write=False)
        if not found:
            raise JOB_NOT_FOUND(job_id=job_id)
        return found[0]

    def history(self, job_id: str, *, after: int = 0) -> list[dict[str, Any]]:
        """What happened to a job, in order; a page at a time."""
        count = limits().page_rows_max
        return self.store.atomic(lambda tx: tx.records("job.history", id=job_id, after=after, count=count), write=False)

    def list(self, *, count: int = 50, before: str | None = None, **filters: str | None) -> list[dict[str, Any]]:
        """Jobs, newest first; `before` is the last id of the page before.

        Args:
            filters: state, queue, kind, tenant, code.
        """
        chosen = {name: filters.get(name) for name in ("state", "queue", "kind", "tenant", "code")}
        count = min(count, limits().page_rows_max)
        return self.store.atomic(lambda tx: tx.records("job.list", count=count, before=before, **chosen), write=False)

    def wait(self, job_id: str, timeout_s: float) -> Json:
        """The job's result, as soon as it is complete.

        Raises:
            Failure: JOB_NOT_READY when the time is up; JOB_NOT_FOUND; the job's own code when it failed.
        """
        import json

        give_up_s = monotonic_s() + timeout_s
        poll_s = POLL_S
        while True:
            found = self.store.atomic(lambda tx: tx.row("job.outcome", id=job_id), write=False)
            if found is None:
                raise JOB_NOT_FOUND(job_id=job_id)
            state, result, code, message = found
            if state == JobState.COMPLETE:
                return None if result is None else json.loads(result)
            if state == JobState.FAILED:
                raise _failure_of(code, message, job_id)
            left_s = give_up_s - monotonic_s()
            if left_s <= 0:
                raise JOB_NOT_READY(job_id=job_id, retry_after_s=poll_s)
            world().sleep(min(poll_s, left_s))
            poll_s = min(poll_s * 1.5, POLL_S_MAX)

    def cancel(self, job_id: str) -> bool:
        """Stop a job: at once when it is queued, at its handler's next look when it runs; False when it has ended.

        Raises:
            Failure: JOB_NOT_FOUND.
        """

        def phase(tx: Tx) -> bool:
            failure = JOB_CANCELLED()
            kind = tx.row("job.kind", id=job_id)
            stopped = tx.row(
                "job.cancel_queued",
                id=job_id,
                code=failure.code,
                message=failure.message,
                technical="cancelled while it was queued",
                fingerprint=fingerprint(failure.code, kind[0] if kind else "", "cancelled"),
            )
            verb = "cancelled"
            if stopped is None:
                stopped, verb = tx.row("job.ask_cancel", id=job_id), "cancel_asked"
            if stopped is None:
                if tx.row("job.outcome", id=job_id) is None:
                    raise JOB_NOT_FOUND(job_id=job_id)
                return False
            event = (job_id, verb, stopped[1], stopped[2], stopped[3], failure.code, None, None, None, None)
            tx.many("job.journal_settled", [event], worker="")
            return True

        return self.store.atomic(phase)

    def close(self) -> None:
        """Send the last wake-ups."""
        self.notifier.close()

    def _insert(self, rows: Sequence[Prepared]) -> Sequence[str]:
        if len(rows) == 1 and self.store.engine is Engine.POSTGRESQL:
            (id_, tenant, queue, kind, priority, delay_us, payload, _, _, attempts, timeout_us, trace) = rows[0]
            self.store.single(
                "job.enqueue_one",
                repeatable=True,
                id=id_,
                tenant=tenant,
                queue=queue,
                kind=kind,
                priority=priority,
                delay_us=delay_us,
                payload=payload,
                attempts_max=attempts,
                timeout_us=timeout_us,
                trace=trace,
            )
        else:
            self.store.atomic(lambda tx: _insert_new(tx, rows), repeatable=True)
        return [row[0] for row in rows]

    def _wake(self, jobs: Sequence[NewJob]) -> None:
        for queue in {job.queue for job in jobs}:
            self.notifier.wake(queue)

    def _register(self, queue: str) -> None:
        """Let operators see the queue; once for each process."""
        if queue not in self._known_queues:
            self.store.atomic(lambda tx: tx.run("queue.register", name=queue), repeatable=True)
            self._known_queues.add(queue)


def _insert_new(tx: Tx, rows: Sequence[Prepared]) -> bool:
    """Insert the rows with their events; False when they were there already, or a twin keeps the only one out."""
    if tx.many("job.enqueue", rows) == 0:
        return False
    tx.many("job.journal_enqueued", [(row[0], row[2], row[3], row[5]) for row in rows])
    return True


def _enqueue(tx: Tx, rows: Sequence[Prepared]) -> list[Enqueued]:
    unkeyed = [row for row in rows if row[7] is None]
    if unkeyed:
        _insert_new(tx, unkeyed)
    return [Enqueued(row[0], created=True) if row[7] is None else _enqueue_keyed(tx, row) for row in rows]


def _enqueue_keyed(tx: Tx, row: Prepared) -> Enqueued:
    """Insert the row unless a twin keeps it out; then the twin is the answer."""
    scope = {"tenant": row[1], "queue": row[2], "dedupe_key": row[7]}
    for _ in range(TWIN_TRIES):
        tx.run("job.free_unique", **scope)
        if _insert_new(tx, [row]):
            return Enqueued(row[0], created=True)
        twin = tx.row("job.twin", **scope)
        if twin is not None:
            # After a lost reply the twin is the row itself.
            return Enqueued(twin[0], created=twin[0] == row[0])
    raise BAD_REQUEST("The dedupe key {dedupe_key} changes hands too fast.", dedupe_key=row[7])


def _prepared(job: NewJob) -> Prepared:
    _check_name("kind", job.kind)
    _check_name("queue", job.queue)
    _check_name("tenant", job.tenant, least=0)
    if job.dedupe_key is not None:
        _check_name("dedupe_key", job.dedupe_key)
    if type(job.priority) is not int or not -32_768 <= job.priority <= 32_767:
        raise BAD_REQUEST("{field} is a whole number between -32768 and 32767.", field="priority")
    most = limits().attempts_max
    if job.attempts is not None and not (type(job.attempts) is int and 1 <= job.attempts <= most):
        raise BAD_REQUEST("{field} is a whole number between 1 and {most}.", field="attempts", most=most)
    trace = current_context().traceparent or None
    return (
        new_id(),
        job.tenant,
        job.queue,
        job.kind,
        job.priority,
        0 if job.delay_s == 0 else _us("delay_s", job.delay_s),
        payload_text(job.payload),
        job.dedupe_key,
        _us("unique_s", job.unique_s),
        job.attempts,
        _us("timeout_s", job.timeout_s),
        trace,
    )


def _check_name(field: str, value: object, *, least: int = 1) -> None:
    # Queues, kinds and tenants are few and come again and again.
    if isinstance(value, str) and (least, value) in _checked:
        return
    if not isinstance(value, str) or not least <= len(value) <= NAME_CHARS_MAX:
        raise BAD_REQUEST(
            "{field} is text of {least} to {most} characters.", field=field, least=least, most=NAME_CHARS_MAX
        )
    if "\0" in value or not (value.isascii() or value == value.encode("utf-8", "replace").decode()):
        raise BAD_REQUEST("{field} holds a character that no database stores: NUL or half a pair.", field=field)
    if len(_checked) < CHECKED_MAX and field != "dedupe_key":
        _checked.add((least, value))


def _until_s(due: datetime, delay_s: float) -> float:
    if due.tzinfo is None:
        raise BAD_REQUEST("{field} has no time zone; write datetime(…, tzinfo=UTC).", field="due")
    if delay_s:
        raise BAD_REQUEST("Give {field} or delay_s, not both.", field="due")
    return max(0.0, due.timestamp() - now_us() / 1_000_000)


def _us(field: str, seconds: float | None) -> int | None:
    if seconds is None:
        return None
    if not 0 <= seconds <= limits().delay_s_max:
        raise BAD_REQUEST(
            "{field} is a number of seconds between 0 and {most}.", field=field, most=limits().delay_s_max
        )
    return int(seconds * 1_000_000)


def _failure_of(code: str, message: str, job_id: str) -> Exception:
    from holdfast.catalog import CORE, Failure, Fault
    from holdfast.catalog.fault import Blame

    fault = CORE.get(code) or Fault(code=code, status=500, says=message or code, blame=Blame.SERVER)
    return Failure(fault, message, details={"job_id": job_id})
