"""A small model of the engine: jobs and workers as plain values, and what each move should make of them.

It shares nothing with the engine but the words, so the two can be held against each other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

DELAYS_US = (3_000_000, 7_000_000)
"""After the first and the second failed attempt."""
ATTEMPTS = 3
FOREVER = 2**62


@dataclass(slots=True)
class ModelJob:
    """A job as it should be."""

    id: str
    priority: int
    due_us: int
    lane: str
    key: str | None
    unique_until_us: int
    attempts_max: int | None
    state: str = "queued"
    token: int = 0
    attempt_count: int = 0
    pardon_count: int = 0
    manual_retry_count: int = 0
    owner: str | None = None
    cancel_asked: bool = False
    result: str | None = None
    error_code: str | None = None
    keeps_others_out: bool = field(default=False)

    @property
    def attempt(self) -> int:
        return self.attempt_count - self.pardon_count

    @property
    def limit(self) -> int:
        return self.attempts_max or ATTEMPTS


@dataclass(slots=True)
class Model:
    """Everything the engine should remember."""

    jobs: dict[str, ModelJob] = field(default_factory=dict)
    leases: dict[str, int] = field(default_factory=dict)
    """Registered workers, and until when."""

    # -- enqueue ----------------------------------------------------------------------------------------------------

    def holder(self, key: str, now_us: int) -> ModelJob | None:
        """Whose job keeps others with this key out; a window that is over is closed by the question."""
        for job in self.jobs.values():
            if job.keeps_others_out and job.key == key:
                if job.unique_until_us <= now_us:
                    job.keeps_others_out = False
                else:
                    return job
        return None

    def enqueued(self, job: ModelJob) -> None:
        job.keeps_others_out = job.key is not None
        self.jobs[job.id] = job

    # -- moves ------------------------------------------------------------------------------------------------------

    def claimable(self, lane: str, count: int) -> list[str]:
        """Who is next, in order."""
        waiting = [job for job in self.jobs.values() if job.state == "queued" and job.lane == lane]
        return [job.id for job in sorted(waiting, key=lambda job: (job.priority, job.due_us, job.id))[:count]]

    def lanes(self) -> list[str]:
        """Where there is something to claim."""
        return sorted({job.lane for job in self.jobs.values() if job.state == "queued"} - {"waiting"})

    def claim(self, ids: Iterable[str], worker: str) -> None:
        for job_id in ids:
            job = self.jobs[job_id]
            job.state, job.owner = "processing", worker
            job.token += 1
            job.attempt_count += 1

    def holds(self, job_id: str, token: int) -> bool:
        """Whether a settlement under this token counts."""
        job = self.jobs.get(job_id)
        return job is not None and job.state == "processing" and job.token == token

    def finish(self, job_id: str, result: str | None) -> None:
        job = self.jobs[job_id]
        job.state, job.result = "complete", result
        self._end(job)

    def fail(self, job_id: str, code: str) -> None:
        job = self.jobs[job_id]
        job.state, job.error_code, job.keeps_others_out = "failed", code, False
        self._end(job)

    def requeue(self, job_id: str, due_us: int, now_us: int, *, returned: int = 0, pardoned: int = 0) -> None:
        job = self.jobs[job_id]
        job.state, job.owner, job.due_us = "queued", None, due_us
        job.token += 1
        job.attempt_count -= returned
        job.pardon_count += pardoned
        job.lane = "waiting" if due_us > now_us else "alone" if job.pardon_count > 2 else "ready"

    def attempt_failed(self, job_id: str, code: str, now_us: int, attempt: int | None = None) -> None:
        """A retryable failure: another attempt while there are any."""
        job = self.jobs[job_id]
        attempt = attempt or job.attempt
        if attempt >= job.limit:
            self.fail(job_id, code)
        else:
            self.requeue(job_id, now_us + DELAYS_US[min(attempt, len(DELAYS_US)) - 1], now_us)

    def settled(self, job_id: str, ending: str, delay_us: int, now_us: int) -> None:
        """An attempt ended otherwise than by finishing."""
        job = self.jobs[job_id]
        if ending == "retry":
            self.attempt_failed(job_id, "JOB_TIMEOUT", now_us)
        elif ending == "fail":
            self.fail(job_id, "KIND_UNKNOWN")
        elif ending == "cancel":
            self.fail(job_id, "JOB_CANCELLED")
        elif ending == "release":
            self.requeue(job_id, now_us, now_us, returned=1)
        elif ending == "retry_in" and job.attempt >= job.limit:
            self.fail(job_id, "INTERNAL_ERROR")
        else:
            self.requeue(job_id, now_us + delay_us, now_us, returned=1 if ending == "snooze" else 0)

    def promote(self, now_us: int) -> None:
        for job in self.jobs.values():
            if job.state == "queued" and job.lane == "waiting" and job.due_us <= now_us:
                job.lane = "alone" if job.pardon_count > 2 else "ready"

    def swept(self, now_us: int) -> None:
        """Workers whose lease is over lose everything, and so does whoever claimed without being registered."""
        for worker in [worker for worker, until_us in self.leases.items() if until_us <= now_us]:
            del self.leases[worker]
        for job in self.jobs.values():
            if job.state != "processing" or job.owner in self.leases:
                continue
            if job.lane == "alone":
                self.attempt_failed(job.id, "WORKER_LOST", now_us, attempt=job.attempt_count - 1)
            else:
                self.requeue(job.id, now_us, now_us, pardoned=1)

    def cancel(self, job_id: str) -> bool:
        """What the caller should be told."""
        job = self.jobs[job_id]
        if job.state == "queued":
            self.fail(job_id, "JOB_CANCELLED")
            return True
        job.cancel_asked = job.cancel_asked or job.state == "processing"
        return job.state == "processing"

    def revive(self, job_id: str, now_us: int) -> None:
        job = self.jobs[job_id]
        job.state, job.lane, job.due_us, job.error_code = "queued", "ready", now_us, None
        job.token += 1
        job.attempt_count = job.pardon_count = 0
        job.manual_retry_count += 1
        job.keeps_others_out = job.key is not None and job.unique_until_us > now_us

    @staticmethod
    def _end(job: ModelJob) -> None:
        job.owner, job.cancel_asked = None, False
        job.token += 1
