"""How many calls went well and badly in the last seconds, counted in slices of a tenth."""

from __future__ import annotations

from collections import deque
from math import inf

SLICES = 10
"""A window moves on in tenths."""


class Window:
    """Every call of the last `length_s` is counted, and none that is older than `length_s` and one slice."""

    __slots__ = ("_bad", "_end_s", "_good", "_past", "_slice_s", "length_s")

    def __init__(self, length_s: float) -> None:
        self.length_s = length_s
        self._slice_s = length_s / SLICES
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._past: deque[tuple[float, int, int]] = deque(maxlen=SLICES)
        self._end_s = -inf
        self._good = self._bad = 0

    def add(self, now_s: float, good: int, bad: int) -> None:
        """Count calls that came now."""
        if not 0 < self._end_s - now_s <= 2 * self._slice_s:
            self._begin_slice(now_s)
        self._good += good
        self._bad += bad

    def counts(self, now_s: float) -> dict[str, int]:
        """Failures and calls."""
        self.add(now_s, 0, 0)
        past = self._past
        while past and past[0][0] <= now_s - self.length_s:
            past.popleft()
        good, bad = self._good, self._bad
        for _, slice_good, slice_bad in past:
            good += slice_good
            bad += slice_bad
        return {"failures": bad, "calls": good + bad}

    def _begin_slice(self, now_s: float) -> None:
        if now_s < self._end_s:
            self._past.clear()  # the clock went back: what was counted belongs to another time
        elif self._good or self._bad:
            self._past.append((self._end_s, self._good, self._bad))
        self._good = self._bad = 0
        self._end_s = now_s + self._slice_s
