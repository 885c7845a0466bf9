"""The moves of jobs, written down: each function is one phase of a transaction, and its events go with it.

Zero rows back means *lost it*: the lease had run out and somebody else has the job. That is journalled and changes
nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from holdfast.base import SecretLeak, encode, limits, monotonic_s
from holdfast.base.codec import why_no_json
from holdfast.catalog.core import BAD_REQUEST
from holdfast.catalog.durable import JOB_PAYLOAD_TOO_LARGE, WORKER_LOST
from holdfast.policy import Retry
from holdfast.store import Engine, Row, Tx
from holdfast.worker import joined, sequences
from holdfast.worker.job import Held, Job, JobLost
from holdfast.worker.settlement import Settlement, failed, released

LANE_READY = "ready"
LANE_WAITING = "waiting"
LANE_ALONE = "alone"

PAST = {
    "finish": "finished",
    "retry": "retried",
    "snooze": "snoozed",
    "release": "released",
    "reclaim": "reclaimed",
    "fail": "failed",
    "cancel": "cancelled",
}
ENDING = frozenset({"fail", "cancel"})
"""The moves after which there is no further attempt."""
LATE = "settled_late"
"""A settlement that came after the lease was lost: it is written down and changes nothing."""

Finished = tuple[Job, str | None, int | None]
"""A job that is done, its result as JSON text, and how long it took in microseconds."""
Unsettled = tuple[list[Finished], list[Settlement]]
"""What came too late: the lease was lost."""
Event = tuple[Any, ...]
"""A row of the journal: subject, verb, queue, kind, attempt, code, upstream status, duration, delay, reason; when and
by whom the attempt was claimed that ended so; the upstream's code and message, and the traceback."""


def claim(tx: Tx, *, queue: str, worker: str, count: int, lane: str = LANE_READY) -> list[Job]:
    """Claim up to `count` jobs of a queue; from now on they are this worker's until its lease ends."""
    rows = tx.rows("job.claim", queue=queue, owner=worker, count=count, lane=lane)
    if not rows:
        return []
    now_s = monotonic_s()
    if tx.engine is Engine.SQLITE:
        tx.run("job.hold", owner=worker, claimed_us=rows[0][9], found=encode([row[18] for row in rows]))
    else:
        # The order of RETURNING means nothing: put them back in the order of the queue.
        rows.sort(key=_queue_order)
    return [
        Job(
            id=row[0],
            token=row[1],
            queue=queue,
            kind=row[2],
            text=row[3],
            attempt=row[4] - row[5],
            attempt_count=row[4],
            attempts_max=row[6],
            code_counts=row[7],
            timeout_us=row[8],
            claimed_us=row[9],
            tenant=row[10],
            trace=row[11],
            worker=worker,
            waited_us=row[9] - row[15],
            claimed_s=now_s,
            cancelled=row[14] is not None,
            sequence=row[16],
            sequence_position=row[17],
        )
        for row in rows
    ]


def settle(tx: Tx, worker: str, finished: Sequence[Finished], settlements: Sequence[Settlement] = ()) -> Unsettled:
    """Write down how attempts ended, each once for its token; what was lost is returned."""
    done = _finish(tx, worker, finished)
    moved = {one.job.held_as for one in settlements if _move(tx, one)}
    sequences.advance(tx, (one[0] for one in finished if one[0].held_as in done))
    sequences.advance(tx, (one.job for one in settlements if one.verb in ENDING and one.job.held_as in moved))
    events = [_late_event(one) for one in finished if one[0].held_as not in done]
    events += [_event(one, PAST[one.verb] if one.job.held_as in moved else LATE) for one in settlements]
    journal(tx, worker, events)
    return (
        [one for one in finished if one[0].held_as not in done],
        [one for one in settlements if one.job.held_as not in moved],
    )


def not_yet_settled(
    tx: Tx, worker: str, finished: Sequence[Finished], settlements: Sequence[Settlement]
) -> tuple[list[Finished], list[Settlement]]:
    """What is still to be written after a turn that may or may not have happened; each is journalled once."""
    ids = [*(one[0].id for one in finished), *(one.job.id for one in settlements)]
    written = set(tx.rows("job.settled_claims", ids=ids, worker=worker)) if ids else set()
    return (
        [one for one in finished if (one[0].id, one[0].claimed_us) not in written],
        [one for one in settlements if (one.job.id, one.job.claimed_us) not in written],
    )


def finish_within(tx: Tx, job: Job, result: str | None, took_us: int) -> None:
    """Finish one job in the transaction of its handler.

    Raises:
        JobLost: the token no longer holds.
    """
    if not _finish(tx, job.worker, [(job, result, took_us)]):
        raise JobLost(f"job {job.id} is no longer held by worker {job.worker}")
    sequences.advance(tx, [job])


def reclaim(tx: Tx, dead_worker: str, by_worker: str, rule_of: Callable[[str], Retry | None]) -> list[Settlement]:
    """Take back what a worker held whose lease has run out.

    A job that ran beside others is pardoned: it may run again at once, and after its third lost worker it is tried
    apart. One that is lost while it is tried apart has spent that attempt, and all of its pardons but one with it: with
    three attempts it is a dead letter after four lost workers.
    """
    settlements = []
    for row in tx.rows("job.abandoned", owner=dead_worker):
        settlement = _reclaimed(row, dead_worker, rule_of)
        if _move(tx, settlement):
            settlements.append(settlement)
    sequences.advance(tx, (one.job for one in settlements if one.verb in ENDING))
    journal(tx, by_worker, [_event(one, PAST[one.verb], claimed_by=dead_worker) for one in settlements])
    tx.run("worker.leave", id=dead_worker)
    return settlements


def release(tx: Tx, worker: str, jobs: Iterable[Job], reason: str) -> None:
    """Give jobs back untouched, save those that their handlers are finishing in transactions of their own."""
    settle(tx, worker, (), joined.judged(tx, [released(job, reason) for job in jobs]).rest)


def release_all(tx: Tx, worker: str, reason: str) -> None:
    """Give back everything that a worker holds."""
    release(tx, worker, [_of_held(row, worker) for row in tx.rows("job.held", owner=worker)], reason)


def release_strays(tx: Tx, worker: str, known: set[Held]) -> None:
    """Give back what this worker holds without knowing of it: the reply to its claim was lost."""
    strays = [_of_held(row, worker) for row in tx.rows("job.held", owner=worker) if (row[0], row[1]) not in known]
    release(tx, worker, strays, "the reply to the claim was lost")


def journal(tx: Tx, worker: str, events: Sequence[Event]) -> None:
    """Write the events of settlements."""
    if events:
        tx.many("job.journal_settled", events, worker=worker)


def event(
    subject: str, verb: str, queue: str, kind: str, attempt: int, code: str | None, reason: str | None = None
) -> Event:
    """Something that happened to a job between two attempts."""
    return subject, verb, queue, kind, attempt, code, None, None, None, reason, None, None, None, None, None


def payload_text(payload: Any) -> str:
    """The payload as it is stored.

    Raises:
        SecretLeak: the payload holds a `Secret`.
        Failure: JOB_PAYLOAD_TOO_LARGE, or BAD_REQUEST when it has no JSON form.
    """
    try:
        text = encode(payload)
    except SecretLeak:
        raise
    except (TypeError, ValueError, RecursionError) as error:
        raise BAD_REQUEST(
            "{field} has no JSON form: {why}", field="payload", why=why_no_json(payload, error)
        ) from error
    # A character has at most four bytes: only long texts need the exact count.
    size, most = len(text), limits().payload_bytes_max
    size = size if size * 4 <= most else len(text.encode())
    if size > most:
        raise JOB_PAYLOAD_TOO_LARGE(bytes=size, bytes_max=most)
    return text


def _queue_order(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return row[12], row[13], row[0]


def _finish(tx: Tx, worker: str, finished: Sequence[Finished]) -> set[Held]:
    """Finish what is still held, with its events; which of them that was."""
    if not finished:
        return set()
    newest = {job.id: (job.id, job.token, duration_us, result) for job, result, duration_us in finished}
    if len(newest) < len(finished):
        # One job under two tokens: only the newest can hold.
        ordered = sorted(finished, key=lambda one: one[0].token)
        newest = {job.id: (job.id, job.token, duration_us, result) for job, result, duration_us in ordered}
    finish = _finish_sqlite if tx.engine is Engine.SQLITE else _finish_postgresql
    return {newest[job_id][:2] for job_id in finish(tx, worker, list(newest.values()))}


def _finish_postgresql(tx: Tx, worker: str, rows: list[Row]) -> list[str]:
    return [row[0] for row in tx.many_rows("job.finish", rows, worker=worker)]


def _finish_sqlite(tx: Tx, worker: str, rows: list[Row]) -> list[str]:
    durations = {job_id: duration_us for job_id, _, duration_us, _ in rows}
    tokens = {job_id: token if result is None else (token, result) for job_id, token, _, result in rows}
    if tx.run("job.finish", given=encode(tokens)) < len(rows):
        held = encode({job_id: token for job_id, token, _, _ in rows})
        durations = {job_id: durations[job_id] for (job_id,) in tx.rows("job.just_finished", given=held)}
    if durations:
        tx.run("job.journal_finished", given=encode(durations), worker=worker)
    return list(durations)


def _late_event(finished: Finished) -> Event:
    job, _, duration_us = finished
    nothing = (None,) * 7
    return job.id, LATE, job.queue, job.kind, job.attempt_count, None, None, duration_us, *nothing


def _event(one: Settlement, verb: str, *, claimed_by: str | None = None) -> Event:
    job = one.job
    return (
        job.id,
        verb,
        job.queue,
        job.kind,
        job.attempt_count,
        one.code,
        one.upstream_status,
        one.duration_us,
        one.delay_us,
        one.reason,
        None if verb == LATE else job.claimed_us,
        claimed_by,
        one.remote_code,
        one.remote_message,
        one.traceback,
    )


def _move(tx: Tx, one: Settlement) -> bool:
    """Whether the job was still held under its token."""
    if one.verb in ENDING:
        moved = tx.rows(
            "job.fail",
            id=one.job.id,
            token=one.job.token,
            code=one.code,
            message=one.message,
            technical=one.technical,
            fingerprint=one.fingerprint,
            place=one.place,
            remote_status=one.upstream_status,
            remote_code=one.remote_code,
            remote_message=one.remote_message,
            code_counts=one.code_counts,
        )
    else:
        moved = tx.rows(
            "job.retry",
            id=one.job.id,
            token=one.job.token,
            delay_us=one.delay_us or 0,
            returned=one.returned,
            pardoned=one.pardoned,
            timed=int(one.timed),
            code_counts=one.code_counts,
        )
    return bool(moved)


def _of_held(row: tuple[Any, ...], worker: str) -> Job:
    return Job(
        id=row[0],
        token=row[1],
        queue=row[2],
        kind=row[3],
        text="",
        attempt=row[4] - row[5],
        attempt_count=row[4],
        attempts_max=row[6],
        code_counts=row[7],
        timeout_us=None,
        claimed_us=row[8],
        tenant=row[9],
        trace=None,
        worker=worker,
        sequence=row[11],
        sequence_position=row[12],
    )


def _reclaimed(row: tuple[Any, ...], dead_worker: str, rule_of: Callable[[str], Retry | None]) -> Settlement:
    job = _of_held(row, dead_worker)
    lost = WORKER_LOST(worker=dead_worker)
    if row[10] != LANE_ALONE:
        return Settlement(
            job=job, verb="reclaim", code=lost.code, delay_us=0, pardoned=1, reason=f"worker {dead_worker} was lost"
        )
    rule = rule_of(job.kind)
    if rule is None and job.attempts_max is None:
        # Who has never heard of the kind cannot say how many attempts are enough: its own workers will.
        return Settlement(job=job, verb="reclaim", code=lost.code, delay_us=0, reason=f"worker {dead_worker} was lost")
    job.waited_us = row[13]
    job.attempt = job.attempt_count - 1
    settlement = failed(job, lost, rule, None, blamed=False)
    return settlement if settlement.verb == "fail" else replace(settlement, verb="reclaim")
