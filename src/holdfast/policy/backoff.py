"""Backoff: from the number of the attempt that failed to the delay before the next one.

Always true: a delay is never negative, never above `cap_s`, and the same dice give the same delay.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite

from holdfast.base.arguments import ArgumentInvalid, is_a, numeric, shown
from holdfast.policy.jitter import JITTERS, Between, Decorrelated, Dice, Jitter, bounds

_EXPONENT_MAX = 2**53
"""Beyond this a float does not tell attempts apart."""


class PolicyInvalid(ArgumentInvalid):
    """A policy was given values that cannot be meant."""


class Chance:
    """A delay that is still open: `low_s`, and as much of `span_s` as the dice say, but never above `high_s`."""

    __slots__ = ("high_s", "low_s", "span_s")

    def __init__(self, *, low_s: float, span_s: float, high_s: float) -> None:
        self.low_s = low_s
        self.span_s = span_s
        self.high_s = high_s

    def drawn_s(self, dice: Dice) -> float:
        """The delay that the dice make of it."""
        return min(self.low_s + self.span_s * dice(), self.high_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """How long to wait after attempt 1, 2, 3 …

    The delay after attempt `n` is `base_s * factor ** (n - 1)`, or the `n`-th of `delays_s` when there are any
    (the last one serves for all that follow); then jitter; then the cap.
    """

    base_s: float = 1.0
    """The delay after the first attempt."""
    factor: float = 2.0
    """Ratio of each delay to the one before; 1 keeps it the same."""
    cap_s: float = 300.0
    """No delay is longer, jitter included."""
    jitter: Jitter | None = None
    """How chance spreads the delay; None does not."""
    delays_s: tuple[float, ...] = ()
    """Exactly these delays instead of the curve; the last one serves for all that follow."""

    def __post_init__(self) -> None:
        if not isinstance(self.delays_s, tuple):
            raise PolicyInvalid(f"delays_s: {shown(self.delays_s)} is not a tuple; write Backoff.listed(1, 5, 25)")
        if self.jitter is not None and not isinstance(self.jitter, JITTERS):
            raise PolicyInvalid(f"jitter: {shown(self.jitter)} is not a jitter; write jitter=Spread(0.2) or Full()")
        numeric("factor", self.factor, raises=PolicyInvalid)
        for delay_s in self.delays_s:
            _positive_or_zero("delays_s", delay_s)
        _positive_or_zero("base_s", self.base_s)
        _positive_or_zero("cap_s", self.cap_s)
        if not (isfinite(self.factor) and self.factor >= 1):
            raise PolicyInvalid(f"factor: {self.factor} would make delays shrink; use 1 or more")
        share = getattr(self.jitter, "share", 0.0)
        if not 0 <= share <= 1:
            raise PolicyInvalid(f"jitter: a share of {share} is not between 0 and 1")
        if isinstance(self.jitter, Between) and not 0 <= self.jitter.low_s <= self.jitter.high_s < inf:
            raise PolicyInvalid(f"jitter: {self.jitter.low_s} to {self.jitter.high_s} s is not a range")
        if self.delays_s and isinstance(self.jitter, Between | Decorrelated):
            raise PolicyInvalid(f"jitter: {type(self.jitter).__name__} makes its own delays and would ignore delays_s")

    @classmethod
    def exponential(
        cls, base_s: float, *, factor: float = 2.0, cap_s: float = 300.0, jitter: Jitter | None = None
    ) -> Backoff:
        """`base, base·factor, base·factor² …`, up to the cap."""
        return cls(base_s=base_s, factor=factor, cap_s=cap_s, jitter=jitter)

    @classmethod
    def listed(cls, *delays_s: float, jitter: Jitter | None = None) -> Backoff:
        """Exactly these delays, the last one for ever."""
        if not delays_s:
            raise PolicyInvalid("delays_s: a list of delays needs at least one")
        for delay_s in delays_s:
            if is_a(delay_s, (list, tuple)):
                raise PolicyInvalid("delays_s: write the delays themselves: Backoff.listed(1, 5, 25)")
            numeric("delays_s", delay_s, raises=PolicyInvalid)
        return cls(delays_s=delays_s, cap_s=max(delays_s) * (1 + getattr(jitter, "share", 0.0)), jitter=jitter)

    @classmethod
    def uniform(cls, *, low_s: float, high_s: float) -> Backoff:
        """Anything between two bounds, every time."""
        return cls(base_s=low_s, factor=1.0, cap_s=high_s, jitter=Between(low_s, high_s))

    @classmethod
    def constant(cls, delay_s: float, *, jitter: Jitter | None = None) -> Backoff:
        """The same delay every time."""
        return cls.listed(delay_s, jitter=jitter)

    def delay_s(self, attempt: int, dice: Dice, *, previous_s: float = 0.0) -> float:
        """The delay after the given attempt (the first is 1)."""
        if self.jitter is None:
            return self.raw_s(attempt)
        return self._chance(attempt, previous_s).drawn_s(dice)

    def chances(self, count: int) -> tuple[float | Chance, ...] | None:
        """The delays after attempt 1 to `count`, worked out ahead; None when each grows from the one before."""
        if isinstance(self.jitter, Decorrelated):
            return None
        attempts = range(1, count + 1)
        if self.jitter is None:
            return tuple(float(self.raw_s(attempt)) for attempt in attempts)
        return tuple(self._chance(attempt, 0.0) for attempt in attempts)

    def raw_s(self, attempt: int) -> float:
        """The delay before chance has its say."""
        listed = self.delays_s
        if listed:
            delay_s = listed[attempt - 1] if attempt <= len(listed) else listed[-1]
            return delay_s if delay_s < self.cap_s else self.cap_s
        try:
            # As floats: a whole factor would be raised to a number of any size first.
            return min(self.base_s * float(self.factor) ** min(attempt - 1, _EXPONENT_MAX), self.cap_s)
        except OverflowError:
            return self.cap_s if self.base_s else 0.0

    def range_s(self, attempt: int, *, previous_s: float = 0.0) -> tuple[float, float]:
        """The least and the greatest delay after the given attempt."""
        low_s, high_s = self._bounds_s(attempt, previous_s)
        return min(low_s, self.cap_s), min(high_s, self.cap_s)

    def schedule_s(self, attempts: int) -> tuple[tuple[float, float], ...]:
        """When each attempt starts at the earliest and at the latest, counted from the first, calls being instant."""
        starts = [(0.0, 0.0)]
        previous_s = 0.0
        for attempt in range(1, attempts):
            low_s, high_s = self.range_s(attempt, previous_s=previous_s)
            # The widest case: decorrelated jitter grows from the longest delay so far.
            previous_s = high_s if isinstance(self.jitter, Decorrelated) else 0.0
            starts.append((starts[-1][0] + low_s, starts[-1][1] + high_s))
        return tuple(starts)

    def _chance(self, attempt: int, previous_s: float) -> Chance:
        low_s, high_s = self._bounds_s(attempt, previous_s)
        return Chance(low_s=low_s, span_s=high_s - low_s, high_s=min(high_s, self.cap_s))

    def _bounds_s(self, attempt: int, previous_s: float) -> tuple[float, float]:
        return bounds(self.jitter, self.raw_s(attempt), base_s=self.base_s, previous_s=previous_s or self.base_s)


def _positive_or_zero(name: str, value: float) -> None:
    numeric(name, value, raises=PolicyInvalid)
    if not (isfinite(value) and value >= 0):
        raise PolicyInvalid(f"{name}: {value} is not a number of seconds")
