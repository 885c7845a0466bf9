"""Wake-ups: an idle worker is told of work; polling is the contract for all that nobody tells."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from holdfast.base import monotonic_s
from holdfast.store import Engine, Store
from holdfast.testing import instant
from holdfast.testing.processes import wait_until
from holdfast.worker import Handlers, Job, Jobs, Worker
from holdfast.worker import heart as heart_module
from holdfast.worker import pump as pump_module
from holdfast.worker import stock as stock_module
from holdfast.worker import wake as wake_module
from holdfast.worker.wake import CHANNEL, Listener, Notifier
from holdfast.worker.worker import NUDGE_S

PATIENCE_S = 30.0
FAR_S = 3_600.0
Work = Callable[..., Worker]


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch, store: Store, handlers: Handlers, work: Work) -> Worker:
    """A worker that looks by itself once in an hour, and has just looked."""
    monkeypatch.setattr(pump_module, "POLL_S", FAR_S)
    monkeypatch.setattr(stock_module, "POLL_S", FAR_S)
    monkeypatch.setattr(heart_module, "REST_S", FAR_S)
    handlers.handle("k")(lambda job: "done")
    listens = beginning_to_listen(store, monkeypatch)
    worker = work(lease_s=10 * FAR_S)
    wait_until(listens, within_s=PATIENCE_S, what="the worker listens")
    wait_until(lambda: not promising(worker), within_s=PATIENCE_S, what="the worker has found nothing")
    return worker


def promising(worker: Worker) -> bool:
    return any(stock.promising for stock in worker._pump._stocks.values())


def beginning_to_listen(store: Store, monkeypatch: pytest.MonkeyPatch) -> Callable[[], bool]:
    """Whether somebody has begun since to listen on PostgreSQL, or to look at the file of SQLite."""
    if store.engine is Engine.POSTGRESQL:
        # The server may still show those of the test before, who are leaving.
        before = listening(store)
        return lambda: bool(listening(store) - before)
    looks: list[int] = []
    changes = store.database.changes  # type: ignore[attr-defined]

    def look() -> int:
        looks.append(1)
        return int(changes())

    monkeypatch.setattr(store.database, "changes", look)
    # What is written before the first look has ended is not seen as a change.
    return lambda: len(looks) > 1


def listening(store: Store) -> set[int]:
    """The connections that listen, as the server sees them."""
    with store.database.transaction(write=False) as execute:
        asked = (
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN %%'"
            " AND state = 'idle'"
        )
        return {pid for (pid,) in execute(asked, {}).fetchall()}


def test_an_enqueue_in_this_process_wakes_the_worker(jobs: Jobs, idle: Worker) -> None:
    assert jobs.wait(jobs.enqueue("k").id, PATIENCE_S) == "done"
    assert jobs.wait(jobs.enqueue("k", dedupe_key="d").id, PATIENCE_S) == "done"


def test_an_enqueue_through_another_store_wakes_the_worker(jobs: Jobs, idle: Worker, database_url: str) -> None:
    other = Store.open(database_url)
    theirs = Jobs(other)
    made = theirs.enqueue("k")
    assert jobs.wait(made.id, PATIENCE_S) == "done"
    theirs.close()
    other.close()


def test_an_enqueue_in_another_process_wakes_the_worker(jobs: Jobs, idle: Worker, database_url: str) -> None:
    script = (
        "import sys; from holdfast.store import Store; from holdfast.worker import Jobs;"
        " store = Store.open(sys.argv[1]); jobs = Jobs(store); print(jobs.enqueue('k').id, flush=True);"
        # It stays until the job is done: who ends at once may take its last word along.
        " sys.stdin.read(); jobs.close(); store.close()"
    )
    command = [sys.executable, "-c", script, database_url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert jobs.wait(other.stdout.readline().strip(), PATIENCE_S) == "done"
    assert other.returncode == 0


def test_an_enqueue_inside_a_transaction_wakes_the_worker_after_the_commit(
    store: Store, jobs: Jobs, idle: Worker
) -> None:
    made = store.atomic(lambda tx: jobs.enqueue("k", tx=tx))
    assert jobs.wait(made.id, PATIENCE_S) == "done"


def test_a_job_that_becomes_due_is_not_left_waiting_for_the_next_look(jobs: Jobs, idle: Worker) -> None:
    assert jobs.wait(jobs.enqueue("k", delay_s=0.05).id, PATIENCE_S) == "done"


def test_a_job_that_is_put_back_for_a_moment_is_not_left_waiting_either(
    jobs: Jobs, idle: Worker, handlers: Handlers
) -> None:
    from holdfast.lifecycle import Snooze

    seen: list[int] = []

    @handlers.handle("twice")
    def twice(job: Job) -> Any:
        seen.append(1)
        return Snooze(0.0 if len(seen) == 1 else 0.01) if len(seen) < 3 else "done"

    assert jobs.wait(jobs.enqueue("twice").id, PATIENCE_S) == "done"


def test_what_nobody_tells_is_found_by_looking(
    store: Store, jobs: Jobs, handlers: Handlers, work: Work, database_url: str
) -> None:
    """A transaction that its owner commits: only the workers' own look finds it."""
    handlers.handle("k")(lambda job: "done")
    work()
    connection: Any = (
        sqlite3.connect(database_url.removeprefix("sqlite:///"), timeout=PATIENCE_S)
        if store.engine is Engine.SQLITE
        else psycopg.connect(database_url)
    )
    made = jobs.enqueue("k", tx=store.join(connection))
    connection.commit()
    connection.close()
    assert jobs.wait(made.id, PATIENCE_S) == "done"


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_listener_that_was_cut_off_listens_again(store: Store, jobs: Jobs, idle: Worker) -> None:
    wait_until(lambda: len(listening(store)) == 1, within_s=PATIENCE_S, what="nobody else listens")
    (before,) = listening(store)
    with store.database.single() as execute:
        execute(f"SELECT pg_terminate_backend({before})", {})
    wait_until(
        lambda: len(listening(store) - {before}) == 1, within_s=PATIENCE_S, what="it listens again, on another one"
    )
    assert jobs.wait(jobs.enqueue("k").id, PATIENCE_S) == "done"


# -- the teller ----------------------------------------------------------------------------------------------------


@pytest.fixture
def heard(store: Store) -> Iterator[list[str]]:
    """What arrives on the channel."""
    if store.engine is not Engine.POSTGRESQL:
        pytest.skip("files are looked at, nobody tells")
    arrived: list[str] = []
    ready, enough = threading.Event(), threading.Event()

    def listen() -> None:
        with psycopg.connect(store.address.target, autocommit=True) as connection:
            connection.execute(f"LISTEN {CHANNEL}")
            ready.set()
            while not enough.is_set():
                arrived.extend(told.payload for told in connection.notifies(timeout=0.05))

    thread = threading.Thread(target=listen)
    thread.start()
    assert ready.wait(PATIENCE_S)
    yield arrived
    enough.set()
    thread.join()


Tell = Callable[[Notifier, str], None]


def told_behind(notifier: Notifier, queue: str) -> None:
    """As whoever enqueues one job tells of it."""
    if not notifier._store.put("queue.register", name=queue, then=notifier.turn(queue)):
        notifier.wake(queue)


TELLS = pytest.mark.parametrize("tell", [Notifier.wake, told_behind])


@TELLS
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_many_enqueues_need_few_notifications(store: Store, heard: list[str], tell: Tell) -> None:
    notifier = Notifier(store)
    for _ in range(2_000):
        tell(notifier, "mail")
    tell(notifier, "last")
    notifier.close()
    # Notifications of one commit may arrive in any order.
    wait_until(lambda: {"last", "mail"} <= {*heard}, within_s=PATIENCE_S, what="both queues have been told")
    assert heard.count("mail") < 1_000


@TELLS
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_what_was_to_be_told_is_told_before_the_end(store: Store, heard: list[str], tell: Tell) -> None:
    notifier = Notifier(store)
    tell(notifier, "mail")
    notifier.close()
    wait_until(lambda: heard == ["mail"], within_s=PATIENCE_S, what="it has arrived")


def test_telling_never_fails(store: Store) -> None:
    notifier = Notifier(store)
    store.close()
    notifier.wake("mail")
    notifier.close()
    notifier.wake("after the end")


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_whoever_enqueues_one_job_tells_of_it_without_a_thread(store: Store, heard: list[str]) -> None:
    jobs = Jobs(store)
    made = jobs.enqueue("k", queue="mail")
    wait_until(lambda: heard == ["mail"], within_s=PATIENCE_S, what="it has arrived")
    assert jobs.notifier._thread is None
    assert jobs.show(made.id)["state"] == "queued"
    jobs.close()


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_only_one_enqueue_in_a_moment_has_its_turn_to_tell(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wake_module, "DEBOUNCE_S", FAR_S)
    notifier = Notifier(store)
    assert notifier.turn("mail") is not None
    assert notifier.turn("mail") is None


def test_wake_ups_without_end_do_not_keep_the_heart_from_looking(
    store: Store, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []
    with instant() as time:
        worker = Worker(store, handlers)
        monkeypatch.setattr(worker._heart, "nudge", lambda: looks.append(monotonic_s()))
        began_s = monotonic_s()
        for _ in range(100):
            worker._woken()
            worker._nudge()
            time.advance(0.001)
    assert looks[0] - began_s == pytest.approx(NUDGE_S, abs=0.0011)
    assert len(looks) >= 100 / (1_000 * NUDGE_S + 2)


def test_a_listener_stops_without_waiting_for_its_next_look(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wake_module, "LISTEN_S", FAR_S)
    monkeypatch.setattr(wake_module, "LOOK_S", FAR_S)
    told = threading.Event()
    listener = Listener(store, told.set, at=store)
    listener.stop()
    listener = Listener(store, told.set, at=store)
    listens = beginning_to_listen(store, monkeypatch)
    listener.start()
    if store.engine is Engine.POSTGRESQL:
        wait_until(listens, within_s=PATIENCE_S, what="it listens")
    ending = threading.Thread(target=listener.stop, daemon=True)
    ending.start()
    ending.join(PATIENCE_S)
    assert not ending.is_alive()
    store.woken("mail")
