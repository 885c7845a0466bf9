"""How a job moves, and what a handler may answer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from holdfast.lifecycle.moves import Move, Table


class JobState(StrEnum):
    """Where a job stands; one that waits for its next attempt is queued."""

    QUEUED = "queued"
    PROCESSING = "processing"
    COMPLETE = "complete"
    FAILED = "failed"


JOB: Table = (
    Move("queued", "claim", "processing"),
    Move("queued", "cancel", "failed"),
    Move("processing", "finish", "complete"),
    Move("processing", "retry", "queued"),
    Move("processing", "snooze", "queued"),
    Move("processing", "release", "queued"),
    Move("processing", "reclaim", "queued"),
    Move("processing", "fail", "failed"),
    Move("processing", "cancel", "failed"),
    Move("failed", "revive", "queued"),
)


@dataclass(frozen=True, slots=True)
class Snooze:
    """Not now: the job goes back to its queue for `delay_s` seconds, and no attempt is spent."""

    delay_s: float
    reason: str = ""
    timed: bool = False
    """Whether the time of the job goes on: `job.elapsed_s` then counts from its first claim, so that a handler that
    puts it off again and again can tell when it has been long enough."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """The work is no longer wanted: the job ends as failed with JOB_CANCELLED, without further attempts."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class RetryIn:
    """Try again after this time, whatever the code's rule says of the delay; attempts are still counted."""

    delay_s: float
    reason: str = ""


HandlerAnswer = Snooze | Cancel | RetryIn
"""What a handler may return instead of a result."""
