"""Workers that come back after their lease, handlers whose transaction failed, and what must not come of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from holdfast.base import REAL
from holdfast.catalog.durable import COMMIT_UNKNOWN
from holdfast.policy import Backoff, Retry
from holdfast.store import Store, Tx
from holdfast.testing.processes import wait_until
from holdfast.testing.proxy import COMMIT, FaultProxy
from holdfast.worker import Handlers, Job, JobLost, Jobs, NewJob, Worker, ledger

from .accounts import books, make_effect_table, rows

SOON = Retry(attempts=50, attempts_unknown=50, backoff=Backoff.listed(0.05))
LEASE_US = 60_000_000
WITHIN_S = 60.0
AFTER_S = 1.0

pytestmark = pytest.mark.timeout(300)

# The first commit that claims a job waits until it is let through, as one does that waits for a standby.
SLOW_COMMIT = """
CREATE FUNCTION slow_commit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  WHILE NEW.state = 'processing' AND NEW.token = 1 AND NOT EXISTS (SELECT 1 FROM let_through) LOOP
    PERFORM pg_sleep(0.02);
  END LOOP;
  RETURN NULL;
END $$
"""
SLOW_TRIGGER = """
CREATE CONSTRAINT TRIGGER slow_commit AFTER UPDATE ON holdfast_job DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION slow_commit()
"""


def register(store: Store, worker: str, lease_us: int = LEASE_US) -> None:
    store.single("worker.register", id=worker, host="here", process=1, queues="default", lease_us=lease_us)


def claim(store: Store, worker: str, count: int = 10) -> list[Job]:
    return store.atomic(lambda tx: ledger.claim(tx, queue="default", worker=worker, count=count))


def sweep(store: Store) -> int:
    """Take back what expired workers held; how many workers there were."""

    def phase(tx: Tx) -> int:
        expired = tx.rows("worker.expired", count=10, asking="")
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


@pytest.fixture
def postgres_store(postgres_dsn: str) -> Iterator[Store]:
    opened = Store.open(postgres_dsn)
    yield opened
    opened.close()


@contextmanager
def working(worker: Worker) -> Iterator[None]:
    """A worker in threads of this process, for as long as the block lasts."""
    worker.start()
    try:
        yield
    finally:
        worker.stop()
        assert worker.join(WITHIN_S)


def through(proxy: FaultProxy, dsn: str) -> str:
    return f"postgresql://postgres@127.0.0.1:{proxy.port}{urlsplit(dsn).path}"


def wait_state(jobs: Jobs, job_id: str, state: str) -> dict[str, Any]:
    wait_until(lambda: jobs.show(job_id)["state"] == state, within_s=WITHIN_S, what=f"it is {state}")
    return jobs.show(job_id)


def test_what_a_swept_worker_claims_after_all_comes_back_too(store: Store, jobs: Jobs) -> None:
    enqueued = jobs.enqueue("work")
    register(store, "late", lease_us=0)
    assert sweep(store) == 1
    # Its transaction was under way when it was swept away; now it comes through, in the name of nobody.
    claim(store, "late")
    handlers = Handlers()
    handlers.handle("work")(lambda job: None)
    with working(Worker(store, handlers)):
        wait_state(jobs, enqueued.id, "complete")


def test_the_jobs_of_a_dead_worker_do_not_trickle(store: Store, jobs: Jobs) -> None:
    count = 60
    jobs.enqueue_many([NewJob(kind="work")] * count)
    register(store, "dead", lease_us=0)
    claimed = claim(store, "dead", count)
    handlers = Handlers()
    handlers.handle("work")(lambda job: None)
    started_s = REAL.monotonic_s()
    with working(Worker(store, handlers)):
        for job in claimed:
            wait_state(jobs, job.id, "complete")
    # They run at once, as soon as the sweep has found them: one second apart they would take a minute.
    assert REAL.monotonic_s() - started_s < count / 4


def test_a_sweeper_that_does_not_know_a_kind_does_not_end_its_jobs(store: Store, jobs: Jobs) -> None:
    job_id = jobs.enqueue("theirs").id
    handlers = Handlers()
    for number in range(5):
        register(store, f"dead-{number}", lease_us=0)
        lane = ledger.LANE_READY if number < 3 else ledger.LANE_ALONE
        store.atomic(
            lambda tx: ledger.claim(tx, queue="default", worker=f"dead-{number}", count=1, lane=lane)  # noqa: B023
        )
        store.atomic(lambda tx: ledger.reclaim(tx, f"dead-{number}", "sweeper", handlers.rule_of))  # noqa: B023
        rows(str(store.address), "UPDATE holdfast_job SET due_us = 0")
        store.atomic(lambda tx: tx.rows("job.promote", count=10))
    # Its own handler may allow ten attempts; who has never heard of it cannot say that three are enough.
    assert jobs.show(job_id)["state"] == "queued"


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
    store.atomic(lambda tx: ledger.settle(tx, "worker", finished))
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

    with working(Worker(store, handlers)):
        wait_state(jobs, jobs.enqueue("work").id, "complete")


def test_a_handler_that_cannot_know_whether_it_committed_is_tried_again(store: Store, jobs: Jobs) -> None:
    handlers = Handlers()

    @handlers.handle("work", retry=SOON)
    def work(job: Job) -> None:
        if job.attempt == 1:
            raise COMMIT_UNKNOWN()

    with working(Worker(store, handlers)):
        # Jobs are done at least once: after a crash in that very moment it would be tried again as well.
        wait_state(jobs, jobs.enqueue("work").id, "complete")


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

    with working(Worker(store, handlers, lease_s=1.0)):
        assert jobs.wait(jobs.enqueue("work").id, WITHIN_S) == "in time"


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

    with working(Worker(store, handlers, lease_s=1.0)):
        job_id = jobs.enqueue("work").id
        # Or later, should it have stood still by itself.
        wait_until(lambda: jobs.show(job_id)["state"] != "queued", within_s=WITHIN_S, what="it is claimed")
        # As if it had stood still for long: another worker declares it dead.
        (held_by,) = rows(str(store.address), f"SELECT lease_owner FROM holdfast_job WHERE id = '{job_id}'")[0]
        store.atomic(lambda tx: ledger.reclaim(tx, held_by, "sweeper", handlers.rule_of))
        assert jobs.wait(job_id, WITHIN_S) == "fresh"


def test_a_transaction_that_stands_still_does_not_keep_others_from_being_swept(
    postgres_store: Store, postgres_dsn: str
) -> None:
    import psycopg

    store, jobs = postgres_store, Jobs(postgres_store)
    jobs.enqueue_many([NewJob(kind="work")] * 4)
    register(store, "stuck", lease_us=300_000)
    (held,) = claim(store, "stuck", 1)
    register(store, "gone", lease_us=300_000)
    gone = {job.id for job in claim(store, "gone")}
    with psycopg.connect(postgres_dsn) as connection:
        # A worker whose machine was paused in the middle of settling a job.
        connection.execute("UPDATE holdfast_job SET priority = 1 WHERE id = %s", [held.id])
        with working(Worker(store, Handlers(), lease_s=1.0)):
            question = "SELECT subject FROM holdfast_journal WHERE verb = 'reclaimed'"
            wait_until(
                lambda: {job_id for (job_id,) in rows(postgres_dsn, question)} == gone,
                within_s=WITHIN_S,
                what="the jobs of the other dead worker have come back",
            )
            connection.rollback()
            wait_until(
                lambda: {job_id for (job_id,) in rows(postgres_dsn, question)} == gone | {held.id},
                within_s=WITHIN_S,
                what="this one has come back too",
            )
    jobs.close()


def test_a_claim_that_comes_through_long_after_its_connection_was_lost_is_given_back(
    postgres_store: Store, postgres_dsn: str
) -> None:
    rows(postgres_dsn, "CREATE TABLE let_through (moment INT)")
    rows(postgres_dsn, SLOW_COMMIT)
    rows(postgres_dsn, SLOW_TRIGGER)
    jobs = Jobs(postgres_store)
    handlers = Handlers()
    handlers.handle("work")(lambda job: None)
    committing = (
        "SELECT 1 FROM pg_stat_activity WHERE query ~ '^(COMMIT|UPDATE holdfast_job)' AND wait_event = 'PgSleep'"
    )
    with FaultProxy(urlsplit(postgres_dsn).port or 0) as proxy:
        troubled = Store.open(through(proxy, postgres_dsn))
        with working(Worker(troubled, handlers, lease_s=60.0)):
            job_id = jobs.enqueue("work").id
            wait_until(lambda: bool(rows(postgres_dsn, committing)), within_s=WITHIN_S, what="the claim commits")
            proxy.reset_connections()
            # The worker looks for what it may have claimed before there is anything to find.
            REAL.sleep(AFTER_S)
            rows(postgres_dsn, "INSERT INTO let_through VALUES (1)")
            wait_state(jobs, job_id, "complete")
        troubled.close()
    assert "released" in [event["verb"] for event in jobs.history(job_id)]
    jobs.close()


def test_a_handler_whose_commit_was_not_answered_has_its_effect_once(postgres_store: Store, postgres_dsn: str) -> None:
    make_effect_table(postgres_dsn)
    jobs = Jobs(postgres_store)
    handlers = Handlers()
    with FaultProxy(urlsplit(postgres_dsn).port or 0) as proxy:
        troubled = Store.open(through(proxy, postgres_dsn))
        tries: list[int] = []

        @handlers.handle("work", retry=SOON)
        def work(job: Job) -> None:
            def phase(tx: Tx) -> None:
                tries.append(job.attempt)
                tx._execute(f"INSERT INTO effect VALUES ('{job.id}', {job.attempt}, 0)", {})
                job.finish(tx)

            proxy.set(lose_reply=COMMIT, times=1)
            # Repeatable, since the token lets only one of the repetitions through.
            troubled.atomic(phase, repeatable=True)

        with working(Worker(postgres_store, handlers)):
            wait_state(jobs, jobs.enqueue("work").id, "complete")
            wait_until(lambda: len(tries) >= 2, within_s=WITHIN_S, what="it was repeated")
        troubled.close()
    jobs.close()
    assert rows(postgres_dsn, "SELECT count(*) FROM effect") == [(1,)]
    assert books(postgres_dsn).complaints() == []


def test_handlers_that_use_up_every_connection_do_not_cost_the_worker_its_lease(postgres_dsn: str) -> None:
    store = Store.open(postgres_dsn, pool_max=4)
    jobs = Jobs(store)
    handlers = Handlers()
    inside, go_on = threading.Semaphore(0), threading.Event()

    def hold(tx: Tx) -> None:
        tx.now_us()
        inside.release()
        assert go_on.wait(WITHIN_S)

    # More of them than there are connections.
    handlers.handle("work")(lambda job: store.atomic(hold))
    lease = "SELECT lease_until_us FROM holdfast_worker"
    ended = "SELECT count(*) FROM holdfast_journal WHERE verb IN ('finished', 'reclaimed')"
    with working(Worker(store, handlers, lease_s=9.0)):
        jobs.enqueue_many([NewJob(kind="work")] * 6)
        for _ in range(4):
            assert inside.acquire(timeout=WITHIN_S)
        first = rows(postgres_dsn, lease)
        wait_until(lambda: rows(postgres_dsn, lease) > first, within_s=WITHIN_S, what="the lease is renewed")
        go_on.set()
        wait_until(lambda: rows(postgres_dsn, ended)[0][0] >= 6, within_s=WITHIN_S, what="they are done")
    jobs.close()
    store.close()
    verbs = rows(postgres_dsn, "SELECT verb, count(*) FROM holdfast_job_event WHERE verb <> 'enqueued' GROUP BY verb")
    assert dict(verbs) == {"claimed": 6, "finished": 6}
