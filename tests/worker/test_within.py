"""`within_s`: no attempt at a job begins later than this after its first one did, by the database's clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from holdfast.base import World, replaced, world
from holdfast.catalog import Catalog
from holdfast.catalog.core import NETWORK_TIMEOUT
from holdfast.lifecycle import RetryIn, Snooze
from holdfast.policy import Backoff, Retry
from holdfast.store import Store
from holdfast.testing import VirtualTime, instant
from holdfast.worker import Job, Jobs, ledger
from holdfast.worker.dead import DeadLetters
from holdfast.worker.settlement import Settlement, answered, failed, released

WORKER = "w-1"
EVERY_MINUTE = Retry(attempts=20, attempts_unknown=20, backoff=Backoff.constant(60), within_s=200)

errors = Catalog("within")
BRIEF = errors.fault(
    "BRIEF", status=503, says="Gone in a moment.", retry=Retry(attempts=20, backoff=Backoff.constant(60), within_s=100)
)


@pytest.fixture
def time() -> Iterator[VirtualTime]:
    with instant() as passing:
        yield passing


@pytest.fixture
def jobs(virtual_store: Store, time: VirtualTime) -> Jobs:
    return Jobs(virtual_store)


def claim(store: Store, lane: str = ledger.LANE_READY) -> Job:
    store.atomic(lambda tx: tx.rows("job.promote", count=9))
    (job,) = store.atomic(lambda tx: ledger.claim(tx, queue="default", worker=WORKER, count=1, lane=lane))
    return job


def settle(store: Store, settlement: Settlement) -> None:
    assert store.atomic(lambda tx: ledger.settle(tx, WORKER, (), [settlement]))[1] == []


def begins(
    store: Store, jobs: Jobs, time: VirtualTime, fail: Callable[[Job], Settlement], took_s: float
) -> list[float]:
    """When the attempts at one job began, counted from the first, until there was no other."""
    made = jobs.enqueue("k")
    time.advance(1_000)  # in the queue: this does not count
    first_s, begun = time.passed_s, []
    while jobs.show(made.id)["state"] == "queued":
        job = claim(store)
        begun.append(time.passed_s - first_s)
        time.advance(took_s)
        settle(store, fail(job))
        time.advance(60)
    return begun


@pytest.mark.parametrize(
    ("fail", "took_s", "expected"),
    [
        (lambda job: failed(job, NETWORK_TIMEOUT(), EVERY_MINUTE, 1, blamed=True), 0, [0, 60, 120, 180]),
        (lambda job: failed(job, NETWORK_TIMEOUT(), EVERY_MINUTE, 1, blamed=True), 50, [0, 110]),
        (lambda job: answered(job, RetryIn(60), 1, EVERY_MINUTE), 0, [0, 60, 120, 180]),
        (lambda job: failed(job, BRIEF(), EVERY_MINUTE, 1, blamed=True), 0, [0, 60]),
    ],
)
def test_no_attempt_begins_after_the_time_is_over(
    virtual_store: Store,
    jobs: Jobs,
    time: VirtualTime,
    fail: Callable[[Job], Settlement],
    took_s: float,
    expected: list[float],
) -> None:
    assert begins(virtual_store, jobs, time, fail, took_s) == expected
    (letter,) = jobs.list(state="failed")
    reason = str(jobs.history(letter["id"])[-1]["reason"])
    assert "time_used" in reason or "later than" in reason


def test_a_revived_job_has_all_its_time_again(virtual_store: Store, jobs: Jobs, time: VirtualTime) -> None:
    fail = lambda job: failed(job, NETWORK_TIMEOUT(), EVERY_MINUTE, 1, blamed=True)  # noqa: E731
    begins(virtual_store, jobs, time, fail, 0)
    (letter,) = jobs.list(state="failed")
    DeadLetters(virtual_store).revive(letter["id"])
    time.advance(3_600)
    settle(virtual_store, fail(claim(virtual_store)))
    assert jobs.show(letter["id"])["state"] == "queued"


@pytest.mark.parametrize("give_back", [lambda job: answered(job, Snooze(0), 1), lambda job: released(job, "stops")])
def test_an_attempt_that_was_given_back_does_not_start_the_time(
    virtual_store: Store, jobs: Jobs, time: VirtualTime, give_back: Callable[[Job], Settlement]
) -> None:
    made = jobs.enqueue("k")
    settle(virtual_store, give_back(claim(virtual_store)))
    assert jobs.show(made.id)["started_us"] is None
    time.advance(3_600)
    settle(virtual_store, failed(claim(virtual_store), NETWORK_TIMEOUT(), EVERY_MINUTE, 1, blamed=True))
    assert jobs.show(made.id)["state"] == "queued"


def test_a_job_that_kills_its_workers_is_not_tried_past_its_time(
    virtual_store: Store, jobs: Jobs, time: VirtualTime
) -> None:
    made = jobs.enqueue("k")
    reclaim = lambda: virtual_store.atomic(  # noqa: E731
        lambda tx: ledger.reclaim(tx, WORKER, "w-2", lambda _: EVERY_MINUTE)
    )
    for _ in range(3):
        claim(virtual_store)
        time.advance(50)
        reclaim()
    claim(virtual_store, ledger.LANE_ALONE)
    time.advance(91)  # with the pause of a minute that would follow, this is too much
    reclaim()
    shown = jobs.show(made.id)
    assert (shown["state"], shown["error_code"]) == ("failed", "WORKER_LOST")


def test_the_time_is_the_databases_though_the_clock_of_the_next_worker_is_a_day_ahead(emptied_dsn: str) -> None:
    """On SQLite both are the clock of one machine."""
    store, real = Store.open(emptied_dsn), world().wall_us
    jobs, at_once = Jobs(store), Retry(attempts=9, backoff=Backoff.constant(0), within_s=3_600)
    made = jobs.enqueue("k")
    settle(store, failed(claim(store), NETWORK_TIMEOUT(), at_once, 1, blamed=True))
    with replaced(World(wall_us=lambda: real() + 86_400_000_000)):
        settle(store, failed(claim(store), NETWORK_TIMEOUT(), at_once, 1, blamed=True))
    assert (jobs.show(made.id)["state"], jobs.show(made.id)["attempt_count"]) == ("queued", 2)
    jobs.close()
    store.close()
