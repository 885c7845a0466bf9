"""Concurrent coroutines share one flush, as threads do through the combiner: whoever comes while a flush is under way
goes with a later one. There is no timer, and a flush hops to a thread once for all of them.

Nobody takes all who wait: while some are flushed, those who were answered prepare their next item, so that the
program and the database work at the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")
R = TypeVar("R")

SHARE_MIN = 25
"""So few are not worth dividing."""


class _Crowd(Generic[T, R]):
    """Who is waiting on one loop, and how many are being flushed."""

    __slots__ = ("busy", "flying", "waiting")

    def __init__(self) -> None:
        self.waiting: list[tuple[T, asyncio.Future[R]]] = []
        self.flying = 0
        self.busy = 0

    def take(self, groups: int, most: int) -> list[tuple[T, asyncio.Future[R]]]:
        """The longest waiting, about as many as in each of the other groups."""
        share = -(-(len(self.waiting) + self.flying) // groups)
        count = min(max(share, SHARE_MIN), most)
        taken, self.waiting = self.waiting[:count], self.waiting[count:]
        return taken


class Gathering(Generic[T, R]):
    """Gathers items of many coroutines, loop by loop, and hands them to `flush`, which blocks."""

    def __init__(self, flush: Callable[[Sequence[T]], Sequence[R]], *, most: int, lanes: int = 1) -> None:
        """
        Args:
            most: so many items go together at most.
            lanes: so many flushes may be under way at once.
        """
        self._flush = flush
        self._most = most
        self._lanes = lanes
        self._crowds: WeakKeyDictionary[asyncio.AbstractEventLoop, _Crowd[T, R]] = WeakKeyDictionary()
        self._tasks: set[asyncio.Task[None]] = set()

    async def submit(self, item: T) -> R:
        """Flush the item, alone or in company, and return its result.

        Raises:
            Exception: whatever the flush raised; everyone in the same flush gets it.
        """
        loop = asyncio.get_running_loop()
        crowd = self._crowds.get(loop)
        if crowd is None:
            crowd = self._crowds[loop] = _Crowd()
        future: asyncio.Future[R] = loop.create_future()
        crowd.waiting.append((item, future))
        if crowd.busy < self._lanes:
            crowd.busy += 1
            task = loop.create_task(self._work_off(crowd))
            # The loop itself holds its tasks only weakly.
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await future

    async def _work_off(self, crowd: _Crowd[T, R]) -> None:
        try:
            while batch := crowd.take(self._lanes + 1, self._most):
                crowd.flying += len(batch)
                try:
                    await self._answer(batch)
                finally:
                    crowd.flying -= len(batch)
                await asyncio.sleep(0)  # those who were answered may have more
        finally:
            crowd.busy -= 1

    async def _answer(self, batch: list[tuple[T, asyncio.Future[R]]]) -> None:
        try:
            results = await asyncio.to_thread(self._flush, [item for item, _ in batch])
        except BaseException as error:
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            if not isinstance(error, Exception):
                raise  # the loop ends
            return
        for (_, future), result in zip(batch, results, strict=True):
            if not future.done():  # a caller that was cancelled waits no more
                future.set_result(result)
