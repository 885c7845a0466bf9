"""Retention: what is over goes after its time, in small batches; what lives stays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.catalog.core import NETWORK_TIMEOUT
from holdfast.policy import PolicyInvalid
from holdfast.store import Store
from holdfast.testing import VirtualTime, instant
from holdfast.worker import ledger
from holdfast.worker.job import NewJob
from holdfast.worker.jobs import Jobs
from holdfast.worker.retention import DAY_S, Pruned, Retention
from holdfast.worker.settlement import failed

WORKER = "w1"


@pytest.fixture
def time() -> Iterator[VirtualTime]:
    with instant() as virtual:
        yield virtual


def make(store: Store, count: int) -> list[str]:
    return [one.id for one in Jobs(store).enqueue_many([NewJob(kind="mail", attempts=1) for _ in range(count)])]


def finish(store: Store, count: int) -> list[str]:
    made = make(store, count)
    jobs = store.atomic(lambda tx: ledger.claim(tx, queue="default", worker=WORKER, count=count))
    store.atomic(lambda tx: ledger.settle(tx, WORKER, [(job, None, 1) for job in jobs]))
    return made


def kill(store: Store, count: int) -> list[str]:
    made = make(store, count)
    jobs = store.atomic(lambda tx: ledger.claim(tx, queue="default", worker=WORKER, count=count))
    dead = [failed(job, NETWORK_TIMEOUT(), None, 1, blamed=True) for job in jobs]
    store.atomic(lambda tx: ledger.settle(tx, WORKER, (), dead))
    return made


def left(store: Store) -> set[str]:
    return {job["id"] for job in Jobs(store).list(count=1_000)}


def history(store: Store, job_id: str) -> list[str]:
    return [event["verb"] for event in Jobs(store).history(job_id)]


def test_finished_jobs_go_after_their_time_and_dead_letters_stay(virtual_store: Store, time: VirtualTime) -> None:
    finish(virtual_store, 3)
    dead = kill(virtual_store, 2)
    time.advance(7 * DAY_S)
    assert Retention().prune(virtual_store) == Pruned()
    young = finish(virtual_store, 1)
    waiting = make(virtual_store, 1)
    time.advance(1)
    assert Retention().prune(virtual_store) == Pruned(finished=3)
    assert left(virtual_store) == {*dead, *young, *waiting}


def test_dead_letters_go_only_when_it_is_asked_for(virtual_store: Store, time: VirtualTime) -> None:
    kill(virtual_store, 2)
    time.advance(DAY_S + 1)
    young = kill(virtual_store, 1)
    assert Retention(failed_s=DAY_S).prune(virtual_store).failed == 2
    assert left(virtual_store) == set(young)


def test_the_history_of_what_lives_is_kept_however_old(virtual_store: Store, time: VirtualTime) -> None:
    (done,), (dead,) = finish(virtual_store, 1), kill(virtual_store, 1)
    (waiting,) = make(virtual_store, 1)
    time.advance(30 * DAY_S + 1)
    pruned = Retention().prune(virtual_store)
    assert (pruned.finished, pruned.journal) == (1, 1)
    assert history(virtual_store, done) == []
    assert history(virtual_store, dead) == ["enqueued", "claimed", "failed"]
    assert history(virtual_store, waiting) == ["enqueued"]


def test_what_is_never_to_be_pruned_is_kept(virtual_store: Store, time: VirtualTime) -> None:
    made = finish(virtual_store, 2)
    time.advance(1_000 * DAY_S)
    assert Retention(finished_s=None, journal_s=None).prune(virtual_store) == Pruned()
    assert left(virtual_store) == set(made)


def test_one_run_is_bounded_and_the_next_goes_on(virtual_store: Store, time: VirtualTime) -> None:
    finish(virtual_store, 10)
    time.advance(8 * DAY_S)
    retention = Retention(batch_rows=3, batches_max=2)
    runs = [retention.prune(virtual_store) for _ in range(3)]
    assert [(run.finished, run.more) for run in runs] == [(6, True), (4, False), (0, False)]


def test_old_histories_that_are_kept_do_not_stand_in_the_way_of_younger_ones(
    virtual_store: Store, time: VirtualTime
) -> None:
    kept = kill(virtual_store, 10)
    finish(virtual_store, 2)
    time.advance(31 * DAY_S)
    retention = Retention(finished_s=None, batch_rows=4, batches_max=3)
    runs = [retention.prune(virtual_store) for _ in range(4)]
    assert sum(run.journal for run in runs) == 2
    assert runs[0].more
    assert all(history(virtual_store, job_id) for job_id in kept)


def test_a_history_is_found_again_when_its_job_has_ended_meanwhile(virtual_store: Store, time: VirtualTime) -> None:
    (job_id,) = make(virtual_store, 1)
    (job,) = virtual_store.atomic(lambda tx: ledger.claim(tx, queue="default", worker=WORKER, count=1))
    virtual_store.atomic(lambda tx: ledger.release(tx, WORKER, [job], "to be claimed again"))
    time.advance(31 * DAY_S)
    retention = Retention(finished_s=None)
    assert retention.prune(virtual_store).journal == 0
    (job,) = virtual_store.atomic(lambda tx: ledger.claim(tx, queue="default", worker=WORKER, count=1))
    virtual_store.atomic(lambda tx: ledger.settle(tx, WORKER, [(job, None, 1)]))
    assert retention.prune(virtual_store).journal == 1
    assert history(virtual_store, job_id) == ["enqueued", "claimed", "finished"]


def test_workers_that_are_long_gone_are_forgotten_unless_they_hold_a_job(
    virtual_store: Store, time: VirtualTime
) -> None:
    def register(worker: str) -> None:
        asked = {"id": worker, "host": "h", "process": 1, "queues": "default", "lease_us": 10_000_000}
        virtual_store.atomic(lambda tx: tx.run("worker.register", **asked))

    register("gone")
    register("holding")
    make(virtual_store, 1)
    virtual_store.atomic(lambda tx: ledger.claim(tx, queue="default", worker="holding", count=1))
    time.advance(DAY_S + 11)
    register("here")
    assert Retention().prune(virtual_store).workers == 1
    remaining = virtual_store.atomic(lambda tx: tx.records("worker.list"))
    assert {worker["id"] for worker in remaining} == {"holding", "here"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"finished_s": -1.0}, "finished_s: -1.0 is not a number of seconds"),
        ({"failed_s": float("nan")}, "failed_s: nan is not"),
        ({"journal_s": float("inf")}, "journal_s: inf is not"),
        ({"batch_rows": 0}, "batch_rows: 0 is not at least 1"),
        ({"batches_max": 0}, "batches_max: 0 is not at least 1"),
    ],
)
def test_values_that_cannot_be_meant_are_refused_by_name(values: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyInvalid, match=message):
        Retention(**values)
