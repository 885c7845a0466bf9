"""The retry budget: retries may be a share of the traffic and no more, so that they never feed an outage.

Always true, at the moment of every grant: the retries granted in the last `window_s` seconds, this one included,
are at most `share` of the calls of those seconds plus `reserve_per_s * window_s`.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from math import isfinite

from holdfast.policy.backoff import PolicyInvalid

BINS = 10
"""Into so many parts the window is cut; finer counts more exactly and costs more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How many retries the traffic pays for."""

    share: float = 0.1
    """Retries for each call: 0.1 is one retry for ten calls."""
    reserve_per_s: float = 1.0
    """So many retries a second are free, so that little traffic can be retried too."""
    window_s: float = 10.0
    """Calls older than this pay for nothing."""

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise PolicyInvalid(f"share: {self.share} is not between 0 and 1")
        if not (isfinite(self.reserve_per_s) and self.reserve_per_s >= 0):
            raise PolicyInvalid(f"reserve_per_s: {self.reserve_per_s} is not a number of retries, 0 or more")
        if not (isfinite(self.window_s) and self.window_s >= 0.001):
            raise PolicyInvalid(f"window_s: {self.window_s} is not a number of seconds of at least 0.001")

    @property
    def reserve(self) -> float:
        """The retries that one window grants without any traffic."""
        return self.reserve_per_s * self.window_s


class Purse:
    """A budget in use; threads may share it.

    A call is counted with `purse.calls += 1`: no lock and no clock. Two threads may lose a count between them,
    which only makes the budget smaller. When the calls came is not known exactly; they count as having come at
    the last look before them (`withdraw`, `left`, `observe`), the earliest they can have. Whoever has many calls
    and few retries looks now and then with `observe`, or those calls are too old to pay when they are first seen.
    """

    __slots__ = ("_bin", "_bin_us", "_called", "_granted", "_lock", "_seen", "budget", "calls")

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.calls = 0
        self._seen = 0
        self._bin: int | None = None
        self._bin_us = round(budget.window_s * 1_000_000 / BINS)
        # One bin more than the window has: the oldest lies in it only partly. Its retries still count, its calls not.
        self._called = [0] * (BINS + 1)
        self._granted = [0] * (BINS + 1)
        self._lock = threading.Lock()

    def deposit(self) -> None:
        """Count a call."""
        self.calls += 1

    def observe(self, now_s: float) -> None:
        """Note that the calls so far came before now."""
        with self._lock:
            self._look(now_s)

    def withdraw(self, now_s: float) -> bool:
        """Take one retry out; False when there is none left."""
        with self._lock:
            newest = self._look(now_s)
            if self._left() < 1:
                return False
            self._granted[newest % (BINS + 1)] += 1
            return True

    def left(self, now_s: float) -> float:
        """How many retries are left now; never negative."""
        with self._lock:
            self._look(now_s)
            return max(0.0, self._left())

    def _left(self) -> float:
        return self.budget.share * sum(self._called) + self.budget.reserve - sum(self._granted)

    def _look(self, now_s: float) -> int:
        """Move on to the bin of now, book the calls since the last look, and answer the bin's number."""
        newest = round(now_s * 1_000_000) // self._bin_us
        last = self._bin
        # Threads may arrive a little out of order. A clock that is a whole window behind is another clock.
        if last is not None and last - BINS <= newest <= last:
            newest = last
        elif last is None or newest < last or newest > last + BINS:
            self._forget()
        else:
            self._advance(last, newest)
        self._book(last, newest)
        self._bin = newest
        return newest

    def _forget(self) -> None:
        self._called = [0] * (BINS + 1)
        self._granted = [0] * (BINS + 1)

    def _advance(self, last: int, newest: int) -> None:
        for number in range(last + 1, newest + 1):
            self._called[number % (BINS + 1)] = self._granted[number % (BINS + 1)] = 0
        # What is now the oldest bin began before the window did.
        self._called[(newest - BINS) % (BINS + 1)] = 0

    def _book(self, last: int | None, newest: int) -> None:
        # A count that was lost in a race can reappear; booking only what is above all that was ever seen keeps
        # it from paying twice.
        fresh = self.calls - self._seen
        if fresh <= 0:
            return
        self._seen += fresh
        if last is not None and newest - BINS < last <= newest:
            self._called[last % (BINS + 1)] += fresh
