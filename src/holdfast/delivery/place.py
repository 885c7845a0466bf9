"""A place in the line before an endpoint, kept in this process: a delivery that needs one only for a moment waits here.

Going back to the queue costs two transactions; a quick endpoint has room again long before they are written.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

WAIT_S = 0.25
"""Maximum time that a delivery waits here: while it waits, it holds one of the worker's places."""
WAITING_MAX = 50


class Place:
    """A delivery that waits for room. The one that makes room calls `grant`, in any thread."""

    __slots__ = ("_wake", "entered")

    def __init__(self) -> None:
        self.entered = False
        self._wake: Callable[[], None] | None = None

    def grant(self) -> None:
        """There is room."""
        self.entered = True
        if self._wake is not None:
            self._wake()

    # In both ways to wait, whom to wake is said before looking: a grant in between is seen or wakes, never neither.

    def wait(self) -> None:
        """Block until there is room, or the time is over."""
        woken = threading.Event()
        self._wake = woken.set
        if not self.entered:
            woken.wait(WAIT_S)

    async def wait_async(self) -> None:
        """The same on an event loop."""
        import asyncio

        loop = asyncio.get_running_loop()
        woken = asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop has ended, and with it the delivery that waited
                loop.call_soon_threadsafe(woken.set)

        self._wake = wake
        if not self.entered:
            with suppress(TimeoutError):
                async with asyncio.timeout(WAIT_S):
                    await woken.wait()


class WaitingRoom:
    """How many of this process may wait at once, before all endpoints together. Threads may share it."""

    __slots__ = ("_inside", "_lock", "most")

    def __init__(self, most: int = WAITING_MAX) -> None:
        self.most = most
        self._inside = 0
        self._lock = threading.Lock()

    def enter(self) -> bool:
        """Take one of the places, to be given back with `leave`; False when there is none."""
        with self._lock:
            if self._inside >= self.most:
                return False
            self._inside += 1
            return True

    def leave(self) -> None:
        """One is free again."""
        with self._lock:
            self._inside -= 1
