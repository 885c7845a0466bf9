"""What `instant()` promises to a test."""

from __future__ import annotations

import asyncio
import threading

import pytest

from holdfast import Backoff, Link, Retry, within
from holdfast.base import REAL, monotonic_s, now_us, world
from holdfast.policy import left_s
from holdfast.testing import VirtualTime, instant, virtual_world


def test_waits_take_no_time_and_are_recorded() -> None:
    before_s = REAL.monotonic_s()
    with instant() as time:
        world().sleep(3_600)
        world().sleep(0.5)
    assert time.waits_s == [3_600, 0.5]
    assert REAL.monotonic_s() - before_s < 60


async def test_pauses_take_no_time_and_are_recorded_with_the_waits() -> None:
    with instant() as time:
        await world().pause(3_600)
        world().sleep(1)
    assert time.waits_s == [3_600, 1]


def test_both_clocks_move_on_by_what_would_have_been_waited_and_by_nothing_else() -> None:
    with instant() as time:
        start_s, start_us = monotonic_s(), now_us()
        assert (monotonic_s(), now_us()) == (start_s, start_us)
        world().sleep(10)
        assert monotonic_s() == pytest.approx(start_s + 10)
        assert now_us() == start_us + 10_000_000
        time.advance(5)
        assert monotonic_s() == pytest.approx(start_s + 15)
        assert now_us() == start_us + 15_000_000
    assert time.waits_s == [10]
    assert time.passed_s == 15


def test_the_clocks_start_at_the_present() -> None:
    before_us = REAL.wall_us()
    with instant():
        assert before_us <= now_us() <= REAL.wall_us()


def test_deadlines_run_out_by_virtual_time() -> None:
    with instant() as time, within(10):
        world().sleep(4)
        assert left_s() == pytest.approx(6)
        time.advance(7)
        assert left_s() == 0


def test_afterwards_the_world_is_the_one_before_also_after_an_exception() -> None:
    before = world()
    with pytest.raises(ZeroDivisionError), instant():  # noqa: PT012 - the loop or block is what is tested
        assert world() is not before
        raise ZeroDivisionError
    assert world() is before


def test_another_thread_keeps_its_own_world() -> None:
    seen: list[object] = []
    with instant():
        thread = threading.Thread(target=lambda: seen.append(world()))
        thread.start()
        thread.join()
    assert seen == [REAL]


async def test_tasks_inherit_it_and_tasks_from_before_do_not() -> None:
    go = asyncio.Event()

    async def look() -> object:
        await go.wait()
        return world()

    before = asyncio.create_task(look())
    await asyncio.sleep(0)
    with instant():
        inside = asyncio.create_task(look())
        go.set()
        assert await inside is world()
    assert await before is REAL


def test_a_nested_one_records_its_own_waits_and_goes_on_from_the_outer_time() -> None:
    with instant() as outer:
        world().sleep(10)
        start_s = monotonic_s()
        with instant() as inner:
            assert monotonic_s() == start_s
            world().sleep(1)
        assert monotonic_s() == start_s
    assert (outer.waits_s, inner.waits_s) == ([10], [1])


def test_everything_else_of_the_world_stays() -> None:
    virtual = virtual_world(VirtualTime())
    assert virtual.limits is REAL.limits
    assert virtual.dice is REAL.dice
    assert virtual.token_bytes is REAL.token_bytes


def test_a_links_waits_can_be_read_off() -> None:
    with instant() as time, pytest.raises(ConnectionRefusedError):
        Link("a", retry=Retry(attempts=4, backoff=Backoff.exponential(1))).call(_refused)
    assert time.waits_s == [1, 2, 4]


def _refused() -> None:
    raise ConnectionRefusedError


def test_threads_that_share_it_lose_no_time() -> None:
    time = VirtualTime()
    threads = [threading.Thread(target=lambda: [time.wait(1) for _ in range(500)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.passed_s == 2_000
    assert len(time.waits_s) == 2_000
