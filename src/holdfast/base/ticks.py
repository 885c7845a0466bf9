"""Time for ids: a clock's readings as numbers of which none comes twice."""

from __future__ import annotations

import threading


class Ticks:
    """Counts in 1/4096 of a millisecond; every number is greater than the one before, whatever the clock does."""

    __slots__ = ("_last", "_lock")

    def __init__(self) -> None:
        self._last = -1
        self._lock = threading.Lock()

    def following(self, wall_us: int, count: int = 1) -> int:
        """The tick of this moment, or the next free one when the clock stands still or goes back.

        `count` consecutive ticks are taken: this one and the ones right after it.
        """
        milliseconds, microseconds = divmod(wall_us, 1_000)
        # Rounding up keeps `id_time_us` exact: 4096 steps cover 1000 microseconds.
        tick = milliseconds << 12 | -(-microseconds * 4_096 // 1_000)
        with self._lock:
            first = max(tick, self._last + 1)
            self._last = first + count - 1
            return first
