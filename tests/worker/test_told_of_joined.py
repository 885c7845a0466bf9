"""What is told of jobs that are enqueued and finished in transactions that the user commits."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from holdfast.base import Facts, bus
from holdfast.lifecycle import Cancel
from holdfast.policy import Backoff, Breaker, Retry
from holdfast.store import Engine, Store
from holdfast.testing.processes import wait_until
from holdfast.watch import Meter, names
from holdfast.worker import Handlers, Job, Jobs, NewJob, QueueSettings, Worker

PATIENCE_S = 30.0
AT_ONCE = Retry(attempts=3, attempts_unknown=3, backoff=Backoff.constant(0))
Work = Callable[..., Worker]
Told = list[tuple[str, Facts]]


@pytest.fixture
def told() -> Iterator[Told]:
    with bus.heard() as heard:
        yield heard


@pytest.fixture
def own(database_url: str) -> Iterator[Callable[[], Any]]:
    """Connections of the user's own, whose commits the store does not see."""
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


def verbs(told: Told, job_id: str) -> list[str]:
    return [verb.removeprefix("job.") for verb, facts in list(told) if facts.get("id") == job_id]


def facts_of(told: Told, job_id: str, verb: str) -> Facts:
    return next(facts for known, facts in list(told) if facts.get("id") == job_id and known == f"job.{verb}")


def heard(told: Told, job_id: str, last: str) -> list[str]:
    """Everything that was told of the job, once its last event has been."""
    wait_until(lambda: last in verbs(told, job_id), within_s=PATIENCE_S, what=f"that the job was {last}")
    return verbs(told, job_id)


def attempts(told: Told, job_id: str, last: str = "finished") -> list[str]:
    """The same without `enqueued`: of a job that is enqueued here, the caller tells while the worker begins."""
    return [verb for verb in heard(told, job_id, last) if verb != "enqueued"]


def finishing(handlers: Handlers, store: Store, connect: Callable[[], Any], end: Callable[[Any, Job], None]) -> None:
    """A handler that finishes its job in a transaction of its own, which ends as the test says."""

    @handlers.handle("k", retry=AT_ONCE)
    def handle(job: Job) -> None:
        connection = connect()
        job.finish(store.join(connection), "mine")
        end(connection, job)


def test_a_job_finished_in_a_joined_transaction_is_told_as_finished_once(
    store: Store, jobs: Jobs, handlers: Handlers, work: Work, own: Callable[[], Any], told: Told
) -> None:
    finishing(handlers, store, own, lambda connection, job: connection.commit())
    meter = Meter()
    end = bus.listen(meter.hear)
    work()
    made = jobs.enqueue("k")
    assert attempts(told, made.id) == ["claimed", "finished"]
    end()
    (ended,) = [event for event in jobs.history(made.id) if event["verb"] == "finished"]
    assert facts_of(told, made.id, "finished")["duration_us"] == ended["duration_us"] > 0
    counted = {one.values: one.amount for one in meter.take() if one.metric is names.JOB_TRANSITIONS}
    assert counted == {("default", verb): 1 for verb in ("enqueued", "claimed", "finished")}


def test_a_commit_and_then_an_exception_is_still_told_as_finished(
    store: Store, jobs: Jobs, handlers: Handlers, work: Work, own: Callable[[], Any], told: Told
) -> None:
    def end(connection: Any, job: Job) -> None:
        connection.commit()
        raise ConnectionResetError("after the commit")

    finishing(handlers, store, own, end)
    work()
    made = jobs.enqueue("k", attempts=1)
    assert attempts(told, made.id) == ["claimed", "finished"]
    assert jobs.wait(made.id, 0) == "mine"


def test_a_rollback_is_told_as_the_retry_that_it_is(
    store: Store, jobs: Jobs, handlers: Handlers, work: Work, own: Callable[[], Any], told: Told
) -> None:
    def end(connection: Any, job: Job) -> None:
        if job.attempt == 1:
            connection.rollback()
        elif job.attempt == 2:
            connection.rollback()
            raise ConnectionResetError("before the commit")
        else:
            connection.commit()

    finishing(handlers, store, own, end)
    work()
    made = jobs.enqueue("k")
    assert attempts(told, made.id) == ["claimed", "retried", "claimed", "retried", "claimed", "finished"]
    codes = [facts["code"] for verb, facts in told if verb == "job.retried"]
    assert codes == ["TRANSACTION_ROLLED_BACK", "CONNECTION_RESET"]


def test_a_breaker_counts_a_joined_finish_as_a_success(
    store: Store, jobs: Jobs, handlers: Handlers, work: Work, own: Callable[[], Any], told: Told
) -> None:
    finishing(handlers, store, own, lambda connection, job: connection.commit())
    work(queues=[QueueSettings("default", breaker=Breaker())])
    first, second = jobs.enqueue("k"), jobs.enqueue("k")
    for made in (first, second):
        heard(told, made.id, "finished")
    counts = "SELECT sum(calls), sum(failures) FROM holdfast_breaker_count"
    rows = store.atomic(lambda tx: tx._execute(counts, {}).fetchall())
    assert [(int(calls), int(failures)) for calls, failures in rows] == [(2, 0)]


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_transaction_that_the_handler_left_open_holds_up_no_other_job(
    store: Store, jobs: Jobs, handlers: Handlers, work: Work, own: Callable[[], Any], told: Told
) -> None:
    left_open: list[Any] = []

    def end(connection: Any, job: Job) -> None:
        if job.attempt == 1:
            left_open.append(connection)
        else:
            connection.commit()

    finishing(handlers, store, own, end)
    handlers.handle("other")(lambda job: None)
    work()
    made = jobs.enqueue("k")
    wait_until(lambda: bool(left_open), within_s=PATIENCE_S, what="the transaction that stays open")
    assert jobs.wait(jobs.enqueue("other").id, PATIENCE_S) is None
    assert attempts(told, made.id, "claimed") == ["claimed"]
    left_open[0].rollback()
    assert attempts(told, made.id) == ["claimed", "retried", "claimed", "finished"]


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_worker_stops_though_a_handler_never_ends_its_transaction(
    store: Store, jobs: Jobs, handlers: Handlers, work: Work, own: Callable[[], Any], told: Told
) -> None:
    finishing(handlers, store, own, lambda connection, job: None)
    worker = work(grace_s=0.3)
    made = jobs.enqueue("k")
    heard(told, made.id, "claimed")
    worker.stop()
    assert worker.join(PATIENCE_S)


def test_a_finish_past_the_time_limit_is_told_as_finished(
    store: Store, jobs: Jobs, handlers: Handlers, work: Work, told: Told
) -> None:
    going_on: list[bool] = []

    @handlers.handle("k", retry=AT_ONCE, timeout_s=0.2)
    def slow(job: Job) -> None:
        store.atomic(lambda tx: job.finish(tx, "done"))
        wait_until(lambda: bool(going_on), within_s=PATIENCE_S, what="the end of the test")

    work()
    made = jobs.enqueue("k")
    assert attempts(told, made.id) == ["claimed", "finished"]
    going_on.append(True)


# -- enqueued --------------------------------------------------------------------------------------------------------


def test_a_job_enqueued_in_a_joined_transaction_is_told_as_enqueued_once_and_first(
    store: Store, jobs: Jobs, handlers: Handlers, work: Work, own: Callable[[], Any], told: Told
) -> None:
    handlers.handle("k")(lambda job: None)
    work()
    connection = own()
    made = jobs.enqueue_many([NewJob(kind="k", tenant="t") for _ in range(20)], tx=store.join(connection))
    assert told == []
    connection.commit()
    for one in made:
        assert heard(told, one.id, "finished") == ["enqueued", "claimed", "finished"]
    assert {facts_of(told, one.id, "enqueued")["tenant"] for one in made} == {"t"}


def test_a_job_that_was_rolled_back_is_never_told(
    store: Store, jobs: Jobs, handlers: Handlers, work: Work, own: Callable[[], Any], told: Told
) -> None:
    handlers.handle("k")(lambda job: None)
    work()
    connection = own()
    gone = jobs.enqueue("k", tx=store.join(connection))
    connection.rollback()
    connection.execute("SAVEPOINT one") if store.engine is Engine.POSTGRESQL else connection.execute("BEGIN IMMEDIATE")
    if store.engine is Engine.SQLITE:
        connection.execute("SAVEPOINT one")
    undone = jobs.enqueue("k", tx=store.join(connection))
    connection.execute("ROLLBACK TO SAVEPOINT one")
    kept = jobs.enqueue("k", tx=store.join(connection))
    connection.commit()
    heard(told, kept.id, "finished")
    assert (verbs(told, gone.id), verbs(told, undone.id)) == ([], [])


def test_one_that_is_not_due_yet_is_told_long_before_it_is_claimed(
    store: Store, jobs: Jobs, handlers: Handlers, work: Work, own: Callable[[], Any], told: Told
) -> None:
    work()
    connection = own()
    made = jobs.enqueue("k", delay_s=3_600, tx=store.join(connection))
    connection.commit()
    assert heard(told, made.id, "enqueued") == ["enqueued"]
    assert facts_of(told, made.id, "enqueued")["delay_us"] == pytest.approx(3_600_000_000, abs=1_000)


def test_two_workers_tell_it_once(
    store: Store, jobs: Jobs, handlers: Handlers, work: Work, own: Callable[[], Any], told: Told
) -> None:
    handlers.handle("k")(lambda job: None)
    handlers.handle("later")(lambda job: Cancel("no"))
    work()
    work()
    connection = own()
    many = [NewJob(kind="k") for _ in range(50)] + [NewJob(kind="later", delay_s=0.1) for _ in range(50)]
    made = jobs.enqueue_many(many, tx=store.join(connection))
    connection.commit()
    for one in made:
        wait_until(lambda one=one: len(verbs(told, one.id)) >= 3, within_s=PATIENCE_S, what="its end")  # type: ignore[misc]
    assert [verbs(told, one.id)[:1] for one in made] == [["enqueued"]] * 100
    assert sum(verb == "job.enqueued" for verb, _ in told) == 100


def test_one_that_is_cancelled_before_anyone_saw_it_is_told_from_its_beginning(
    store: Store, jobs: Jobs, own: Callable[[], Any], told: Told
) -> None:
    connection = own()
    made = jobs.enqueue("k", tx=store.join(connection))
    connection.commit()
    assert jobs.cancel(made.id)
    assert verbs(told, made.id) == ["enqueued", "cancelled"]
