"""A history has an event for each transition, although the journal has one row for a whole attempt."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.base import World, replaced
from holdfast.base.limits import Limits
from holdfast.store import Store
from holdfast.testing import VirtualTime, instant
from holdfast.worker import DeadLetters, Job, Jobs, ledger
from holdfast.worker.settlement import released


@pytest.fixture
def time() -> Iterator[VirtualTime]:
    with instant() as virtual:
        yield virtual


@pytest.fixture
def jobs(virtual_store: Store, time: VirtualTime) -> Jobs:
    return Jobs(virtual_store)


def claim(store: Store, worker: str) -> Job:
    (job,) = store.atomic(lambda tx: ledger.claim(tx, queue="default", worker=worker, count=1))
    return job


def told(jobs: Jobs, job_id: str) -> list[tuple[str, str]]:
    """Who did what."""
    return [(event["verb"], event["worker"]) for event in jobs.history(job_id)]


def test_the_attempt_that_goes_on_is_told_and_keeps_its_time(
    virtual_store: Store, jobs: Jobs, time: VirtualTime
) -> None:
    made = jobs.enqueue("k")
    time.advance(1)
    job = claim(virtual_store, "w-1")
    begun = jobs.history(made.id)[-1]
    assert (begun["verb"], begun["at_us"], begun["attempt"]) == ("claimed", job.claimed_us, 1)
    time.advance(5)
    virtual_store.atomic(lambda tx: ledger.settle(tx, "w-1", [(job, None, 1)]))
    *_, claimed, finished = jobs.history(made.id)
    assert {**claimed, "id": begun["id"]} == begun
    assert finished["at_us"] - claimed["at_us"] == 5_000_000


def test_what_a_dead_worker_claimed_is_told_as_its_own(virtual_store: Store, jobs: Jobs, time: VirtualTime) -> None:
    made = jobs.enqueue("k")
    claim(virtual_store, "dead")
    time.advance(60)
    virtual_store.atomic(lambda tx: ledger.reclaim(tx, "dead", "sweeper", lambda _: None))
    assert told(jobs, made.id) == [("enqueued", ""), ("claimed", "dead"), ("reclaimed", "sweeper")]


def test_what_happens_during_an_attempt_comes_after_its_claim(
    virtual_store: Store, jobs: Jobs, time: VirtualTime
) -> None:
    made = jobs.enqueue("k")
    job = claim(virtual_store, "w-1")
    time.advance(1)
    assert jobs.cancel(made.id)
    during = [verb for verb, _ in told(jobs, made.id)]
    time.advance(1)
    virtual_store.atomic(lambda tx: ledger.release(tx, "w-1", [job], "the worker stops"))
    assert during == ["enqueued", "claimed", "cancel_asked"]
    assert [verb for verb, _ in told(jobs, made.id)] == [*during, "released"]


@pytest.mark.parametrize("rows", [1, 2, 3, 7])
def test_pages_of_any_size_tell_every_event_once(
    virtual_store: Store, jobs: Jobs, time: VirtualTime, rows: int
) -> None:
    made = jobs.enqueue("k")
    for _ in range(5):
        time.advance(1)
        job = claim(virtual_store, "w-1")
        time.advance(1)
        virtual_store.atomic(lambda tx, job=job: ledger.settle(tx, "w-1", (), [released(job, "")]))
    time.advance(1)
    claim(virtual_store, "w-2")
    whole = jobs.history(made.id)
    assert [event["verb"] for event in whole] == ["enqueued", *["claimed", "released"] * 5, "claimed"]
    with replaced(World(limits=Limits(page_rows_max=rows))):
        assert list(DeadLetters(virtual_store).history(made.id)) == whole
