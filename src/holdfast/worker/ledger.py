"""The moves of jobs, written down: each function is one phase of a transaction, and its events go with it.

Zero rows back means *lost it*: the lease had run out and somebody else has the job. That is journalled and changes
nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from holdfast.base import encode, limits
from holdfast.catalog.durable import JOB_PAYLOAD_TOO_LARGE, WORKER_LOST
from holdfast.policy import Retry
from holdfast.store import Tx
from holdfast.worker.job import Job, JobLost
from holdfast.worker.settlement import Settlement, failed, finished, released

LANE_READY = "ready"
LANE_WAITING = "waiting"
LANE_ALONE = "alone"

_PAST = {
    "finish": "finished",
    "retry": "retried",
    "snooze": "snoozed",
    "release": "released",
    "reclaim": "reclaimed",
    "fail": "failed",
    "cancel": "cancelled",
    "lose": "settled_late",
}


def claim(tx: Tx, *, queue: str, worker: str, count: int, lane: str = LANE_READY) -> list[Job]:
    """Take up to so many jobs of a queue; from now on they are this worker's until its lease ends."""
    rows = tx.rows("job.claim", queue=queue, owner=worker, count=count, lane=lane)
    if not rows:
        return []
    # The order of RETURNING means nothing: put them back in the order of the queue.
    rows.sort(key=_queue_order)
    tx.run("job.journal_claimed", queue=queue, owner=worker, given=[(row[0], row[2], row[4]) for row in rows])
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
        )
        for row in rows
    ]


def settle(tx: Tx, worker: str, settlements: Sequence[Settlement]) -> list[Settlement]:
    """Write down how attempts ended, each once for its token; the ones that were lost are returned."""
    done = _finish(tx, [one for one in settlements if one.verb == "finish"])
    done |= {one.job.id for one in settlements if one.verb != "finish" and _move(tx, one)}
    lost = [one for one in settlements if one.job.id not in done]
    kept = (
        settlements if not lost else [one if one.job.id in done else replace(one, verb="lose") for one in settlements]
    )
    journal(tx, worker, kept)
    return lost


def finish_within(tx: Tx, job: Job, result: Any) -> None:
    """Finish one job in the transaction of its handler.

    Raises:
        JobLost: the token no longer holds.
    """
    settlement = finished(job, result, 0)
    if not _finish(tx, [settlement]):
        raise JobLost(f"job {job.id} is no longer held by worker {job.worker}")
    journal(tx, job.worker, [settlement])


def reclaim(tx: Tx, dead_worker: str, by_worker: str, rule_of: Callable[[str], Retry | None]) -> list[Settlement]:
    """Take back what a worker held whose lease has run out.

    A job that ran beside others is pardoned and tried apart next time; one that was being tried apart already has
    spent the attempt, and with its last one becomes a dead letter.
    """
    settlements = []
    for row in tx.rows("job.held", owner=dead_worker):
        settlement = _reclaimed(row, dead_worker, rule_of)
        if _move(tx, settlement):
            settlements.append(settlement)
    journal(tx, by_worker, settlements)
    tx.run("worker.leave", id=dead_worker)
    return settlements


def release(tx: Tx, worker: str, jobs: Iterable[Job], reason: str) -> None:
    """Give jobs back untouched."""
    settle(tx, worker, [released(job, reason) for job in jobs])


def journal(tx: Tx, worker: str, settlements: Sequence[Settlement]) -> None:
    """One event for each settlement."""
    if not settlements:
        return
    tx.run(
        "job.journal_settled",
        worker=worker,
        given=[
            (
                one.job.id,
                _PAST[one.verb],
                one.job.queue,
                one.job.kind,
                one.job.attempt_count,
                one.code,
                one.upstream_status,
                one.duration_us,
                one.delay_us,
                one.reason,
            )
            for one in settlements
        ],
    )


def payload_text(payload: Any) -> str:
    """The payload as it is stored.

    Raises:
        Failure: JOB_PAYLOAD_TOO_LARGE.
    """
    text = encode(payload)
    size, most = len(text.encode()), limits().payload_bytes_max
    if size > most:
        raise JOB_PAYLOAD_TOO_LARGE(bytes=size, bytes_max=most)
    return text


def _queue_order(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return row[12], row[13], row[0]


def _finish(tx: Tx, settlements: Sequence[Settlement]) -> set[str]:
    if not settlements:
        return set()
    pairs = [(one.job.id, one.job.token) for one in settlements]
    done = {row[0] for row in tx.rows("job.finish", ids=[pair[0] for pair in pairs], given=pairs)}
    for one in settlements:
        if one.result is not None and one.job.id in done:
            tx.run("job.keep_result", id=one.job.id, result=one.result)
    return done


def _move(tx: Tx, one: Settlement) -> bool:
    """Whether the job was still held under its token."""
    if one.verb in {"fail", "cancel"}:
        moved = tx.rows(
            "job.fail",
            id=one.job.id,
            token=one.job.token,
            code=one.code,
            message=one.message,
            technical=one.technical,
            fingerprint=one.fingerprint,
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
            code_counts=one.code_counts,
        )
    return bool(moved)


def _reclaimed(row: tuple[Any, ...], dead_worker: str, rule_of: Callable[[str], Retry | None]) -> Settlement:
    job = Job(
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
        worker=dead_worker,
    )
    lost = WORKER_LOST(worker=dead_worker)
    if row[10] != LANE_ALONE:
        return Settlement(
            job=job, verb="reclaim", code=lost.code, delay_us=0, pardoned=1, reason=f"worker {dead_worker} was lost"
        )
    settlement = failed(job, lost, rule_of(job.kind), None, blamed=False)
    return settlement if settlement.verb == "fail" else replace(settlement, verb="reclaim")
