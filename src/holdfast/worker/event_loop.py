"""The event loop of a worker, on which its handlers that are coroutines run."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

END_S = 2.0
"""Maximum time that coroutines may take to end after they were cancelled."""


class EventLoop:
    """An event loop in a thread, started when the first coroutine needs it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._loop: AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def get(self) -> AbstractEventLoop:
        """The running loop."""
        with self._lock:
            if self._loop is None:
                self._loop = _new_loop()
                self._thread = threading.Thread(target=self._run, args=(self._loop,), name="holdfast-loop", daemon=True)
                self._thread.start()
            return self._loop

    def stop(self) -> None:
        """Cancel the coroutines that still run, and close the loop."""
        with self._lock:
            if self._loop is not None and self._thread is not None:
                self._stopping.set()
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join(END_S)

    def _run(self, loop: AbstractEventLoop) -> None:
        import asyncio

        while not self._stopping.is_set():
            try:
                loop.run_forever()
            except BaseException:  # noqa: BLE001, S112 - a task that a handler began tried to end the thread
                continue
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.wait(tasks, timeout=END_S))
        loop.close()


def _new_loop() -> AbstractEventLoop:
    """uvloop's where it is installed: coroutines that call others over the network then cost a third less."""
    import asyncio

    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
