"""Everything non-deterministic, in one value.

No other module reads a clock, sleeps, or draws a random number by itself. Replacing the world of a context
(`with replaced(world): ...`) replaces all of it at once, for that context and everything it starts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from holdfast.base.limits import Limits
from holdfast.base.ticks import Ticks


def _wall_us() -> int:
    return time.time_ns() // 1_000


async def _pause(seconds: float) -> None:
    import asyncio  # sync programs should not pay for loading it

    await asyncio.sleep(seconds)


_draw: Callable[[], float] | None = None


def _dice() -> float:
    global _draw
    if _draw is None:
        import random  # loaded at the first jitter: it pulls in the hash library

        _draw = random.random  # jitter, not a secret
    return _draw()


_REAL_TICKS = Ticks()


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What the process takes from outside: time, waiting, chance and its limits."""

    wall_us: Callable[[], int] = _wall_us
    """UTC microseconds since 1970."""
    monotonic_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    """Block this thread for this many seconds."""
    pause: Callable[[float], Awaitable[None]] = _pause
    """Suspend this task for this many seconds."""
    dice: Callable[[], float] = _dice
    """A float in [0, 1), for jitter; not for secrets."""
    token_bytes: Callable[[int], bytes] = os.urandom
    """Unpredictable bytes, for ids and secrets."""
    limits: Limits = field(default_factory=Limits.from_environment)
    ticks: Ticks = field(init=False, repr=False, compare=False)
    """What makes the ids of this clock ascend."""

    def __post_init__(self) -> None:
        # Worlds on the real clock share one count; a replaced clock starts its own, so that a simulation neither
        # sees nor disturbs the ids of any other.
        object.__setattr__(self, "ticks", _REAL_TICKS if self.wall_us is _wall_us else Ticks())


REAL = World()

_current: ContextVar[World] = ContextVar("holdfast_world", default=REAL)

world: Callable[[], World] = _current.get
"""The world of this context."""


@contextmanager
def replaced(by: World) -> Iterator[World]:
    """Everything inside the block, and every task it starts, lives in the given world."""
    token = _current.set(by)
    try:
        yield by
    finally:
        _current.reset(token)


def now_us() -> int:
    """UTC microseconds since 1970."""
    return world().wall_us()


def monotonic_s() -> float:
    """Seconds on a clock that never goes back."""
    return world().monotonic_s()


def limits() -> Limits:
    """The limits in force here."""
    return world().limits
