"""Sequences: jobs of one name run one after the other; whatever ends the head lets the next one through."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.base import new_id
from holdfast.catalog import Failure
from holdfast.catalog.core import CONSTRAINT_VIOLATED, NETWORK_TIMEOUT
from holdfast.lifecycle import Snooze
from holdfast.store import Engine, Store
from holdfast.testing.processes import wait_until
from holdfast.worker import DeadFilter, DeadLetters, Handlers, Job, Jobs, NewJob, Worker, ledger, sequences
from holdfast.worker.settlement import answered, cancelled, failed

WORKER = "w1"
PATIENCE_S = 60.0
Work = Callable[..., Worker]


def claim(store: Store, count: int = 100) -> list[Job]:
    return store.atomic(lambda tx: ledger.claim(tx, queue="default", worker=WORKER, count=count))


def claimed(store: Store) -> list[Any]:
    """The payloads of what can be claimed."""
    return [job.payload for job in claim(store)]


def finish(store: Store, job: Job) -> None:
    assert store.atomic(lambda tx: ledger.settle(tx, WORKER, [(job, None, 1)])) == ([], [])


def line(jobs: Jobs, count: int, name: str = "s") -> list[str]:
    made = jobs.enqueue_many([NewJob(kind="k", payload=number, sequence=name) for number in range(count)])
    return [one.id for one in made]


def test_only_the_head_can_be_claimed_and_its_end_lets_the_next_one_through(store: Store, jobs: Jobs) -> None:
    line(jobs, 3)
    seen = []
    for _ in range(3):
        (job,) = claim(store)
        assert claim(store) == []
        seen.append(job.payload)
        finish(store, job)
    assert (seen, claim(store)) == ([0, 1, 2], [])


def test_what_was_enqueued_one_by_one_keeps_its_order_and_other_sequences_do_not_wait(store: Store, jobs: Jobs) -> None:
    for number in range(2):
        for name in "ba":
            jobs.enqueue("k", f"{name}{number}", sequence=name)
    jobs.enqueue("k", "none")
    first = claim(store)
    assert sorted(job.payload for job in first) == ["a0", "b0", "none"]
    for job in first:
        finish(store, job)
    assert sorted(claimed(store)) == ["a1", "b1"]


def test_a_job_that_comes_when_all_have_ended_is_the_head_at_once(store: Store, jobs: Jobs) -> None:
    line(jobs, 1)
    finish(store, *claim(store))
    line(jobs, 2)
    assert claimed(store) == [0]


@pytest.mark.parametrize("end", ["fail", "cancel"])
def test_a_head_that_is_given_up_lets_the_next_one_through(store: Store, jobs: Jobs, end: str) -> None:
    line(jobs, 2)
    (job,) = claim(store)
    lost = failed(job, CONSTRAINT_VIOLATED(), None, 1, blamed=True) if end == "fail" else cancelled(job, "no", 1)
    store.atomic(lambda tx: ledger.settle(tx, WORKER, (), [lost]))
    assert claimed(store) == [1]


@pytest.mark.parametrize("again", ["retry", "snooze"])
def test_a_head_that_is_tried_again_stays_the_head(store: Store, jobs: Jobs, again: str) -> None:
    line(jobs, 2)
    (job,) = claim(store)
    later = failed(job, NETWORK_TIMEOUT(), None, 1, blamed=True) if again == "retry" else answered(job, Snooze(60), 1)
    store.atomic(lambda tx: ledger.settle(tx, WORKER, (), [later]))
    assert claim(store) == []
    assert jobs.show(job.id)["lane"] == "waiting"


def test_a_settlement_that_came_too_late_unblocks_nothing(store: Store, jobs: Jobs) -> None:
    line(jobs, 2)
    (job,) = claim(store)
    job.token -= 1
    assert store.atomic(lambda tx: ledger.settle(tx, WORKER, [(job, None, 1)]))[0]
    assert claim(store) == []


def test_a_handler_that_finishes_in_its_own_transaction_unblocks_the_next_one_in_it(store: Store, jobs: Jobs) -> None:
    line(jobs, 2)
    (job,) = claim(store)
    with pytest.raises(ZeroDivisionError):
        store.atomic(lambda tx: (job.finish(tx), 1 / 0))
    assert claim(store) == []
    store.atomic(job.finish)
    assert claimed(store) == [1]


def test_cancelling_the_head_unblocks_the_next_one_and_cancelling_in_the_middle_nobody(
    store: Store, jobs: Jobs
) -> None:
    made = line(jobs, 4)
    assert jobs.cancel(made[1])
    assert jobs.cancel(made[0])
    (job,) = claim(store)
    assert (job.payload, claim(store)) == (2, [])


def test_a_revived_job_comes_after_all_that_wait_and_alone_where_none_does(store: Store, jobs: Jobs) -> None:
    made = line(jobs, 4)
    for _ in range(2):
        (job,) = claim(store)
        store.atomic(
            lambda tx, job=job: ledger.settle(
                tx, WORKER, (), [failed(job, CONSTRAINT_VIOLATED(), None, 1, blamed=True)]
            )
        )
    letters = DeadLetters(store)
    assert letters.revive_all(DeadFilter()).done == 2
    seen = []
    while found := claim(store):
        assert len(found) == 1
        seen.append(found[0].payload)
        finish(store, found[0])
    assert seen == [2, 3, 0, 1], "in their old order among each other"
    line(jobs, 1, "other")
    (job,) = claim(store)
    store.atomic(lambda tx: ledger.settle(tx, WORKER, (), [cancelled(job, "no", 1)]))
    letters.revive(job.id)
    assert claimed(store) == [0]
    assert len(made) == 4


def test_a_lost_worker_s_head_stays_the_head(store: Store, jobs: Jobs) -> None:
    line(jobs, 2)
    (job,) = claim(store)
    store.atomic(lambda tx: ledger.reclaim(tx, WORKER, "w2", lambda _: None))
    (again,) = claim(store)
    assert again.id == job.id


def test_a_head_that_dies_with_its_worker_lets_the_next_one_through(store: Store, jobs: Jobs) -> None:
    jobs.enqueue_many([NewJob(kind="k", payload=number, sequence="s", attempts=1) for number in range(2)])
    lane = "ready"
    for _ in range(4):
        found = store.atomic(lambda tx, lane=lane: ledger.claim(tx, queue="default", worker=WORKER, count=9, lane=lane))
        lane = "alone" if len(found) == 1 and found[0].attempt_count > 2 else "ready"
        store.atomic(lambda tx: ledger.reclaim(tx, WORKER, "w2", lambda _: None))
    states = {job["id"]: job["state"] for job in jobs.list()}
    assert list(states.values()).count("failed") == 1
    assert claimed(store) == [1]


def test_a_delay_counts_when_its_turn_has_come(store: Store, jobs: Jobs) -> None:
    jobs.enqueue("k", 0, sequence="s")
    later = jobs.enqueue("k", 1, sequence="s", delay_s=600)
    (job,) = claim(store)
    finish(store, job)
    assert (claim(store), jobs.show(later.id)["lane"]) == ([], "waiting")


def test_a_twin_is_not_put_into_the_sequence_again(store: Store, jobs: Jobs) -> None:
    first = jobs.enqueue("k", 0, sequence="s", dedupe_key="d")
    assert jobs.enqueue("k", 0, sequence="s", dedupe_key="d") == (first.id, False)
    (job,) = claim(store)
    assert job.sequence_position == 1


def test_a_call_whose_reply_was_lost_puts_its_jobs_into_the_sequence_once(store: Store, jobs: Jobs) -> None:
    from holdfast.worker.enqueueing import Batch

    batch = Batch([NewJob(kind="k", payload=number, sequence="s") for number in range(2)])
    store.atomic(batch.enqueue)
    (job,) = claim(store)
    store.atomic(batch.enqueue)
    assert claim(store) == []
    finish(store, job)
    assert claimed(store) == [1]


@pytest.mark.parametrize("name", ["", "x" * 401, "a\0b", 7])
def test_a_name_that_cannot_be_is_refused(jobs: Jobs, name: Any) -> None:
    with pytest.raises(Failure) as caught:
        jobs.enqueue("k", sequence=name)
    assert (caught.value.code, caught.value.details["field"]) == ("BAD_REQUEST", "sequence")


def test_blocked_jobs_are_counted_as_waiting_and_are_not_late(store: Store, jobs: Jobs) -> None:
    from holdfast.worker import Queues

    line(jobs, 3)
    claim(store)
    (queue,) = Queues(store).status()
    assert (queue.ready, queue.waiting, queue.oldest_ready_s) == (0, 2, None)


def miss(store: Store, jobs: Jobs) -> str:
    """A job that is enqueued while the head ends, by two transactions that do not see each other."""
    line(jobs, 1)
    (head,) = claim(store)
    ended = threading.Thread(target=finish, args=(store, head))

    def enqueue(tx: Any) -> str:
        made = jobs.enqueue("k", "missed", sequence="s", tx=tx)
        ended.start()
        ended.join()  # whoever ends a head never waits for those who enqueue
        return made.id

    return store.atomic(enqueue)


def test_who_ends_a_head_and_who_enqueues_behind_it_may_miss_each_other_and_look_again(
    store: Store, jobs: Jobs
) -> None:
    if store.engine is Engine.SQLITE:
        pytest.skip("SQLite has one writer at a time")
    miss(store, jobs)
    assert claimed(store) == ["missed"]


def test_what_was_missed_by_a_process_that_died_is_found_by_any_worker(
    store: Store, jobs: Jobs, handlers: Handlers, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    if store.engine is Engine.SQLITE:
        pytest.skip("SQLite has one writer at a time")
    with monkeypatch.context() as dying:
        dying.setattr(sequences, "recheck", lambda *_: False)
        missed = miss(store, jobs)
    assert claim(store) == []
    done: list[Any] = []
    handlers.handle("k")(lambda job: done.append(job.payload))
    work()
    wait_until(lambda: jobs.show(missed)["state"] == "complete", within_s=PATIENCE_S, what="the sweep")
    assert done == ["missed"]


def test_a_sweep_goes_on_where_the_one_before_stopped(
    store: Store, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequences, "SWEEP_MAX", 2)
    jobs.enqueue_many([NewJob(kind="k", payload=name, sequence=name) for name in "abcde" for _ in range(2)])
    with store.database.transaction(write=True) as execute:
        execute("DELETE FROM holdfast_job WHERE lane <> 'blocked'", {})
    after, started = "", []
    for _ in range(3):
        found, after = store.atomic(lambda tx, after=after: sequences.sweep(tx, after))
        started.append((found, after))
    assert started == [(True, "b"), (True, "d"), (True, "")]
    assert sorted(claimed(store)) == list("abcde")
    assert store.atomic(lambda tx: sequences.sweep(tx, "")) == (False, "")


def test_a_sequence_is_forgotten_when_it_was_not_used_for_a_while_and_has_no_job_to_run(
    store: Store, jobs: Jobs
) -> None:
    line(jobs, 1, "done")
    finish(store, *claim(store))
    line(jobs, 2, "going on")
    assert sequences.prune(store, 0.0, 10) == 1
    with store.database.transaction(write=False) as execute:
        assert execute("SELECT name FROM holdfast_job_sequence", {}).fetchall() == [("going on",)]
    line(jobs, 1, "done")
    assert sorted(job.sequence or "" for job in claim(store)) == ["done", "going on"]


def test_workers_keep_the_order_of_every_sequence_whatever_their_jobs_do(
    store: Store, jobs: Jobs, handlers: Handlers, work: Work
) -> None:
    names, count = "abc", 15
    open_now: set[str] = set()
    overlapped: list[str] = []
    done: dict[str, list[int]] = {name: [] for name in names}
    lock = threading.Lock()

    def run(job: Job) -> Any:
        name, number = job.payload
        with lock:
            overlapped.extend([name] if name in open_now else [])
            open_now.add(name)
        try:
            if number % 5 == 3 and job.attempt == 1 and job.attempt_count == 1 and not seen(job.id):
                return Snooze(0.0)
            with lock:
                done[name].append(number)
            if number % 5 == 4:
                raise CONSTRAINT_VIOLATED()
            return None
        finally:
            with lock:
                open_now.discard(name)

    snoozed: set[str] = set()

    def seen(job_id: str) -> bool:
        with lock:
            known = job_id in snoozed
            snoozed.add(job_id)
            return known

    handlers.handle("k")(run)
    for _ in range(2):
        work(concurrency=8)

    def enqueue(name: str) -> None:
        for number in range(count):
            jobs.enqueue("k", [name, number], sequence=f"{name}:{salt}")

    salt = new_id()
    threads = [threading.Thread(target=enqueue, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_until(lambda: sum(map(len, done.values())) >= count * len(names), within_s=PATIENCE_S, what="all jobs")
    assert done == {name: list(range(count)) for name in names}
    assert overlapped == []
