"""What became of jobs, told in this process to those who listen and to its log; only after it is written down."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from holdfast.base import bus
from holdfast.worker import log_lines
from holdfast.worker.job import Held, Job, NewJob
from holdfast.worker.joined import FIRST_SEEN, Seen
from holdfast.worker.ledger import LATE, PAST, Finished, Unsettled
from holdfast.worker.settlement import Settlement

FIRST_S = 1.0
"""Maximum time to wait for somebody else who has something to tell first."""
_first = threading.Lock()


@contextmanager
def first() -> Iterator[None]:
    """Around a transaction after which jobs are reported as enqueued: a claim made meanwhile is reported afterwards."""
    with _first:
        yield


def claimed(jobs: Iterable[Job]) -> None:
    """These are this worker's now."""
    jobs = list(jobs)
    if jobs and _first.acquire(timeout=FIRST_S):
        _first.release()
    for job in jobs:
        if job.token == FIRST_SEEN:
            _tell_enqueued(Seen(job.id, job.tenant, job.queue, job.kind, job.trace, None))
        bus.tell("job.claimed", **_facts(job))


def settled(finished: Sequence[Finished], settlements: Sequence[Settlement], late: Unsettled) -> None:
    """These attempts have ended."""
    lost = {one[0].held_as for one in late[0]} | {one.job.held_as for one in late[1]}
    if bus.listeners:
        _tell(finished, settlements, lost)
    if not log_lines.are_wanted():
        return
    if log_lines.wants_finished():
        log_lines.log_finished((job, duration_us) for job, _, duration_us in finished if job.held_as not in lost)
    if late[0]:
        log_lines.log_finished(((job, duration_us) for job, _, duration_us in late[0]), LATE)
    log_lines.log_settled((one, LATE if one.job.held_as in lost else PAST[one.verb]) for one in settlements)


def _tell(finished: Iterable[Finished], settlements: Iterable[Settlement], lost: set[Held]) -> None:
    for job, _, duration_us in finished:
        verb = LATE if job.held_as in lost else "finished"
        bus.tell(f"job.{verb}", **_facts(job), duration_us=duration_us)
    for one in settlements:
        verb = LATE if one.job.held_as in lost else PAST[one.verb]
        bus.tell(
            f"job.{verb}",
            **_facts(one.job),
            code=one.code,
            severity=one.severity,
            message=one.message,
            technical=one.technical,
            reason=one.reason,
            upstream_status=one.upstream_status,
            duration_us=one.duration_us,
            delay_us=one.delay_us,
            place=one.place,
            remote_code=one.remote_code,
            remote_message=one.remote_message,
            traceback=one.traceback,
        )


def rejected(settlements: Sequence[Settlement]) -> None:
    """These were claimed and failed at once, because a breaker is open."""
    claimed(one.job for one in settlements)
    settled((), settlements, ([], []))


def enqueued(made: Sequence[tuple[str, NewJob]], trace: str | None) -> None:
    """These are on disk, with their ids."""
    for job_id, new in made:
        # How far off a time of the day is, only the database's clock could say.
        delay_us = int(new.delay_s * 1_000_000) if new.due is None else None
        _tell_enqueued(Seen(job_id, new.tenant, new.queue, new.kind, trace, delay_us))


def seen(jobs: Iterable[Seen]) -> None:
    """These came with somebody else's transaction, which was committed."""
    for job in jobs:
        _tell_enqueued(job)


def _tell_enqueued(job: Seen) -> None:
    bus.tell("job.enqueued", **job._asdict(), attempt=0)


def _facts(job: Job) -> dict[str, object]:
    return {
        "id": job.id,
        "tenant": job.tenant,
        "queue": job.queue,
        "kind": job.kind,
        "attempt": job.attempt,
        "worker": job.worker,
        "trace": job.trace,
        "span": job.span,
    }
