"""Concurrent coroutines share one flush, as threads do through the combiner: whoever comes while a flush is under way
goes with a later one. There is no timer, and where a flush needs a thread, it hops there once for all of them.

A flush takes about half of all: while it is under way, those who were answered prepare their next item, so that the
program and the database work at the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")
R = TypeVar("R")

SHARE_MIN = 25
"""So few are not worth dividing."""


class _Crowd(Generic[T, R]):
    """Who is waiting on one loop, and whether somebody is being flushed."""

    __slots__ = ("busy", "waiting")

    def __init__(self) -> None:
        self.waiting: list[tuple[T, asyncio.Future[R]]] = []
        self.busy = False

    def take(self, most: int, answered: int) -> list[tuple[T, asyncio.Future[R]]]:
        """The longest waiting: half of them and of those who were answered a moment ago and may have more to come."""
        half = -(-(len(self.waiting) + answered) // 2)
        count = min(max(half, SHARE_MIN), most)
        taken, self.waiting = self.waiting[:count], self.waiting[count:]
        return taken


class Gathering(Generic[T, R]):
    """Gathers items of many coroutines, loop by loop, and hands them to `flush`, which blocks."""

    def __init__(
        self,
        flush: Callable[[Sequence[T]], Sequence[R]],
        *,
        most: int,
        flush_async: Callable[[Sequence[T]], Awaitable[Sequence[R] | None]] | None = None,
    ) -> None:
        """
        Args:
            most: so many items go together at most.
            flush_async: a way without a thread, tried first; it answers None where it cannot.
        """
        self._flush = flush
        self._flush_async = flush_async
        self._most = most
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
        if not crowd.busy:
            crowd.busy = True
            task = loop.create_task(self._work_off(crowd))
            # The loop itself holds its tasks only weakly.
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await future

    async def _work_off(self, crowd: _Crowd[T, R]) -> None:
        try:
            answered = 0
            while batch := crowd.take(self._most, answered):
                answered = len(batch)
                await self._answer(batch)
        finally:
            crowd.busy = False

    async def _answer(self, batch: list[tuple[T, asyncio.Future[R]]]) -> None:
        try:
            items = [item for item, _ in batch]
            results = None if self._flush_async is None else await self._flush_async(items)
            if results is None:
                results = await asyncio.to_thread(self._flush, items)
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
