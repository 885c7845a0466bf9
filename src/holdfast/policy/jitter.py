"""How chance spreads a delay, so that callers who failed together do not come back together."""

from __future__ import annotations

from collections.abc import Callable

Dice = Callable[[], float]
"""A float in [0, 1)."""


class _Value:
    """Equal when kind and numbers are, and never changed.

    Written by hand: every import of Holdfast pays for these, and making a dataclass takes half a millisecond each.
    """

    __slots__ = ()
    __match_args__: tuple[str, ...] = ()

    def _numbers(self) -> tuple[float, ...]:
        return tuple(getattr(self, name) for name in self.__match_args__)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} does not change: {name!r} cannot be set")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self._numbers() == other._numbers()

    def __hash__(self) -> int:
        return hash((type(self), self._numbers()))

    def __repr__(self) -> str:
        numbers = (f"{name}={number!r}" for name, number in zip(self.__match_args__, self._numbers(), strict=True))
        return f"{type(self).__name__}({', '.join(numbers)})"

    def __reduce__(self) -> tuple[type, tuple[float, ...]]:
        return type(self), self._numbers()


class _Share(_Value):
    __slots__ = ("share",)
    __match_args__ = ("share",)

    share: float

    def __init__(self, share: float) -> None:
        object.__setattr__(self, "share", share)


class Spread(_Share):
    """The delay, give or take a share of it: `5 s ±20 %`."""

    __slots__ = ()


class Extra(_Share):
    """The delay and up to a share of it more: `10 s + ≤10 %`."""

    __slots__ = ()


class Full(_Value):
    """Anything between nothing and the delay."""

    __slots__ = ()


class Equal(_Value):
    """Half the delay, and up to another half."""

    __slots__ = ()


class Decorrelated(_Value):
    """Anything between the base and three times the previous delay."""

    __slots__ = ()


class Between(_Value):
    """Anything between two bounds, whatever the attempt: `100–500 ms`."""

    __slots__ = ("high_s", "low_s")
    __match_args__ = ("low_s", "high_s")

    low_s: float
    high_s: float

    def __init__(self, low_s: float, high_s: float) -> None:
        object.__setattr__(self, "low_s", low_s)
        object.__setattr__(self, "high_s", high_s)


Jitter = Spread | Extra | Full | Equal | Decorrelated | Between
JITTERS = (Spread, Extra, Full, Equal, Decorrelated, Between)


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
