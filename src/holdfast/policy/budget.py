"""The retry budget: retries may be a share of the traffic and no more, so that they never feed an outage.

Always true, of every stretch of time: the retries granted in it are at most `share` of its calls, plus
`reserve_per_s` for each second of it, plus `burst`.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from math import isfinite

from holdfast.base.arguments import numeric
from holdfast.policy.backoff import PolicyInvalid


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How many retries the traffic pays for."""

    share: float = 0.1
    """Retries for each call: 0.1 is one retry for ten calls."""
    reserve_per_s: float = 1.0
    """Number of retries per second that are free, so that little traffic can be retried too."""
    burst: float = 20.0
    """Maximum number of retries that are saved up for the start of an outage; below 1 nothing is retried at all."""

    def __post_init__(self) -> None:
        for name in ("share", "reserve_per_s", "burst"):
            numeric(name, getattr(self, name), raises=PolicyInvalid)
        if not 0 <= self.share <= 1:
            raise PolicyInvalid(f"share: {self.share} is not between 0 and 1")
        if not (isfinite(self.reserve_per_s) and self.reserve_per_s >= 0):
            raise PolicyInvalid(f"reserve_per_s: {self.reserve_per_s} is not a number of retries, 0 or more")
        if not (isfinite(self.burst) and self.burst >= 0):
            raise PolicyInvalid(f"burst: {self.burst} is not a number of retries, 0 or more")


class Purse:
    """A budget in use; threads may share it.

    A call is counted with `purse.calls += 1`: no lock and no clock. Two threads may lose a count between them,
    which only makes the budget smaller. Calls pay when the budget is looked at (`withdraw`, `left`).
    """

    __slots__ = ("_lock", "_looked_s", "_saved", "_seen", "budget", "calls")

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.calls = 0
        self._seen = 0
        self._saved = budget.burst
        self._looked_s: float | None = None
        self._lock = threading.Lock()

    def deposit(self) -> None:
        """Count a call."""
        self.calls += 1

    def withdraw(self, now_s: float) -> bool:
        """Take one retry out; False when there is none left."""
        with self._lock:
            self._look(now_s)
            if self._saved < 1:
                return False
            self._saved -= 1
            return True

    def left(self, now_s: float) -> float:
        """How many retries are left now."""
        with self._lock:
            self._look(now_s)
            return self._saved

    def _look(self, now_s: float) -> None:
        """Put in what the calls and the time since the last look pay."""
        last_s = now_s if self._looked_s is None else self._looked_s
        # A count that was lost in a race can reappear; booking only what is above all that was ever seen keeps
        # it from paying twice.
        fresh = max(0, self.calls - self._seen)
        self._seen += fresh
        # Threads may arrive a little out of order, and a clock may go back: then no time has passed.
        paid = self.budget.share * fresh + self.budget.reserve_per_s * max(0.0, now_s - last_s)
        self._saved = min(self.budget.burst, self._saved + paid)
        self._looked_s = now_s
