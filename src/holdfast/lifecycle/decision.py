"""What to do after an attempt. A value, made by one pure function (`policy.decide`)."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Stop(StrEnum):
    """Why no further attempt is made."""

    NOT_RETRYABLE = "not_retryable"
    """The fault is declared never to be retried."""
    CONDITION_UNMET = "condition_unmet"
    """`Retry.on` or `Retry.when` refused this occurrence."""
    ATTEMPTS_USED = "attempts_used"
    """All attempts of the rule are used."""
    CODE_ATTEMPTS_USED = "code_attempts_used"
    """All attempts that may fail with this code are used."""
    TIME_USED = "time_used"
    """The next attempt would start after `Retry.within_s`."""
    DEADLINE_TOO_NEAR = "deadline_too_near"
    """The wait is longer than what the deadline leaves."""
    WAIT_TOO_LONG = "wait_too_long"
    """The Retry-After is longer than a call without a time limit waits."""
    WRITE_WITHOUT_KEY = "write_without_key"
    """The link writes and the call has no key."""
    UNKNOWN_FAILURE = "unknown_failure"
    """The exception is not classified: a write, or seen `attempts_unknown` times."""
    BUDGET_SPENT = "budget_spent"
    """The retry budget has nothing left."""
    BREAKER_OPEN = "breaker_open"
    """The breaker is open."""
    LIMIT_REACHED = "limit_reached"
    """A rate or concurrency limit has no place."""
    RETRIED_INSIDE = "retried_inside"
    """A link inside has retried this already."""


# Tuples rather than frozen dataclasses: one is made for every failed attempt, and a tuple costs a third.


class RetryAfter(NamedTuple):
    """Try again after this delay."""

    delay_s: float


class GiveUp(NamedTuple):
    """Make no further attempt, for this reason."""

    reason: Stop


Decision = RetryAfter | GiveUp
