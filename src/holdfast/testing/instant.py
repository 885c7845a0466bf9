"""Waits that take no time: `instant()` makes every wait zero and records it.

The clock moves on by what would have been waited, so deadlines and breakers behave as in real time.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from holdfast.base import World, replaced, world

PARTS = 1_024
"""A power of two, so that each part is exact."""


@dataclass(slots=True)
class VirtualTime:
    """A clock that moves only when a caller waits or when it is told to."""

    waits_s: list[float] = field(default_factory=list)
    """Every wait, in order."""
    passed_s: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def advance(self, seconds: float) -> None:
        """Let time pass without a caller that waits."""
        with self._lock:
            self.passed_s += seconds

    def wait(self, seconds: float) -> None:
        """Record a wait and let its time pass."""
        with self._lock:
            self.waits_s.append(seconds)
            self.passed_s += seconds


@contextmanager
def instant() -> Iterator[VirtualTime]:
    """Inside the block nothing waits; the value tells what would have been waited."""
    time = VirtualTime()
    with replaced(virtual_world(time)):
        yield time


def virtual_world(time: VirtualTime, based_on: World | None = None) -> World:
    """A world whose clocks read the given time, starting at the moment of the call."""
    outside = world() if based_on is None else based_on
    # From a whole part of a second on, a difference of two readings is rounded in the same way in every run.
    wall_us, started_s = outside.wall_us(), math.ceil(outside.monotonic_s() * PARTS) / PARTS

    async def pause(seconds: float) -> None:
        time.wait(seconds)
        # Other tasks get their turn, as they would during a real wait.
        import asyncio

        await asyncio.sleep(0)

    return replace(
        outside,
        wall_us=lambda: wall_us + int(time.passed_s * 1_000_000),
        monotonic_s=lambda: started_s + time.passed_s,
        sleep=time.wait,
        pause=pause,
    )
