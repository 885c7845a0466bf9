"""Concurrent coroutines share one flush, as threads do through the combiner: whoever comes while a flush is under way
goes with the next one. There is no timer, and a flush hops to a thread once for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")
R = TypeVar("R")


class Gathering(Generic[T, R]):
    """Gathers items of many coroutines, loop by loop, and hands them to `flush`, which blocks."""

    def __init__(self, flush: Callable[[Sequence[T]], Sequence[R]], *, most: int) -> None:
        self._flush = flush
        self._most = most
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, list[tuple[T, asyncio.Future[R]]]]
        self._loops = WeakKeyDictionary()
        self._tasks: set[asyncio.Task[None]] = set()

    async def submit(self, item: T) -> R:
        """Flush the item, alone or in company, and return its result.

        Raises:
            Exception: whatever the flush raised; everyone in the same flush gets it.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[R] = loop.create_future()
        pending = self._loops.get(loop)
        if pending is None:
            self._loops[loop] = [(item, future)]
            task = loop.create_task(self._work_off(loop))
            # The loop itself holds its tasks only weakly.
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            pending.append((item, future))
        return await future

    async def _work_off(self, loop: asyncio.AbstractEventLoop) -> None:
        while pending := self._loops[loop]:
            batch, self._loops[loop] = pending[: self._most], pending[self._most :]
            try:
                results = await asyncio.to_thread(self._flush, [item for item, _ in batch])
            except BaseException as error:
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
                if not isinstance(error, Exception):
                    raise  # the loop ends
                continue
            for (_, future), result in zip(batch, results, strict=True):
                if not future.done():  # a caller that was cancelled waits no more
                    future.set_result(result)
        del self._loops[loop]
