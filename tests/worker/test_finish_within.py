"""`job.finish(tx)`: the handler's own writes and the completion commit together, or neither does."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from holdfast.base import Limits
from holdfast.catalog import Failure
from holdfast.policy import Backoff, Retry
from holdfast.store import Store, Tx
from holdfast.testing.postgres import PostgresAddress
from holdfast.testing.processes import wait_until
from holdfast.testing.proxy import COMMIT, FaultProxy
from holdfast.worker import Handlers, Job, JobLost, Jobs, Worker, ledger

PATIENCE_S = 30.0
AT_ONCE = Retry(attempts=3, attempts_unknown=3, backoff=Backoff.constant(0))
Work = Callable[..., Worker]


@pytest.fixture(autouse=True)
def charges(store: Store) -> None:
    """A table of the handler's own."""
    with store.database.script(["CREATE TABLE charge (job TEXT, attempt INTEGER)"]):
        pass


def charge(tx: Tx, job: Job) -> None:
    tx._execute(f"INSERT INTO charge VALUES ('{job.id}', {job.attempt})", {})


def charged(store: Store) -> list[int]:
    """Which attempts have charged."""
    rows = store.atomic(lambda tx: tx._execute("SELECT attempt FROM charge ORDER BY attempt", {}).fetchall())
    return [attempt for (attempt,) in rows]


def ended(jobs: Jobs, job_id: str) -> dict[str, Any]:
    wait_until(lambda: jobs.show(job_id)["state"] in {"complete", "failed"}, within_s=PATIENCE_S, what="the job's end")
    return jobs.show(job_id)


def verbs_of(jobs: Jobs, job_id: str) -> list[str]:
    return [event["verb"] for event in jobs.history(job_id)]


def settled_quietly(jobs: Jobs, handlers: Handlers) -> None:
    """The worker, which does one job at a time, has settled all that came before: it has done another one since."""
    handlers.handle("after")(lambda job: None)
    jobs.wait(jobs.enqueue("after").id, PATIENCE_S)


def test_effect_and_completion_commit_together(store: Store, jobs: Jobs, handlers: Handlers, work: Work) -> None:
    seen: list[str] = []

    @handlers.handle("k")
    def charging(job: Job) -> str:
        def phase(tx: Tx) -> None:
            charge(tx, job)
            job.finish(tx, {"total": 7})

        store.atomic(phase)
        seen.append(jobs.show(job.id)["state"])
        return "what a handler returns afterwards is no longer asked for"

    work(concurrency=1)
    made = jobs.enqueue("k")
    assert jobs.wait(made.id, PATIENCE_S) == {"total": 7}
    settled_quietly(jobs, handlers)
    assert seen == ["complete"]
    assert charged(store) == [1]
    assert verbs_of(jobs, made.id) == ["enqueued", "claimed", "finished"]


async def test_a_coroutine_does_the_same(store: Store, jobs: Jobs, handlers: Handlers, work: Work) -> None:
    @handlers.handle("k")
    async def charging(job: Job) -> None:
        def phase(tx: Tx) -> None:
            charge(tx, job)
            job.finish(tx)

        await store.atomic_async(phase)

    work()
    made = jobs.enqueue("k")
    assert jobs.wait(made.id, PATIENCE_S) is None
    assert charged(store) == [1]


def test_a_rollback_undoes_both_and_the_job_is_tried_again(
    store: Store, jobs: Jobs, handlers: Handlers, work: Work
) -> None:
    @handlers.handle("k", retry=AT_ONCE)
    def charging(job: Job) -> None:
        def phase(tx: Tx) -> None:
            charge(tx, job)
            job.finish(tx)
            if job.attempt < 3:
                raise ConnectionResetError("after the finish, before the commit")

        store.atomic(phase)

    work()
    made = jobs.enqueue("k")
    assert ended(jobs, made.id)["state"] == "complete"
    assert charged(store) == [3]
    assert verbs_of(jobs, made.id) == ["enqueued", "claimed", "retried", "claimed", "retried", "claimed", "finished"]


def test_a_rollback_that_the_handler_hides_is_still_no_completion(
    store: Store, jobs: Jobs, handlers: Handlers, work: Work
) -> None:
    @handlers.handle("k", retry=AT_ONCE)
    def charging(job: Job) -> str:
        def phase(tx: Tx) -> None:
            charge(tx, job)
            job.finish(tx)
            if job.attempt == 1:
                raise LookupError

        try:
            store.atomic(phase)
        except LookupError:
            return "as if nothing had happened"
        return "well"

    work()
    made = jobs.enqueue("k")
    assert ended(jobs, made.id)["state"] == "complete"
    assert charged(store) == [2]
    lost = jobs.history(made.id)[2]
    assert lost["code"] == "TRANSACTION_ROLLED_BACK"
    assert lost["reason"] == "the handler finished the job in a transaction that was not committed"


def test_a_crash_after_the_commit_leaves_it_complete(store: Store, jobs: Jobs, handlers: Handlers, work: Work) -> None:
    runs: list[int] = []

    @handlers.handle("k", retry=AT_ONCE)
    def charging(job: Job) -> None:
        runs.append(job.attempt)

        def phase(tx: Tx) -> None:
            charge(tx, job)
            job.finish(tx, "kept")

        store.atomic(phase)
        raise SystemExit("the process dies a moment later")

    work(concurrency=1)
    made = jobs.enqueue("k")
    assert jobs.wait(made.id, PATIENCE_S) == "kept"
    settled_quietly(jobs, handlers)
    assert (runs, charged(store)) == ([1], [1])
    assert verbs_of(jobs, made.id) == ["enqueued", "claimed", "finished"]


@pytest.fixture
def own(database_url: str) -> Iterator[Callable[[], Any]]:
    """A connection of the handler's own, whose commit we do not see."""
    opened: list[Any] = []

    def connect() -> Any:
        connection: Any = (
            sqlite3.connect(database_url.removeprefix("sqlite:///"), check_same_thread=False, timeout=PATIENCE_S)
            if database_url.startswith("sqlite")
            else psycopg.connect(database_url)
        )
        opened.append(connection)
        return connection

    yield connect
    for connection in opened:
        connection.close()


def test_a_joined_transaction_completes_the_job_when_its_owner_commits(
    store: Store, jobs: Jobs, handlers: Handlers, work: Work, own: Callable[[], Any]
) -> None:
    @handlers.handle("k", retry=AT_ONCE)
    def charging(job: Job) -> None:
        connection = own()
        connection.execute(f"INSERT INTO charge VALUES ('{job.id}', {job.attempt})")
        job.finish(store.join(connection), "mine")
        if job.attempt == 1:
            connection.rollback()
        else:
            connection.commit()

    work(concurrency=1)
    made = jobs.enqueue("k")
    assert jobs.wait(made.id, PATIENCE_S) == "mine"
    settled_quietly(jobs, handlers)
    assert charged(store) == [2]
    assert verbs_of(jobs, made.id) == ["enqueued", "claimed", "retried", "claimed", "finished"]


def claimed(store: Store, jobs: Jobs) -> Job:
    jobs.enqueue("k")
    (job,) = store.atomic(lambda tx: ledger.claim(tx, queue="default", worker="w-1", count=1))
    return job


def test_when_the_lease_is_gone_nothing_of_the_transaction_stays(store: Store, jobs: Jobs) -> None:
    job = claimed(store, jobs)
    store.atomic(lambda tx: ledger.reclaim(tx, "w-1", "w-2", lambda _: None))

    def phase(tx: Tx) -> None:
        charge(tx, job)
        job.finish(tx)

    with pytest.raises(JobLost, match=job.id):
        store.atomic(phase)
    assert charged(store) == []
    assert not job.finished
    assert jobs.show(job.id)["state"] == "queued"


def test_a_job_is_finished_once(store: Store, jobs: Jobs) -> None:
    job = claimed(store, jobs)
    store.atomic(lambda tx: job.finish(tx, "first"))

    def again(tx: Tx) -> None:
        charge(tx, job)
        job.finish(tx, "second")

    with pytest.raises(JobLost):
        store.atomic(again)
    assert jobs.wait(job.id, 0) == "first"
    assert charged(store) == []


def test_a_result_that_cannot_be_kept_commits_nothing(store: Store, jobs: Jobs) -> None:
    job = claimed(store, jobs)

    def phase(tx: Tx) -> None:
        charge(tx, job)
        job.finish(tx, "x" * (Limits().result_bytes_max + 1))

    with pytest.raises(ValueError, match="at most"):
        store.atomic(phase)
    assert charged(store) == []
    assert jobs.show(job.id)["state"] == "processing"


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("repeatable", [False, True])
def test_when_the_reply_to_the_commit_is_lost_the_effect_happens_once(
    store: Store, jobs: Jobs, handlers: Handlers, work: Work, database_url: str, repeatable: bool
) -> None:
    told: list[str] = []
    address = PostgresAddress(psycopg.conninfo.conninfo_to_dict(database_url)["port"])  # type: ignore[arg-type]
    with FaultProxy(int(address.port)) as proxy:
        behind = Store.open(PostgresAddress(proxy.port).dsn(database_url.rsplit("/", 1)[1]))

        @handlers.handle("k", retry=AT_ONCE)
        def charging(job: Job) -> None:
            def phase(tx: Tx) -> None:
                charge(tx, job)
                job.finish(tx)

            proxy.set(lose_reply=COMMIT, times=1)
            try:
                behind.atomic(phase, repeatable=repeatable)
            except (Failure, JobLost) as error:
                told.append(type(error).__name__)
                raise

        work(concurrency=1)
        made = jobs.enqueue("k")
        assert ended(jobs, made.id)["state"] == "complete"
        settled_quietly(jobs, handlers)
        behind.close()
    assert told == ["JobLost" if repeatable else "Failure"]
    assert charged(store) == [1]
    assert verbs_of(jobs, made.id) == ["enqueued", "claimed", "finished"]


def test_a_job_that_was_not_held_where_it_was_finished_is_no_unknown_failure(
    store: Store, jobs: Jobs, handlers: Handlers, work: Work
) -> None:
    """Right after a failover the handler's own connection may still lead to a server that does not know the claim."""

    @handlers.handle("k", retry=Retry(attempts=4, attempts_unknown=2, backoff=Backoff.constant(0)))
    def charging(job: Job) -> None:
        if job.attempt < 4:
            raise JobLost("the other server has not seen the claim")
        store.atomic(lambda tx: (charge(tx, job), job.finish(tx)))

    work()
    shown = ended(jobs, jobs.enqueue("k").id)
    assert (shown["state"], shown["attempt_count"]) == ("complete", 4)
    assert charged(store) == [4]
