"""The rate limit of a platform: a number of requests in a window of time, counted for all processes together.

A window opens with the first request after the last one closed. A process takes a share of it at once and spends that
by itself, so that most requests ask nobody; what a process leaves unspent is lost with the window. So never more than
the limit passes in one window, and a refused caller is told when the next one opens.
"""

from __future__ import annotations

import threading

from holdfast.base import monotonic_s
from holdfast.policy import Limited, RateLimit
from holdfast.store import Store, Tx

SHARE = 50
"""A process takes at most this part of a window at a time."""
SECOND_US = 1_000_000


class Window:
    """A limiter as `Receiver` asks for one. Threads may share it."""

    def __init__(self, store: Store, platform: str, limit: RateLimit) -> None:
        self.limit = limit
        self._store = store
        self._platform = platform
        self._window_us = round(limit.per_s * SECOND_US)
        self._share = max(1, limit.count // SHARE)
        self._lock = threading.Lock()
        self._left = 0
        self._shut = False
        self._closes_s = float("-inf")

    def take(self) -> Limited | None:
        """Let one through (None), or say when the next window opens.

        Raises:
            Failure: the database cannot be asked.
        """
        with self._lock:
            decided, refusal = self._from_share()
            if decided:
                return refusal
            asked_s = monotonic_s()
            self._left, closes_us = self._store.atomic(self._lease)
            # Counted from before the question: a share never outlives its window.
            self._closes_s = asked_s + closes_us / SECOND_US
            self._shut = not self._left  # nothing is ever given back to a window
            if self._shut:
                return Limited(max(1, closes_us))
            self._left -= 1
            return None

    def try_take(self) -> tuple[bool, Limited | None]:
        """As `take`, without waiting: whether it could be decided from the share that is here, and what."""
        if not self._lock.acquire(blocking=False):
            return False, None
        try:
            return self._from_share()
        finally:
            self._lock.release()

    def _from_share(self) -> tuple[bool, Limited | None]:
        open_s = self._closes_s - monotonic_s()
        if open_s <= 0:
            return False, None
        if self._shut:
            return True, Limited(max(1, int(open_s * SECOND_US)))
        if not self._left:
            return False, None
        self._left -= 1
        return True, None

    def _lease(self, tx: Tx) -> tuple[int, int]:
        """A share of the window that is open now, perhaps none, and how long it stays open."""
        tx.run("credentials.open_window", platform=self._platform)
        found = tx.row("credentials.window", platform=self._platform)
        assert found is not None
        opened_us, taken, now_us = found
        # A window of the future was opened before the clock went back.
        if not opened_us <= now_us < opened_us + self._window_us:
            opened_us, taken = now_us, 0
        share = max(0, min(self._share, self.limit.count - taken))
        if share:
            tx.run("credentials.take", platform=self._platform, opened_us=opened_us, taken=taken + share)
        return share, opened_us + self._window_us - now_us
