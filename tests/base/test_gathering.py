"""Coroutines that share a flush."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast.base.gathering import SHARE_MIN, Gathering

CALLERS = 100
ROUNDS = 10


class Flushes:
    """Answers ten times the item; remembers who went together and how many flushes were under way at once."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.at_once = 0
        self._under_way = 0
        self._lock = threading.Lock()

    def __call__(self, items: Sequence[int]) -> list[int]:
        with self._lock:
            self.batches.append(list(items))
            self._under_way += 1
            self.at_once = max(self.at_once, self._under_way)
        if -1 in items:
            self._leave()
            raise ValueError("minus one")
        self._leave()
        return [10 * item for item in items]

    def _leave(self) -> None:
        with self._lock:
            self._under_way -= 1


async def test_a_lone_item_is_flushed_alone() -> None:
    flushes = Flushes()
    assert await Gathering(flushes, most=10).submit(7) == 70
    assert flushes.batches == [[7]]


async def test_few_who_come_together_go_together() -> None:
    flushes = Flushes()
    gathering = Gathering(flushes, most=1_000)
    answers = await asyncio.gather(*(gathering.submit(item) for item in range(SHARE_MIN)))
    assert answers == [10 * item for item in range(SHARE_MIN)]
    assert flushes.batches == [list(range(SHARE_MIN))]


async def test_of_many_one_half_is_flushed_while_the_other_prepares() -> None:
    flushes = Flushes()
    gathering = Gathering(flushes, most=1_000)

    async def call(item: int) -> None:
        for _ in range(ROUNDS):
            assert await gathering.submit(item) == 10 * item

    await asyncio.gather(*(call(item) for item in range(CALLERS)))
    assert sorted(item for batch in flushes.batches for item in batch) == sorted(list(range(CALLERS)) * ROUNDS)
    assert len(flushes.batches[0]) == CALLERS // 2
    assert max(map(len, flushes.batches)) < CALLERS
    assert flushes.at_once == 1


async def test_no_flush_takes_more_than_the_most() -> None:
    flushes = Flushes()
    gathering = Gathering(flushes, most=7)
    await asyncio.gather(*(gathering.submit(item) for item in range(50)))
    assert max(map(len, flushes.batches)) == 7


async def test_the_way_without_a_thread_is_tried_first() -> None:
    flushes, tried = Flushes(), list[list[int]]()

    async def flush_async(items: Sequence[int]) -> list[int] | None:
        tried.append(list(items))
        return None if 2 in items else [100 * item for item in items]

    gathering = Gathering(flushes, most=10, flush_async=flush_async)
    assert [await gathering.submit(1), await gathering.submit(2)] == [100, 20]
    assert (tried, flushes.batches) == ([[1], [2]], [[2]])


async def test_an_error_reaches_everyone_of_its_flush_and_nobody_else() -> None:
    gathering = Gathering(Flushes(), most=2)
    calls = (gathering.submit(item) for item in (1, 2, -1, 4, 5))
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert answers[:2] == [10, 20]
    assert [type(answer) for answer in answers[2:4]] == [ValueError, ValueError]
    assert answers[4] == 50


async def test_a_flush_with_too_few_results_leaves_nobody_waiting() -> None:
    gathering = Gathering(lambda items: [10 * item for item in items[1:]], most=10)
    answers = await asyncio.wait_for(
        asyncio.gather(*(gathering.submit(item) for item in range(3)), return_exceptions=True), 10
    )
    assert [str(answer)[:33] for answer in answers] == ["a flush of 3 items had 2 results:"] * 3


async def test_what_cannot_be_prepared_reaches_everyone_of_its_flush_and_nobody_else() -> None:
    flushes = Flushes()

    def prepare(items: Sequence[int]) -> Callable[[], list[int]]:
        if 3 in items:
            raise ValueError("three")
        return lambda: flushes(items)

    gathering = Gathering(flushes, most=2, prepare=prepare)
    answers = await asyncio.gather(*(gathering.submit(item) for item in range(6)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [int, int, ValueError, ValueError, int, int]
    assert flushes.batches == [[0, 1], [4, 5]]


async def test_whoever_is_flushed_is_answered_while_the_next_flush_is_under_way() -> None:
    release = threading.Event()

    def flush(items: Sequence[int]) -> list[int]:
        if 2 in items:
            release.wait(10)
        return [10 * item for item in items]

    gathering = Gathering(flush, most=1)
    first, second = (asyncio.create_task(gathering.submit(item)) for item in (1, 2))
    try:
        assert await asyncio.wait_for(first, 10) == 10
        assert not second.done()
    finally:
        release.set()
    assert await second == 20


async def test_nobody_is_forgotten_who_comes_while_a_thread_finds_that_none_is_left() -> None:
    gathering = Gathering(Flushes(), most=10)

    async def call(item: int) -> None:
        for _ in range(2_000):
            assert await gathering.submit(item) == 10 * item

    await asyncio.wait_for(asyncio.gather(*(call(item) for item in range(3))), 60)


async def test_a_caller_that_is_cancelled_hinders_nobody() -> None:
    gathering = Gathering(Flushes(), most=10)
    gone = asyncio.create_task(gathering.submit(1))
    kept = asyncio.create_task(gathering.submit(2))
    await asyncio.sleep(0)
    gone.cancel()
    assert await kept == 20
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert await gathering.submit(3) == 30


def test_every_loop_has_its_own_crowd() -> None:
    gathering = Gathering(Flushes(), most=10)
    assert [asyncio.run(gathering.submit(item)) for item in (1, 2)] == [10, 20]


def test_a_loop_that_was_closed_during_a_flush_leaves_the_thread_free() -> None:
    release, entered = threading.Event(), threading.Event()

    def flush(items: Sequence[int]) -> list[int]:
        entered.set()
        release.wait(10)
        return [10 * item for item in items]

    gathering = Gathering(flush, most=10)

    async def leave() -> None:
        waiting = asyncio.ensure_future(gathering.submit(1))
        await asyncio.to_thread(entered.wait, 10)
        waiting.cancel()

    loop = asyncio.new_event_loop()
    loop.run_until_complete(leave())
    loop.close()
    release.set()
    assert asyncio.run(gathering.submit(2)) == 20


async def test_a_flush_needs_none_of_the_threads_of_the_loop() -> None:
    release = threading.Event()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    blocking = asyncio.ensure_future(asyncio.to_thread(release.wait, 10))
    assert await Gathering(Flushes(), most=10).submit(7) == 70
    assert not blocking.done()
    release.set()
    await blocking
