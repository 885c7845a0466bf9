"""Queues as an operator sees them: depth, age, pause and resume."""

from __future__ import annotations

import pytest

from holdfast.catalog import Failure
from holdfast.store import Store
from holdfast.testing import instant
from holdfast.worker import ledger
from holdfast.worker.job import Job, NewJob
from holdfast.worker.jobs import Jobs
from holdfast.worker.queues import Queues, QueueStatus

WORKER = "w1"


def claim(store: Store, queue: str = "default", count: int = 1) -> list[Job]:
    return store.atomic(lambda tx: ledger.claim(tx, queue=queue, worker=WORKER, count=count))


def status_of(store: Store, name: str = "default", depth_max: int = 100) -> QueueStatus:
    (found,) = [one for one in Queues(store).status(depth_max=depth_max) if one.name == name]
    return found


def events(store: Store, queue: str) -> list[tuple[str, str | None]]:
    found = store.atomic(lambda tx: tx.records("job.history", id=f"queue:{queue}", after=0, count=100))
    return [(event["verb"], event["reason"]) for event in found]


def test_a_paused_queue_gives_no_jobs_until_it_is_resumed(store: Store) -> None:
    Jobs(store).enqueue("mail")
    queues = Queues(store)
    queues.pause("default", "the mail server moves house")
    assert claim(store) == []
    assert status_of(store).paused
    assert status_of(store).paused_reason == "the mail server moves house"
    assert queues.resume("default")
    assert not status_of(store).paused
    assert len(claim(store)) == 1


def test_pausing_holds_no_other_queue(store: Store) -> None:
    Jobs(store).enqueue("mail", queue="other")
    Queues(store).pause("default", "why not")
    assert len(claim(store, "other")) == 1


def test_pause_and_resume_are_in_the_journal(store: Store) -> None:
    queues = Queues(store)
    queues.pause("mail", "first")
    queues.pause("mail", "second")
    assert queues.resume("mail")
    assert not queues.resume("mail")
    assert events(store, "mail") == [("paused", "first"), ("paused", "second"), ("resumed", None)]


def test_pausing_again_keeps_the_time_and_changes_the_reason(virtual_store: Store) -> None:
    with instant() as time:
        queues = Queues(virtual_store)
        queues.pause("mail", "first")
        paused_us = status_of(virtual_store, "mail").paused_us
        time.advance(60)
        queues.pause("mail", "second")
        again = status_of(virtual_store, "mail")
    assert (again.paused_us, again.paused_reason) == (paused_us, "second")


def test_a_queue_that_does_not_exist_cannot_be_resumed(store: Store) -> None:
    assert not Queues(store).resume("nowhere")
    assert Queues(store).status() == []


@pytest.mark.parametrize(
    ("name", "reason", "field"),
    [("", "x", "name"), ("q" * 201, "x", "name"), ("q\0", "x", "name"), ("q", "", "reason"), ("q", "\0", "reason")],
)
def test_a_pause_needs_a_name_and_a_reason(store: Store, name: str, reason: str, field: str) -> None:
    with pytest.raises(Failure, match=f"{field} (is text of 1 to|holds a character)"):
        Queues(store).pause(name, reason)


def test_the_depth_tells_what_is_ready_what_waits_and_what_runs(store: Store) -> None:
    jobs = Jobs(store)
    jobs.enqueue_many([NewJob(kind="mail") for _ in range(5)])
    jobs.enqueue_many([NewJob(kind="mail", delay_s=60) for _ in range(3)])
    jobs.enqueue("fax", queue="other")
    held = claim(store, count=2)
    found = status_of(store)
    assert (found.ready, found.waiting, found.processing, found.more) == (3, 3, 2, False)
    assert [one.name for one in Queues(store).status()] == ["default", "other"]
    store.atomic(lambda tx: ledger.settle(tx, WORKER, [(job, None, 1) for job in held]))
    assert status_of(store).processing == 0


def test_a_deep_queue_is_counted_only_so_far(store: Store) -> None:
    Jobs(store).enqueue_many([NewJob(kind="mail") for _ in range(20)])
    assert (status_of(store, depth_max=10).ready, status_of(store, depth_max=10).more) == (10, True)
    assert (status_of(store, depth_max=21).ready, status_of(store, depth_max=21).more) == (20, False)


def test_a_job_that_is_tried_apart_is_ready_too(store: Store) -> None:
    Jobs(store).enqueue("mail")
    store.atomic(
        lambda tx: tx.run("worker.register", id=WORKER, host="h", process=1, queues="default", lease_us=1_000_000)
    )
    claim(store)
    store.atomic(lambda tx: ledger.reclaim(tx, WORKER, "w2", lambda kind: None))
    assert status_of(store).ready == 1
    assert status_of(store).oldest_ready_s is not None


def test_the_age_is_that_of_the_oldest_ready_job_whatever_its_priority(virtual_store: Store) -> None:
    with instant() as time:
        jobs = Jobs(virtual_store)
        assert Queues(virtual_store).status() == []
        jobs.enqueue("mail", priority=9)
        time.advance(100)
        jobs.enqueue("mail", priority=-5)
        time.advance(10)
        jobs.enqueue("mail")
        jobs.enqueue("mail", delay_s=500)
        jobs.enqueue("later", queue="quiet", delay_s=500)
        assert status_of(virtual_store).oldest_ready_s == pytest.approx(110)
        assert status_of(virtual_store, "quiet").oldest_ready_s is None


def test_a_queue_that_nobody_registered_is_seen_by_its_jobs(store: Store) -> None:
    jobs = Jobs(store)
    store.atomic(lambda tx: jobs.enqueue("mail", queue="hidden", tx=tx))
    assert [one.name for one in Queues(store).status()] == ["hidden"]
    claim(store, "hidden")
    assert [(one.name, one.processing) for one in Queues(store).status()] == [("hidden", 1)]


def test_the_breaker_of_a_queue_is_shown(store: Store) -> None:
    Jobs(store).enqueue("mail")
    assert status_of(store).breaker is None
    _open_breaker(store, "default")
    _open_breaker(store, "target:bank")
    breaker = status_of(store).breaker
    assert breaker is not None
    assert (breaker.state, breaker.mode, breaker.reason, breaker.until_us) == ("open", "hold", "too many failures", 2)
    assert [one.name for one in Queues(store).breakers()] == ["default", "target:bank"]


def test_resuming_wakes_the_workers_of_this_process(store: Store) -> None:
    woken: list[int] = []
    store.on_wake(lambda: woken.append(1))
    queues = Queues(store)
    queues.pause("mail", "why not")
    queues.resume("mail")
    queues.resume("mail")
    assert woken == [1]


def _open_breaker(store: Store, name: str) -> None:
    statement = (
        f"INSERT INTO holdfast_breaker (name, state, reason, opened_us, until_us) "
        f"VALUES ('{name}', 'open', 'too many failures', 1, 2)"
    )
    with store.database.script([statement]):
        pass
