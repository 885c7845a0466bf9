"""Rate limits: a maximum number per period (GCRA), or a maximum number at once. A refusal says when to come back.

Always true: in any stretch of time at most `burst` plus the rate times that stretch is let through, also when the
clock goes back. `RateLimit.take` works on integer microseconds and one stored integer, so that the same function
serves a process (`Bucket`) and a row in a database.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from math import ceil

from holdfast.base import monotonic_s
from holdfast.base.arguments import numeric
from holdfast.policy.backoff import PolicyInvalid

SECOND_US = 1_000_000
FILL_US_MAX = 1 << 53  # up to here a whole number of microseconds is exact as a float


@dataclass(frozen=True, slots=True)
class Allowed:
    """Go ahead; `tat_us` is what to remember."""

    tat_us: int


@dataclass(frozen=True, slots=True)
class Limited:
    """Come back later; `tat_us` is what to remember, and differs from before only when the clock went back."""

    retry_after_us: int
    tat_us: int = 0

    @property
    def retry_after_s(self) -> float:
        """How long to wait; more than nothing."""
        return self.retry_after_us / SECOND_US

    @property
    def retry_after_seconds(self) -> int:
        """The wait in whole seconds, rounded up, as the `Retry-After` header wants it; at least 1."""
        return -(-self.retry_after_us // SECOND_US)


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    """At most `count` in every `per_s` seconds in the long run, and at most `burst` of them at one moment."""

    count: int
    """Maximum number let through in `per_s` seconds, in the long run."""
    per_s: float
    """The length of the period in seconds."""
    burst: int = None  # type: ignore[assignment]  # filled below: as many as `count`
    """Maximum number let through at one moment; the same as `count` when not given."""
    interval_us: int = field(init=False, repr=False, compare=False)
    """What one of cost 1 uses up; rounded up, so that rounding never lets more through."""

    def __post_init__(self) -> None:
        if self.burst is None:
            object.__setattr__(self, "burst", self.count)  # type: ignore[unreachable]
        _at_least_one("count", self.count)
        _at_least_one("burst", self.burst)
        _positive_s("per_s", self.per_s)
        if self.count > self.per_s * SECOND_US:
            raise PolicyInvalid(f"count: {self.count} in {self.per_s} s is more than one in a microsecond")
        interval_us = ceil(self.per_s * SECOND_US / self.count)
        if interval_us * self.burst > FILL_US_MAX:
            raise PolicyInvalid(f"per_s: {self.per_s} s for {self.count} is too slow to count a burst of {self.burst}")
        object.__setattr__(self, "interval_us", interval_us)

    @classmethod
    def per_minute(cls, count: int, *, burst: int | None = None) -> RateLimit:
        """At most `count` a minute."""
        return cls(count=count, per_s=60.0, burst=count if burst is None else burst)

    def take(self, tat_us: int, now_us: int, cost: int = 1) -> Allowed | Limited:
        """Let one of the given cost through, or say when it can be.

        Args:
            tat_us: what the last answer said to remember; 0 at first.

        Raises:
            PolicyInvalid: the cost is below 1, or above the burst so that it could never pass.
        """
        if not 1 <= cost <= self.burst:
            raise PolicyInvalid(f"cost: {cost} is not between 1 and the burst of {self.burst}")
        full_us = self.interval_us * self.burst
        # Nothing let through reaches further ahead than a full burst. What does was written before the clock went
        # back: it counts as full, or nobody would pass until the clock has caught up.
        tat_us = min(max(tat_us, now_us), now_us + full_us)
        next_us = tat_us + self.interval_us * cost
        if next_us - now_us <= full_us:
            return Allowed(next_us)
        return Limited(next_us - now_us - full_us, tat_us)

    def remaining(self, tat_us: int, now_us: int) -> int:
        """How many of cost 1 would pass now."""
        return max(0, self.burst - -(-max(0, tat_us - now_us) // self.interval_us))

    def reset_s(self, tat_us: int, now_us: int) -> float:
        """How long until the whole burst is there again."""
        return min(max(0, tat_us - now_us), self.interval_us * self.burst) / SECOND_US

    def details(self, refusal: Limited) -> dict[str, int | float]:
        """The facts of a refusal, as an error body tells them."""
        return {
            "retry_after_seconds": refusal.retry_after_seconds,
            "limit": self.count,
            "window_seconds": int(self.per_s) if self.per_s == int(self.per_s) else self.per_s,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Concurrency:
    """At most `count` running at once; a caller without a place is told to come back after `retry_after_s`."""

    count: int
    """Maximum number that run at once."""
    retry_after_s: float = 1.0
    """What a caller without a place is told to wait."""

    def __post_init__(self) -> None:
        _at_least_one("count", self.count)
        _positive_s("retry_after_s", self.retry_after_s)

    def details(self, refusal: Limited) -> dict[str, int | float]:
        """The facts of a refusal, as an error body tells them."""
        return {"retry_after_seconds": refusal.retry_after_seconds, "limit": self.count}


class Bucket:
    """A rate limit kept in this process; threads may share it."""

    __slots__ = ("_lock", "_tat_us", "limit")

    def __init__(self, limit: RateLimit) -> None:
        self.limit = limit
        self._tat_us = 0
        self._lock = threading.Lock()

    def take(self, now_us: int | None = None, cost: int = 1) -> Limited | None:
        """Let one through (None), or refuse it; without a time, by the monotonic clock.

        Raises:
            PolicyInvalid: the cost is below 1 or above the burst.
        """
        moment_us = _monotonic_us() if now_us is None else now_us
        with self._lock:
            answer = self.limit.take(self._tat_us, moment_us, cost)
            self._tat_us = answer.tat_us
        return answer if isinstance(answer, Limited) else None

    def remaining(self, now_us: int | None = None) -> int:
        """How many of cost 1 would pass now."""
        return self.limit.remaining(self._tat_us, _monotonic_us() if now_us is None else now_us)

    def reset_s(self, now_us: int | None = None) -> float:
        """How long until the whole burst is there again."""
        return self.limit.reset_s(self._tat_us, _monotonic_us() if now_us is None else now_us)


class Slots:
    """A concurrency limit kept in this process; threads may share it."""

    __slots__ = ("_lock", "_refusal", "concurrency", "running")

    def __init__(self, concurrency: Concurrency) -> None:
        self.concurrency = concurrency
        self.running = 0
        self._refusal = Limited(max(1, ceil(concurrency.retry_after_s * SECOND_US)))
        self._lock = threading.Lock()

    def enter(self) -> Limited | None:
        """Take a place (None), to be given back with `leave`, or be refused."""
        with self._lock:
            if self.running >= self.concurrency.count:
                return self._refusal
            self.running += 1
            return None

    def leave(self) -> None:
        """Give the place back.

        Raises:
            RuntimeError: nobody is inside; going on would let too many in.
        """
        with self._lock:
            if self.running == 0:
                raise RuntimeError("left more often than entered")
            self.running -= 1


def _monotonic_us() -> int:
    return int(monotonic_s() * SECOND_US)


def _at_least_one(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise PolicyInvalid(f"{name}: {value!r} is not a whole number of 1 or more")


def _positive_s(name: str, value: float) -> None:
    numeric(name, value, raises=PolicyInvalid)
    if not 0 < value <= FILL_US_MAX / SECOND_US:
        raise PolicyInvalid(f"{name}: {value} is not a positive number of seconds that can be counted")
