"""The life of a serving process: requests and jobs until a signal, then first the jobs, then the requests, are ended.

Always true: the first SIGTERM or Ctrl-C lets what runs finish or gives it back; the second ends at once, with the jobs
given back. Requests are answered until the last job has ended, because jobs may call this very process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from socket import socket
from typing import TYPE_CHECKING, Any

from holdfast.catalog import Failure
from holdfast.http.front import Front
from holdfast.http.health import Health
from holdfast.store import Store
from holdfast.worker import Worker, ledger
from holdfast.worker.signals import STOPPING, Words

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Event, Task

REQUESTS_S_MAX = 5
"""Maximum time that requests may take to end, counted from when the jobs have ended."""
LOOK_S = 0.5
"""Interval between checks that the worker is still alive."""


class Ended(Enum):
    """How the process came to its end."""

    STOPPED = "stopped"
    LEFT = "left"
    """Somebody was in a hurry: threads may still run, and must not be waited for."""
    BROKEN = "broken"
    """The worker ended without having been asked."""


@dataclass(slots=True)
class Serving:
    """What is served, and how."""

    front: Front
    health: Health
    listener: socket
    store: Store
    worker: Worker | None
    ready: Callable[[], None]
    """Called when requests are answered and jobs are done."""
    closing: Callable[[], None]
    """Called when it is the requests' turn to end: whatever never ends by itself has to end now."""

    def run(self) -> Ended:
        """Work until told to stop.

        Raises:
            StartFailed: a part did not start.
            Failure: the database cannot be reached.
        """
        import asyncio

        loop = asyncio.new_event_loop()
        try:
            return loop.run_until_complete(self._run())
        finally:
            _wind_up(loop)

    async def _run(self) -> Ended:
        import asyncio

        from holdfast.http.server import Server

        server = Server(self.front, stop_s_max=REQUESTS_S_MAX)
        async with self.front.living():
            asked = _Asked(asyncio.get_running_loop())
            serving = asyncio.ensure_future(server.serve(sockets=[self.listener]))
            try:
                begun = asyncio.ensure_future(server.begun.wait())
                await asyncio.wait({begun, serving}, return_when=asyncio.FIRST_COMPLETED)
                if self.worker is not None:
                    await asyncio.to_thread(self.worker.start)
                self.ready()
                ended = await self._until_asked(asked, serving)
                self.health.stopping = True
                if ended is not Ended.BROKEN:
                    await self._finish_jobs(asked)
            finally:
                self.closing()
                server.should_exit = True
                await self._finish_requests(server, serving, asked)
        return Ended.LEFT if asked.leave.is_set() else ended

    async def _until_asked(self, asked: _Asked, serving: Task[None]) -> Ended:
        import asyncio

        waiting = asyncio.ensure_future(asked.stop.wait())
        try:
            while not waiting.done():
                if serving.done():
                    serving.result()
                    return Ended.BROKEN
                if self.worker is not None and self.worker.join(0):
                    return Ended.BROKEN
                await asyncio.wait({waiting, serving}, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
            return Ended.STOPPED
        finally:
            waiting.cancel()

    async def _finish_jobs(self, asked: _Asked) -> None:
        import asyncio

        if self.worker is None:
            return
        self.worker.stop()
        while not await asyncio.to_thread(self.worker.join, 0.05):
            if asked.leave.is_set():
                await asyncio.to_thread(self._give_back, self.worker)
                return

    async def _finish_requests(self, server: Any, serving: Task[None], asked: _Asked) -> None:
        import asyncio

        leaving = asyncio.ensure_future(asked.leave.wait())
        await asyncio.wait({serving, leaving}, return_when=asyncio.FIRST_COMPLETED)
        server.force_exit = leaving.done()
        leaving.cancel()
        await asyncio.wait({serving})

    def _give_back(self, worker: Worker) -> None:
        """Release every job that is held; a handler that goes on holds a token that no longer counts."""
        try:
            self.store.atomic(
                lambda tx: ledger.release_all(tx, worker.id, "the process was told to end at once"), repeatable=True
            )
        except Failure:
            return  # the lease runs out, and others take the jobs back


def _wind_up(loop: AbstractEventLoop) -> None:
    """End what still runs on the loop. Threads that block are not waited for, as `asyncio.run` would for ever."""
    import asyncio

    rest = asyncio.all_tasks(loop)
    for task in rest:
        task.cancel()
    if rest:
        loop.run_until_complete(asyncio.wait(rest, timeout=REQUESTS_S_MAX))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


class _Asked:
    """What the signals have asked for so far."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        import asyncio

        self.stop: Event = asyncio.Event()
        self.leave: Event = asyncio.Event()
        self._words = Words()
        for number in STOPPING:
            loop.add_signal_handler(number, self._hear, number)

    def _hear(self, number: int) -> None:
        self._words.hear([number])
        self.stop.set()
        if self._words.again:
            self.leave.set()
