"""What to do after an attempt. A value, made by one pure function (`policy.decide`)."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Stop(StrEnum):
    """Why no further attempt is made."""

    NOT_RETRYABLE = "not_retryable"
    CONDITION_UNMET = "condition_unmet"
    ATTEMPTS_USED = "attempts_used"
    CODE_ATTEMPTS_USED = "code_attempts_used"
    TIME_USED = "time_used"
    DEADLINE_TOO_NEAR = "deadline_too_near"
    WRITE_WITHOUT_KEY = "write_without_key"
    UNKNOWN_FAILURE = "unknown_failure"
    BUDGET_SPENT = "budget_spent"
    BREAKER_OPEN = "breaker_open"
    LIMIT_REACHED = "limit_reached"
    RETRIED_INSIDE = "retried_inside"


# Tuples rather than frozen dataclasses: one is made for every failed attempt, and a tuple costs a third.


class RetryAfter(NamedTuple):
    """Try again when so much time has passed."""

    delay_s: float


class GiveUp(NamedTuple):
    """Make no further attempt, for this reason."""

    reason: Stop


Decision = RetryAfter | GiveUp
