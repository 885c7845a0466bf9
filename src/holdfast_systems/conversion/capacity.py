"""How many conversions this process sends to the gateway at once: as many as the gateway takes.

A gateway that has no place is well. It is asked for less, at once, and for a little more with each conversion that it
takes, so that several processes find their shares without knowing of each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from holdfast.base import monotonic_s

RISE = 0.1
"""Part of one place that is added with each round of conversions that were taken."""


class Capacity:
    """The share of this process; threads may share it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = Lock()
        self._share = float(most)
        self._running = 0
        self._shut_until_s = float("-inf")

    def room(self) -> int:
        """How many conversions may run at once here for now; never less than run already."""
        with self._lock:
            if monotonic_s() < self._shut_until_s:
                return self._running
            return max(self._running, int(self._share))

    @contextmanager
    def calling(self) -> Iterator[None]:
        """A conversion is with the gateway during the block."""
        with self._lock:
            self._running += 1
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1

    def taken(self) -> None:
        """The gateway took a conversion."""
        with self._lock:
            self._share = min(float(self._most), self._share + RISE / self._share)

    def refused(self, wait_s: float) -> None:
        """The gateway had no place for one: what else is with it is what it takes. Called during the block."""
        with self._lock:
            others = self._running - 1
            self._share = max(1.0, min(self._share, float(others)))
            if others <= 0:
                # Others fill the gateway: there is nothing to learn before the time that it asks for is over.
                self._shut_until_s = max(self._shut_until_s, monotonic_s() + wait_s)
