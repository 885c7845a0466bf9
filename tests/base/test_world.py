"""All that is not determined comes from one value, and that value belongs to the context."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from dataclasses import replace

import pytest

from holdfast.base import REAL, Limits, World, limits, monotonic_s, new_id, now_us, prefixed_id, replaced, world

EARLY = World(
    wall_us=lambda: 1_000, monotonic_s=lambda: 1.0, dice=lambda: 0.25, token_bytes=lambda count: b"\x01" * count
)
LATE = World(wall_us=lambda: 2_000)


def test_replacing_the_world_replaces_all_of_it_at_once() -> None:
    with replaced(EARLY) as here:
        assert here is EARLY is world()
        assert (now_us(), monotonic_s(), world().dice()) == (1_000, 1.0, 0.25)
        assert prefixed_id("evt") == "evt_0101010101010101"
    assert world() is REAL


def test_the_inner_world_wins_and_the_outer_one_comes_back() -> None:
    with replaced(EARLY):
        with replaced(LATE):
            assert now_us() == 2_000
        assert now_us() == 1_000
    assert world() is REAL


def test_the_world_comes_back_after_an_exception() -> None:
    with pytest.raises(ZeroDivisionError), replaced(EARLY), replaced(LATE):
        raise ZeroDivisionError
    assert world() is REAL


def test_a_thread_with_a_copied_context_lives_in_the_replaced_world() -> None:
    seen: list[int] = []
    with replaced(EARLY):
        inside = threading.Thread(target=contextvars.copy_context().run, args=(lambda: seen.append(now_us()),))
        inside.start()
    inside.join()
    assert seen == [1_000]


def test_a_thread_with_a_fresh_context_lives_in_the_real_world() -> None:
    seen: list[World] = []
    with replaced(EARLY):
        outside = threading.Thread(target=contextvars.Context().run, args=(lambda: seen.append(world()),))
        outside.start()
        outside.join()
    assert seen == [REAL]


async def test_a_task_keeps_the_world_in_which_it_was_started() -> None:
    release = asyncio.Event()

    async def look() -> int:
        await release.wait()
        return now_us()

    with replaced(EARLY):
        early = asyncio.create_task(look())
        with replaced(LATE):
            late = asyncio.create_task(look())
        on_a_thread = asyncio.create_task(asyncio.to_thread(now_us))
    release.set()
    assert (await early, await late, await on_a_thread) == (1_000, 2_000, 1_000)


async def test_what_a_task_replaces_stays_in_that_task() -> None:
    async def replace_and_wait(by: World) -> int:
        with replaced(by):
            await asyncio.sleep(0)
            return now_us()

    assert await asyncio.gather(replace_and_wait(EARLY), replace_and_wait(LATE)) == [1_000, 2_000]
    assert world() is REAL


def test_the_real_clock_is_the_clock_on_the_wall() -> None:
    before = time.time_ns() // 1_000
    assert before <= now_us() <= time.time_ns() // 1_000
    assert all(0 <= REAL.dice() < 1 for _ in range(100))
    assert len(REAL.token_bytes(16)) == 16


async def test_a_real_pause_of_nothing_lets_others_run() -> None:
    others: list[str] = []
    asyncio.get_running_loop().call_soon(others.append, "ran")
    await REAL.pause(0)
    assert others == ["ran"]


def test_part_of_a_world_can_be_replaced() -> None:
    with replaced(replace(EARLY, limits=Limits(json_depth_max=3))):
        assert limits().json_depth_max == 3
        assert now_us() == 1_000


def test_equal_seeds_make_equal_ids_in_a_world_of_their_own() -> None:
    def run() -> list[str]:
        with replaced(replace(EARLY)):
            return [new_id() for _ in range(5)]

    assert run() == run()
