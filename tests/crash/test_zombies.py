"""Workers that come back after their lease, handlers whose transaction failed, and what must not come of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from holdfast.base import REAL
from holdfast.catalog import Failure
from holdfast.policy import Backoff, Retry
from holdfast.store import Store, Tx
from holdfast.testing.processes import wait_until
from holdfast.testing.proxy import COMMIT, FaultProxy
from holdfast.worker import Handlers, Job, JobLost, Jobs, NewJob, Worker, ledger

from .accounts import books, make_effect_table, rows

SOON = Retry(attempts=5, attempts_unknown=5, backoff=Backoff.listed(0.05))
LEASE_US = 60_000_000
WITHIN_S = 20.0


def register(store: Store, worker: str, lease_us: int = LEASE_US) -> None:
    store.single("worker.register", id=worker, host="here", process=1, queues="default", lease_us=lease_us)


def claim(store: Store, worker: str, count: int = 10) -> list[Job]:
    return store.atomic(lambda tx: ledger.claim(tx, queue="default", worker=worker, count=count))


def sweep(store: Store) -> int:
    """Take back what expired workers held; how many workers there were."""

    def phase(tx: Tx) -> int:
        expired = tx.rows("worker.expired", count=10)
        for (dead,) in expired:
            ledger.reclaim(tx, dead, "sweeper", lambda _: None)
        return len(expired)

    return store.atomic(phase)


@pytest.fixture
def jobs(store: Store, database_url: str) -> Iterator[Jobs]:
    make_effect_table(database_url)
    opened = Jobs(store)
    yield opened
    opened.close()


def wait_state(jobs: Jobs, job_id: str, state: str) -> dict[str, Any]:
    wait_until(lambda: jobs.show(job_id)["state"] == state, within_s=WITHIN_S, what=f"it is {state}")
    return jobs.show(job_id)


def test_a_worker_that_was_swept_away_cannot_claim_in_the_name_of_nobody(store: Store, jobs: Jobs) -> None:
    jobs.enqueue("work")
    register(store, "late", lease_us=0)
    assert claim(store, "late") == []
    assert sweep(store) == 1
    assert claim(store, "late") == []
    register(store, "punctual")
    assert len(claim(store, "punctual")) == 1


def test_a_worker_that_leaves_while_it_holds_jobs_is_swept_like_any_other(store: Store, jobs: Jobs) -> None:
    enqueued = jobs.enqueue("work")
    register(store, "hasty", lease_us=200_000)
    assert len(claim(store, "hasty")) == 1
    store.single("worker.leave", id="hasty")
    wait_until(lambda: sweep(store) == 1, within_s=WITHIN_S, what="its lease has run out")
    assert jobs.show(enqueued.id)["state"] == "queued"


def test_a_second_settlement_after_a_lost_reply_is_not_journalled_twice(store: Store, jobs: Jobs) -> None:
    jobs.enqueue_many([NewJob(kind="work")] * 3)
    register(store, "worker")
    finished = [(job, None, 1) for job in claim(store, "worker")]
    store.atomic(lambda tx: ledger.settle(tx, "worker", finished[:2]))
    lost = store.atomic(lambda tx: ledger.settle(tx, "worker", finished))
    assert lost == ([], [])
    assert books(str(store.address)).verbs["finished"] == 3


def test_finishing_twice_within_transactions_is_refused_so_that_the_effect_is_not_doubled(
    store: Store, jobs: Jobs
) -> None:
    jobs.enqueue("work")
    register(store, "worker")
    (job,) = claim(store, "worker")
    store.atomic(lambda tx: job.finish(tx))
    with pytest.raises(JobLost):
        store.atomic(lambda tx: job.finish(tx))


@pytest.mark.parametrize("first_error", [ValueError("after finish"), None], ids=["raises", "swallows"])
def test_a_job_finished_in_a_transaction_that_was_rolled_back_is_not_left_behind(
    store: Store, jobs: Jobs, first_error: ValueError | None
) -> None:
    handlers = Handlers()

    @handlers.handle("work", retry=SOON)
    def work(job: Job) -> None:
        def phase(tx: Tx) -> None:
            job.finish(tx)
            if job.attempt == 1:
                raise ValueError("after finish")

        try:
            store.atomic(phase)
        except ValueError:
            if first_error is not None:
                raise

    worker = Worker(store, handlers)
    worker.start()
    try:
        job_id = jobs.enqueue("work").id
        wait_state(jobs, job_id, "complete")
    finally:
        worker.stop()
        worker.join(WITHIN_S)


def test_a_timed_out_handler_that_ends_late_does_not_take_its_next_attempt_along(store: Store, jobs: Jobs) -> None:
    handlers = Handlers()
    late, ended = threading.Event(), threading.Event()

    @handlers.handle("work", retry=SOON, timeout_s=0.2)
    def work(job: Job) -> str:
        if job.attempt == 1:
            late.wait(WITHIN_S)
            ended.set()
            return "late"
        # The first attempt ends while the second is under way.
        late.set()
        ended.wait(WITHIN_S)
        REAL.sleep(0.05)
        return "in time"

    worker = Worker(store, handlers, lease_s=1.0)
    worker.start()
    try:
        job_id = jobs.enqueue("work").id
        assert jobs.wait(job_id, WITHIN_S) == "in time"
    finally:
        worker.stop()
        worker.join(WITHIN_S)


def test_a_worker_that_takes_its_own_lost_job_again_settles_the_new_attempt(store: Store, jobs: Jobs) -> None:
    handlers = Handlers()
    late, ended = threading.Event(), threading.Event()

    @handlers.handle("work", retry=SOON)
    def work(job: Job) -> str:
        if job.attempt_count == 1:
            late.wait(WITHIN_S)
            ended.set()
            return "stale"
        late.set()
        ended.wait(WITHIN_S)
        REAL.sleep(0.05)
        return "fresh"

    worker = Worker(store, handlers, lease_s=1.0)
    worker.start()
    try:
        job_id = jobs.enqueue("work").id
        wait_state(jobs, job_id, "processing")
        # As if it had stood still: on the database's clock its lease is over.
        rows(str(store.address), "UPDATE worker SET lease_until_us = 0")
        assert jobs.wait(job_id, WITHIN_S) == "fresh"
    finally:
        worker.stop()
        worker.join(WITHIN_S)


def test_a_transaction_that_stands_still_does_not_keep_others_from_being_swept(postgres_dsn: str) -> None:
    import psycopg

    store = Store.open(postgres_dsn)
    jobs = Jobs(store)
    jobs.enqueue_many([NewJob(kind="work")] * 4)
    register(store, "stuck", lease_us=300_000)
    (held,) = claim(store, "stuck", 1)
    register(store, "gone", lease_us=300_000)
    gone = [job.id for job in claim(store, "gone")]
    worker = Worker(store, Handlers(), lease_s=1.0)
    with psycopg.connect(postgres_dsn) as connection:
        # A worker whose machine was paused in the middle of settling a job.
        connection.execute("UPDATE job SET priority = 1 WHERE id = %s", [held.id])
        worker.start()
        try:
            for job_id in gone:
                reclaimed = {"verb": "reclaimed"}.items()
                wait_until(
                    lambda: any(reclaimed <= event.items() for event in jobs.history(job_id)),  # noqa: B023
                    within_s=5.0,
                    what="the jobs of the other dead worker have come back",
                )
        finally:
            connection.rollback()
            worker.stop()
            worker.join(WITHIN_S)
            jobs.close()
            store.close()


def test_a_handler_whose_commit_was_not_answered_has_its_effect_once(postgres_dsn: str) -> None:
    make_effect_table(postgres_dsn)
    address = urlsplit(postgres_dsn)
    direct = Store.open(postgres_dsn)
    jobs = Jobs(direct)
    handlers = Handlers()
    with FaultProxy(address.port or 0) as proxy:
        troubled = Store.open(f"postgresql://postgres@127.0.0.1:{proxy.port}{address.path}")
        joined = []

        @handlers.handle("work", retry=SOON)
        def work(job: Job) -> None:
            def phase(tx: Tx) -> None:
                joined.append(job.attempt)
                tx._execute(f"INSERT INTO effect VALUES ('{job.id}', {job.attempt}, 0)", {})
                job.finish(tx)

            if job.attempt == 1 and not joined:
                proxy.set(lose_reply=COMMIT, times=1)
            # Repeatable: the token lets only one of the repetitions through.
            troubled.atomic(phase, repeatable=True)

        worker = Worker(direct, handlers)
        worker.start()
        try:
            job_id = jobs.enqueue("work").id
            wait_state(jobs, job_id, "complete")
            wait_until(lambda: len(joined) >= 2, within_s=WITHIN_S, what="it was repeated")
        finally:
            worker.stop()
            worker.join(WITHIN_S)
            troubled.close()
            jobs.close()
            direct.close()
    assert rows(postgres_dsn, "SELECT count(*) FROM effect") == [(1,)]
    assert books(postgres_dsn).complaints() == []


def test_handlers_that_use_up_every_connection_do_not_cost_the_worker_its_lease(postgres_dsn: str) -> None:
    store = Store.open(postgres_dsn, pool_max=4)
    jobs = Jobs(store)
    handlers = Handlers()

    @handlers.handle("work")
    def work(job: Job) -> None:
        # Longer than the lease, and more of them than there are connections.
        store.atomic(lambda tx: tx._execute("SELECT pg_sleep(2.5)", {}))

    worker = Worker(store, handlers, lease_s=1.0)
    worker.start()
    try:
        enqueued = jobs.enqueue_many([NewJob(kind="work")] * 8)
        for one in enqueued:
            jobs.wait(one.id, WITHIN_S)
    except Failure as failure:
        pytest.fail(failure.technical)
    finally:
        worker.stop()
        worker.join(WITHIN_S)
        jobs.close()
        store.close()
    verbs = rows(postgres_dsn, "SELECT verb, count(*) FROM journal GROUP BY verb")
    assert dict(verbs) == {"enqueued": 8, "claimed": 8, "finished": 8}
