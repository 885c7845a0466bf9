"""Claims: in batches and in order, each job to one worker, each time with a new token."""

from __future__ import annotations

import threading

import pytest

from holdfast.catalog.core import NETWORK_TIMEOUT
from holdfast.policy import Backoff, Retry
from holdfast.store import Store
from holdfast.worker import Job, Jobs, NewJob, ledger
from holdfast.worker.queues import Queues
from holdfast.worker.settlement import failed

AT_ONCE = Retry(attempts=9, backoff=Backoff.constant(0))


def claim(store: Store, worker: str = "w-1", count: int = 100, **where: str) -> list[Job]:
    return store.atomic(
        lambda tx: ledger.claim(
            tx, queue=where.get("queue", "default"), worker=worker, count=count, lane=where.get("lane", "ready")
        )
    )


def test_a_claim_takes_up_to_so_many_in_the_order_of_the_queue(store: Store, jobs: Jobs) -> None:
    jobs.enqueue_many([NewJob(kind=str(number)) for number in range(10)])
    assert [job.kind for job in claim(store, count=4)] == ["0", "1", "2", "3"]
    assert [job.kind for job in claim(store, count=4)] == ["4", "5", "6", "7"]
    assert [job.kind for job in claim(store, count=4)] == ["8", "9"]
    assert claim(store, count=4) == []


def test_a_claimed_job_knows_all_its_handler_needs(store: Store, jobs: Jobs) -> None:
    made = jobs.enqueue("k", {"a": 1}, attempts=5, timeout_s=2, tenant="t", priority=3)
    (job,) = claim(store)
    shown = jobs.show(made.id)
    assert (job.id, job.kind, job.queue, job.payload, job.tenant) == (made.id, "k", "default", {"a": 1}, "t")
    assert (job.attempt, job.attempt_count, job.attempts_max, job.timeout_us) == (1, 1, 5, 2_000_000)
    assert (job.token, job.worker) == (shown["token"], "w-1")
    assert job.claimed_us == shown["last_attempt_us"]
    assert abs(shown["started_us"] - shown["last_attempt_us"]) < 60_000_000
    assert (shown["state"], shown["lease_owner"]) == ("processing", "w-1")
    event = jobs.history(made.id)[-1]
    assert (event["verb"], event["attempt"], event["worker"]) == ("claimed", 1, "w-1")


def test_the_token_rises_with_every_claim(store: Store, jobs: Jobs) -> None:
    jobs.enqueue("k")
    tokens, starts = [], set()
    for _ in range(3):
        (job,) = claim(store)
        tokens.append(job.token)
        starts.add(jobs.show(job.id)["started_us"])
        again = failed(job, NETWORK_TIMEOUT(), AT_ONCE, 1, blamed=True)
        store.atomic(lambda tx, again=again: ledger.settle(tx, "w-1", (), [again]))
    assert tokens == sorted(set(tokens))
    assert len(starts) == 1, "the first start is kept"


def test_a_queue_gives_only_its_own(store: Store, jobs: Jobs) -> None:
    for queue in ("a", "b", "a'b", "ä"):
        jobs.enqueue("k", queue, queue=queue)
    for queue in ("a", "b", "a'b", "ä"):
        assert [job.payload for job in claim(store, queue=queue)] == [queue]


def test_a_lane_gives_only_its_own(store: Store, jobs: Jobs) -> None:
    jobs.enqueue("ready")
    jobs.enqueue("waiting", delay_s=60)
    jobs.enqueue("alone")
    store.atomic(lambda tx: tx._execute("UPDATE holdfast_job SET lane = 'alone' WHERE kind = 'alone'", {}))
    assert [job.kind for job in claim(store, lane="alone")] == ["alone"]
    assert [job.kind for job in claim(store)] == ["ready"]


def test_a_paused_queue_gives_nothing_until_it_is_resumed(store: Store, jobs: Jobs) -> None:
    jobs.enqueue("k")
    Queues(store).pause("default", "maintenance")
    assert claim(store) == []
    assert claim(store, lane="alone") == []
    Queues(store).resume("default")
    assert len(claim(store)) == 1


def test_workers_that_claim_at_once_never_share_a_job(store: Store, jobs: Jobs) -> None:
    jobs.enqueue_many([NewJob(kind="k") for _ in range(400)])
    taken: dict[str, list[str]] = {}
    start = threading.Barrier(4)

    def take(worker: str) -> None:
        mine: list[str] = []
        start.wait(30)
        while batch := claim(store, worker, count=7):
            mine += [job.id for job in batch]
        taken[worker] = mine

    threads = [threading.Thread(target=take, args=(f"w-{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    everyones = [job_id for mine in taken.values() for job_id in mine]
    assert len(everyones) == len(set(everyones)) == 400


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_claim_does_not_wait_for_another_ones_transaction(store: Store, jobs: Jobs) -> None:
    jobs.enqueue_many([NewJob(kind=str(number)) for number in range(3)])
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        def phase(tx: object) -> None:
            assert len(ledger.claim(tx, queue="default", worker="slow", count=2)) == 2  # type: ignore[arg-type]
            inside.set()
            assert leave.wait(30)

        store.atomic(phase)

    slow = threading.Thread(target=hold)
    slow.start()
    assert inside.wait(30)
    assert [job.kind for job in claim(store, "quick")] == ["2"]
    leave.set()
    slow.join()
