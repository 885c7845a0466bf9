"""How chance spreads a delay, so that callers who failed together do not come back together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Dice = Callable[[], float]
"""A float in [0, 1)."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The delay, give or take a share of it: `5 s ±20 %`."""

    share: float


@dataclass(frozen=True, slots=True)
class Extra:
    """The delay and up to a share of it more: `10 s + ≤10 %`."""

    share: float


@dataclass(frozen=True, slots=True)
class Full:
    """Anything between nothing and the delay."""


@dataclass(frozen=True, slots=True)
class Equal:
    """Half the delay, and up to another half."""


@dataclass(frozen=True, slots=True)
class Decorrelated:
    """Anything between the base and three times the previous delay."""


@dataclass(frozen=True, slots=True)
class Between:
    """Anything between two bounds, whatever the attempt: `100–500 ms`."""

    low_s: float
    high_s: float


Jitter = Spread | Extra | Full | Equal | Decorrelated | Between


def bounds(jitter: Jitter | None, raw_s: float, *, base_s: float, previous_s: float) -> tuple[float, float]:
    """The least and the greatest delay that chance can make of `raw_s`."""
    match jitter:
        case None:
            return raw_s, raw_s
        case Spread(share):
            return raw_s * (1 - share), raw_s * (1 + share)
        case Extra(share):
            return raw_s, raw_s * (1 + share)
        case Full():
            return 0.0, raw_s
        case Equal():
            return raw_s / 2, raw_s
        case Decorrelated():
            return base_s, max(base_s, previous_s * 3)
        case Between(low_s, high_s):
            return low_s, high_s
