"""Concurrent coroutines share one flush, as threads do through the combiner: one that arrives while a flush is under
way joins a later one. There is no timer.

A flush takes about half of all: while it is under way, those who were answered prepare their next item, so that the
program and the database work at the same time. For the same reason a thread that flushes goes on with the next items
by itself: asked by the event loop, it would wait until the loop, busy with the answers, lets go of the interpreter.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from operator import itemgetter
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary, ref

T = TypeVar("T")
R = TypeVar("R")

SHARE_MIN = 8
"""Minimum number of items that a flush takes, where that many wait: fewer are not worth dividing."""
THREADS_MAX = 32
"""Maximum number of flushes that are under way in threads."""

Waiting = list[tuple[T, "asyncio.Future[R]"]]
_ITEM = itemgetter(0)


class _Crowd(Generic[T, R]):
    """The items that wait on one loop, and whether a flush is under way.

    Two threads know it: the loop's, in which items join, and the one that flushes. Lists are changed by one operation
    each, and `flushing` is held from the first item that joins until none is left, so nothing else is locked.
    """

    __slots__ = ("__weakref__", "flushing", "waiting")

    def __init__(self) -> None:
        self.waiting: Waiting[T, R] = []
        self.flushing = threading.Lock()

    def take(self, most: int, answered: int) -> Waiting[T, R]:
        """The longest waiting: half of them and of those who were answered a moment ago and may have more to come.

        The flushing ends when none is left.
        """
        waiting = self.waiting
        while True:
            half = -(-(len(waiting) + answered) // 2)
            count = min(max(half, SHARE_MIN), most)
            taken = waiting[:count]
            del waiting[:count]
            if taken:
                return taken
            self.flushing.release()
            # An item that joined before this found a flush under way, and did not start one.
            if not waiting or not self.flushing.acquire(blocking=False):
                return taken

    def leave(self) -> None:
        """Drop the items that wait, and end the flushing."""
        self.waiting.clear()
        self.flushing.release()


class Gathering(Generic[T, R]):
    """Gathers items of many coroutines, loop by loop, and hands them to `flush`, which blocks."""

    def __init__(
        self,
        flush: Callable[[Sequence[T]], Sequence[R]],
        *,
        most: int,
        flush_async: Callable[[Sequence[T]], Awaitable[Sequence[R] | None]] | None = None,
        prepare: Callable[[Sequence[T]], Callable[[], Sequence[R]]] | None = None,
    ) -> None:
        """
        Args:
            most: maximum number of items in one flush.
            flush_async: a way without a thread, tried first; it answers None where it cannot.
            prepare: the same as `flush` in two steps: all that needs the interpreter first, then a function that
                mostly waits for the database.
        """
        self._flush = flush
        self._flush_async = flush_async
        self._prepare = prepare or (lambda items: partial(flush, items))
        self._most = most
        self._crowds: WeakKeyDictionary[asyncio.AbstractEventLoop, _Crowd[T, R]] = WeakKeyDictionary()
        # Nearly always there is one loop.
        self._recent: tuple[Callable[[], asyncio.AbstractEventLoop | None], _Crowd[T, R]] = lambda: None, _Crowd()
        self._tasks: set[asyncio.Task[None]] = set()

    async def submit(self, item: T) -> R:
        """Flush the item, alone or in company, and return its result.

        Raises:
            Exception: whatever the flush raised; everyone in the same flush gets it.
        """
        return await self.join(item)

    def join(self, item: T) -> asyncio.Future[R]:
        """The same without a coroutine of its own: what is returned is to be awaited."""
        loop = asyncio.get_running_loop()
        recent, crowd = self._recent
        if recent() is not loop:
            crowd = self._crowd(loop)
        future: asyncio.Future[R] = loop.create_future()
        crowd.waiting.append((item, future))
        if crowd.flushing.acquire(False):
            # Deferred, so that items submitted in the same iteration of the loop join the batch.
            loop.call_soon(self._start, loop, crowd)
        return future

    def _crowd(self, loop: asyncio.AbstractEventLoop) -> _Crowd[T, R]:
        """The items that wait on this loop."""
        crowd = self._crowds.get(loop) or self._crowds.setdefault(loop, _Crowd())
        self._recent = ref(loop), crowd
        return crowd

    def _start(self, loop: asyncio.AbstractEventLoop, crowd: _Crowd[T, R]) -> None:
        if self._flush_async is None:
            _threads().submit(copy_context().run, self._work_off, loop, crowd)
            return
        task = loop.create_task(self._work_off_async(crowd))
        # The loop itself holds its tasks only weakly.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _work_off(self, loop: asyncio.AbstractEventLoop, crowd: _Crowd[T, R]) -> None:
        """Flush in this thread until no item waits."""
        answered: Waiting[T, R] = []
        told: Sequence[R] | BaseException = ()
        while True:
            batch = crowd.take(self._most, len(answered))
            flush = self._prepared(list(map(_ITEM, batch))) if batch else None
            try:
                # Not before the next flush is prepared: the loop would wake up only to wait for the interpreter.
                if answered:
                    loop.call_soon_threadsafe(_answer, answered, told)
            except RuntimeError:  # the loop was closed: no coroutine waits any more
                if batch:
                    crowd.leave()
                return
            if flush is None:
                return
            answered, told = batch, flush()

    def _prepared(self, items: Sequence[T]) -> Callable[[], Sequence[R] | BaseException]:
        """What remains to be done for the items; it answers an error instead of raising it."""
        try:
            flush = self._prepare(items)
        except BaseException as error:  # noqa: BLE001 - everyone in the batch gets it
            unfit = error
            return lambda: unfit

        def flushed() -> Sequence[R] | BaseException:
            try:
                return flush()
            except BaseException as error:  # noqa: BLE001 - as above
                return error

        return flushed

    async def _work_off_async(self, crowd: _Crowd[T, R]) -> None:
        """Flush on the loop until no item waits."""
        assert self._flush_async is not None
        answered = 0
        while batch := crowd.take(self._most, answered):
            answered = len(batch)
            items = list(map(_ITEM, batch))
            told: Sequence[R] | BaseException | None
            try:
                told = await self._flush_async(items)
                if told is None:
                    told = await asyncio.to_thread(self._flush, items)
            except BaseException as error:
                _answer(batch, error)
                if not isinstance(error, Exception):
                    crowd.leave()
                    raise  # the loop ends
            else:
                _answer(batch, told)


def _answer(batch: Waiting[T, R], told: Sequence[R] | BaseException) -> None:
    """Tell each its result, or all of them the error. A caller that was cancelled waits no more."""
    if not isinstance(told, BaseException) and len(told) != len(batch):
        told = RuntimeError(f"a flush of {len(batch)} items had {len(told)} results: nobody can say whose they are")
    if isinstance(told, BaseException):
        for _, future in batch:
            if not future.done():
                future.set_exception(told)
        return
    for (_, future), result in zip(batch, told, strict=True):
        if not future.done():
            future.set_result(result)


_POOLS: list[ThreadPoolExecutor] = []
"""The threads that flush: not those of the loop, which may all be waiting for a flush."""
_MAKING = threading.Lock()


def _threads() -> ThreadPoolExecutor:
    with _MAKING:
        if not _POOLS:
            _POOLS.append(ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="holdfast-flush"))
        return _POOLS[0]


def _forget_all() -> None:
    """Begin anew in a forked process, which does not have the threads of its parent."""
    global _MAKING
    _MAKING = threading.Lock()
    _POOLS.clear()


os.register_at_fork(after_in_child=_forget_all)
