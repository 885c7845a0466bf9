"""Many time limits on one clock: nobody is told early, nobody much too late, and only who is late."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.http.alarms import TICK_S, Alarms

from .stepped_loop import here, run

STEP_S = 1 / 256
"""Far below a tick, and exact in binary."""


async def test_work_that_is_in_time_is_not_disturbed() -> None:
    alarms = Alarms()
    assert await alarms.within(60.0, asyncio.sleep(0, "done")) == "done"
    alarms.close()


@pytest.mark.parametrize("seconds", [0.05, 1.0])
def test_who_is_late_is_told_within_a_tick(seconds: float) -> None:
    async def wait() -> None:
        loop, alarms = here(), Alarms()
        began_s, ended_s = loop.time(), []

        async def late() -> None:
            with pytest.raises(TimeoutError):
                await alarms.within(seconds, asyncio.sleep(60))
            ended_s.append(loop.time() - began_s)

        waiting = [asyncio.create_task(late()) for _ in range(20)]
        quick = asyncio.create_task(alarms.within(60.0, asyncio.sleep(seconds / 2, "in time")))
        await loop.settle()
        while loop.time() - began_s < seconds + 3 * TICK_S:
            await loop.advance(STEP_S)
        assert len(ended_s) == len(waiting)
        assert seconds <= min(ended_s) <= max(ended_s) < seconds + 3 * TICK_S
        assert await quick == "in time"
        await asyncio.gather(*waiting)
        alarms.close()

    run(wait())


async def test_a_cancellation_from_outside_stays_one() -> None:
    alarms = Alarms()
    task = asyncio.create_task(alarms.within(60.0, asyncio.sleep(60)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    alarms.close()


async def test_the_clock_stands_still_when_nobody_waits_and_starts_again() -> None:
    alarms = Alarms()
    for _ in range(2):
        with pytest.raises(TimeoutError):
            await alarms.within(1.0, asyncio.sleep(60))
        await asyncio.sleep(2 * TICK_S)  # the next tick finds nobody
        assert alarms._timer is None
