"""Many time limits on one clock: where thousands of exchanges have seconds each, a timer for every one is a waste.

An exchange that is late is ended at the next tick, so that a limit is overrun by one tick at most. Limits for which
that would be too much have a timer of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")

TICK_S = 0.05
EXACT_BELOW_S = 1.0
"""Shorter limits are kept to the moment; of longer ones a tick is at most a twentieth."""


class Alarms:
    """Time limits on one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._due: dict[int, set[asyncio.Timeout]] = {}
        """The timeouts that end at each tick."""
        self._last = 0
        self._timer: asyncio.TimerHandle | None = None

    async def within(self, seconds: float, work: Awaitable[T]) -> T:
        """What the work comes to.

        Raises:
            TimeoutError: it took longer.
        """
        if seconds < EXACT_BELOW_S:
            async with asyncio.timeout(seconds):
                return await work
        async with asyncio.timeout(None) as alarm:
            late = self._late(seconds)
            late.add(alarm)
            try:
                return await work
            finally:
                late.discard(alarm)

    def close(self) -> None:
        """Stop the clock."""
        if self._timer is not None:
            self._timer.cancel()

    def _late(self, seconds: float) -> set[asyncio.Timeout]:
        """The timeouts that end at the first tick after this many seconds."""
        now_s = self._loop.time()
        if self._timer is None:
            self._last = int(now_s / TICK_S)
            self._timer = self._loop.call_later(TICK_S, self._tick)
        tick = int((now_s + seconds) / TICK_S) + 1
        found = self._due.get(tick)
        if found is None:
            found = self._due[tick] = set()
        return found

    def _tick(self) -> None:
        now_s = self._loop.time()
        now = int(now_s / TICK_S)
        for tick in range(self._last + 1, now + 1):
            for alarm in self._due.pop(tick, ()):
                alarm.reschedule(now_s)
        self._last = now
        self._timer = self._loop.call_later(TICK_S, self._tick) if self._due else None
