"""Signals as something to wait for. The signal handler itself does nothing, so it can neither deadlock nor raise."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Protocol

from holdfast.base import monotonic_s

STOPPING = (signal.SIGTERM, signal.SIGINT)
READ_BYTES_MAX = 4_096
AGAIN_S = 0.5
"""Time after the first signal in which another one counts as the same: supervisors signal a process and, with its
group, once more."""


class Waitable(Protocol):
    """Something that `select` can wait for."""

    def fileno(self) -> int: ...


class Bell:
    """Rings when one of the signals comes; only for the main thread.

    ```python
    with Bell(STOPPING) as bell:
        bell.wait(10)
        numbers = bell.rung()
    ```
    """

    def __init__(self, numbers: Iterable[signal.Signals]) -> None:
        self._numbers = tuple(numbers)
        self._before: dict[signal.Signals, Any] = {}
        self._descriptor_before = -1
        self._reading = self._writing = -1

    def __enter__(self) -> Bell:
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        os.set_blocking(self._writing, False)
        self._descriptor_before = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        # Without a handler of Python's own the interpreter would not write to the pipe.
        self._before = {number: signal.signal(number, _nothing) for number in self._numbers}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._descriptor_before)
        os.close(self._reading)
        os.close(self._writing)

    def fileno(self) -> int:
        return self._reading

    def wait(self, seconds: float, *others: Waitable) -> None:
        """Until a signal comes, one of the others has something to say, or the time is over."""
        select.select([self, *others], [], [], max(0.0, seconds))

    def rung(self) -> list[int]:
        """The signals that came since this was last asked, in order."""
        try:
            return [number for number in os.read(self._reading, READ_BYTES_MAX) if number in self._numbers]
        except BlockingIOError:
            return []


class Words:
    """How often somebody said stop."""

    def __init__(self) -> None:
        self._first_s: float | None = None
        self.again = False

    @property
    def said(self) -> bool:
        return self._first_s is not None

    def hear(self, numbers: Iterable[int]) -> None:
        """These signals came just now."""
        if not any(number in STOPPING for number in numbers):
            return
        if self._first_s is None:
            self._first_s = monotonic_s()
        elif monotonic_s() - self._first_s >= AGAIN_S:
            self.again = True


def _nothing(number: int, frame: object) -> None:
    """The byte in the pipe says it all."""
