"""A due time is a time on the database's clock, whichever way a job gets into the table."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest

from holdfast.base import World, replaced, world
from holdfast.store import Store
from holdfast.worker import Jobs, NewJob, ledger
from holdfast.worker.enqueueing import STREAM_MIN


def test_a_time_that_is_over_is_now_and_does_not_jump_the_queue(store: Store, jobs: Jobs) -> None:
    first = jobs.enqueue("first")
    past = datetime(2001, 1, 1, tzinfo=UTC)
    made = [jobs.enqueue("late", due=past), *jobs.enqueue_many([NewJob(kind="late", due=past)] * STREAM_MIN)]
    assert all(jobs.show(one.id)["lane"] == "ready" for one in (made[0], made[1], made[-1]))
    claimed = store.atomic(lambda tx: ledger.claim(tx, queue="default", worker="w-1", count=9))
    assert claimed[0].id == first.id


EVERY_WAY: dict[str, Callable[[Jobs, datetime], str]] = {
    "alone": lambda jobs, due: jobs.enqueue("k", due=due).id,
    "with a key": lambda jobs, due: jobs.enqueue("k", due=due, dedupe_key="d").id,
    "with the caller's transaction": lambda jobs, due: (
        jobs.store.atomic(lambda tx: jobs.enqueue("k", due=due, tx=tx)).id
    ),
    "from a coroutine": lambda jobs, due: asyncio.run(jobs.enqueue_async("k", due=due)).id,
    "a few": lambda jobs, due: jobs.enqueue_many([NewJob(kind="k", due=due)] * 3)[-1].id,
    "a stream": lambda jobs, due: jobs.enqueue_many([NewJob(kind="k", due=due)] * STREAM_MIN)[-1].id,
}


@pytest.mark.parametrize("way", EVERY_WAY)
@pytest.mark.parametrize("off_days", [-1, 1])
def test_a_due_time_is_the_databases_though_the_clients_clock_is_a_day_off(
    store: Store, way: str, off_days: int
) -> None:
    """SQLite's clock is that of its machine, hence the client's own; the time is kept to the microsecond there too."""
    real = world().wall_us
    with replaced(World(wall_us=lambda: real() + off_days * 86_400_000_000)):
        jobs = Jobs(store)
        now_us = store.atomic(lambda tx: tx.now_us(), write=False)
        due = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=now_us + 3_600_000_001)
        shown = jobs.show(EVERY_WAY[way](jobs, due))
    assert shown["due_us"] == now_us + 3_600_000_001
    assert shown["lane"] == "waiting"
    jobs.close()


def test_a_due_time_may_be_further_away_than_any_delay(jobs: Jobs) -> None:
    due = datetime(9999, 12, 31, tzinfo=timezone(timedelta(hours=-12)))
    assert jobs.show(jobs.enqueue("k", due=due).id)["lane"] == "waiting"
