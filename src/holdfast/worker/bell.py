"""A bell: rung only while somebody waits for it, because setting an event costs as much as a small job."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Bell:
    """One thread waits, any other may ring."""

    __slots__ = ("_event", "waited_for")

    def __init__(self) -> None:
        self._event = threading.Event()
        self.waited_for = False
        """Whether ringing is worth while; look here first."""

    def ring(self) -> None:
        """Wake the thread that waits, or the next one that would wait."""
        self._event.set()

    def wait(self, seconds: float, already: Callable[[], bool]) -> None:
        """Until it rings. `already` is asked once more, after the others can see that somebody waits."""
        self.waited_for = True
        if not already():
            self._event.wait(seconds)
        self.waited_for = False
        self._event.clear()
