"""A leader that hangs, and one that takes no writes any more: the same processes go on with whoever does."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from holdfast.base import REAL
from holdfast.catalog import Failure
from holdfast.guard import Link
from holdfast.policy import Retry
from holdfast.store import Store
from holdfast.testing.postgres import PostgresServer, multi_host_dsn
from holdfast.testing.processes import wait_until
from holdfast.worker import Handlers, Jobs, NewJob, Worker

CALL_TIMEOUT_S = 1.0


@contextmanager
def hanging(server: PostgresServer, *, with_sessions: bool = True) -> Iterator[None]:
    """The server's processes are stopped, with their sockets open; or only the one that takes connections."""
    assert server.pid is not None
    # Each session is a process with a process group of its own.
    sessions = server.execute("SELECT pid FROM pg_stat_activity") if with_sessions else []
    family = [server.pid, *(pid for (pid,) in sessions)]
    _send(signal.SIGSTOP, family)
    try:
        yield
    finally:
        _send(signal.SIGCONT, family)


@pytest.mark.timeout(180)
def test_a_leader_that_hangs_is_left_for_the_new_one(tmp_path: Path) -> None:
    with (
        PostgresServer.start(tmp_path / "primary", fsync=False) as primary,
        primary.standby(tmp_path / "standby", synchronous=False) as standby,
    ):
        url = f"{multi_host_dsn([primary, standby])}&connect_timeout=2&call_timeout_s={CALL_TIMEOUT_S}"
        store = Store.open(url)
        store.migrate()
        jobs = Jobs(store)
        # Several connections are open when it begins to hang.
        jobs.enqueue_many([NewJob(kind="k") for _ in range(200)])
        for _ in range(5):
            jobs.enqueue("k")
        with hanging(primary):
            standby.promote()
            began_s = REAL.monotonic_s()
            made = [jobs.enqueue("k").id for _ in range(3)]
            took_s = REAL.monotonic_s() - began_s
            assert {jobs.show(job_id)["state"] for job_id in made} == {"queued"}
            assert took_s < 30, "as long as it hangs"
        jobs.close()
        store.close()


@pytest.mark.timeout(180)
def test_joined_connections_to_a_leader_that_hangs_are_ended_when_there_is_a_new_one(tmp_path: Path) -> None:
    """The user's own connections have no time limit: a handler would wait for as long as the server hangs."""
    with (
        PostgresServer.start(tmp_path / "primary", fsync=False) as primary,
        primary.standby(tmp_path / "standby", synchronous=False) as standby,
    ):
        url = f"{multi_host_dsn([primary, standby])}&call_timeout_s={CALL_TIMEOUT_S:g}&connect_timeout=2"
        theirs, ours = Store.open(url), Store.open(url)
        theirs.migrate()
        their_jobs, our_jobs = Jobs(theirs), Jobs(ours)
        idle, busy, other = (psycopg.connect(theirs.address_for("psycopg")) for _ in range(3))
        for connection in (idle, busy):
            theirs.join(connection)
        idle.rollback()
        with hanging(primary):
            waiting = Background(busy.commit)
            standby.promote()
            # Another store of the process notices; a worker has connections of its own.
            Link("shop → database", retry=Retry(attempts=20, on=Failure)).call(our_jobs.enqueue, "k")
            assert isinstance(waiting.error(within_s=30), psycopg.OperationalError)
            with pytest.raises(psycopg.OperationalError):
                idle.execute("SELECT 1")
        assert other.execute("SELECT 1").fetchone() == (1,), "what was never joined is the user's alone"
        with psycopg.connect(theirs.address_for("psycopg")) as connection:
            assert their_jobs.enqueue("k", tx=theirs.join(connection)).created
        for opened in (idle, busy, other, our_jobs, their_jobs, theirs, ours):
            opened.close()


@pytest.mark.timeout(180)
def test_a_worker_listens_at_the_new_leader_while_the_old_one_still_hangs(tmp_path: Path) -> None:
    with (
        PostgresServer.start(tmp_path / "primary", fsync=False) as primary,
        primary.standby(tmp_path / "standby", synchronous=False) as standby,
    ):
        url = f"{multi_host_dsn([primary, standby])}&call_timeout_s={CALL_TIMEOUT_S:g}&connect_timeout=2"
        store = Store.open(url)
        store.migrate()
        worker = Worker(store, Handlers())
        worker.start()
        wait_until(lambda: _listeners(primary) == 1, within_s=30, what="it listens")
        with hanging(primary):
            standby.promote()
            wait_until(lambda: _listeners(standby) == 1, within_s=60, what="it listens at the new leader")
        worker.stop()
        assert worker.join(30)
        store.close()


@pytest.mark.timeout(180)
def test_joined_connections_to_a_server_that_was_only_slow_stay(tmp_path: Path) -> None:
    with PostgresServer.start(tmp_path / "server", fsync=False) as server:
        store = Store.open(f"{server.dsn()}?call_timeout_s={CALL_TIMEOUT_S:g}")
        store.migrate()
        jobs = Jobs(store)
        with psycopg.connect(store.address_for("psycopg")) as connection:
            made = jobs.enqueue("k", tx=store.join(connection)).id
            with hanging(server), pytest.raises(Failure):
                store.takes_writes()
            wait_until(lambda: _answers(store), within_s=30, what="the server answers again")
            wait_until(lambda: "holdfast-stale" not in _threads(), within_s=30, what="nobody looks any more")
            connection.commit()
        assert jobs.show(made)["state"] == "queued"
        jobs.close()
        store.close()


@pytest.mark.timeout(180)
def test_a_store_that_still_reads_from_the_old_leader_joins_a_connection_to_the_new_one(tmp_path: Path) -> None:
    with (
        PostgresServer.start(tmp_path / "primary", fsync=False) as primary,
        primary.standby(tmp_path / "standby", synchronous=False) as standby,
    ):
        store = Store.open(f"{multi_host_dsn([primary, standby])}&connect_timeout=2")
        store.migrate()
        jobs = Jobs(store)
        with hanging(primary, with_sessions=False):
            standby.promote()
            assert store.takes_writes(), "the old leader answers"
            # Connecting past the old leader takes longer than a caller waits: the first may have to try again.
            made = Link("shop → database", retry=Retry(attempts=5)).call(_joined, store, jobs)
            assert jobs.show(made)["state"] == "queued"
        jobs.close()
        store.close()


@pytest.mark.timeout(180)
def test_a_server_behind_one_address_that_takes_no_writes_for_a_while_is_found_again(tmp_path: Path) -> None:
    with PostgresServer.start(tmp_path / "server", fsync=False) as server:
        store = Store.open(server.dsn())
        store.migrate()
        jobs = Jobs(store)
        jobs.enqueue_many([NewJob(kind="k") for _ in range(10)])
        jobs.enqueue("k")
        _take_writes(server, "off")
        for enqueue in (lambda: jobs.enqueue("k"), lambda: jobs.enqueue_many([NewJob(kind="k")] * 3)):
            with pytest.raises(Failure) as refused:
                enqueue()
            assert refused.value.code in {"DATABASE_READ_ONLY", "DATABASE_CONNECTION_ERROR"}
            assert (refused.value.status, refused.value.retryable) == (503, True)
        _take_writes(server, "on")
        assert jobs.enqueue("k").created
        jobs.close()
        store.close()


class Background:
    """A call in a thread of its own."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._call()
        except Exception as error:
            self._error = error

    def error(self, *, within_s: float) -> Exception | None:
        """What it raised, once it has ended."""
        self._thread.join(within_s)
        assert not self._thread.is_alive(), "it still waits"
        return self._error


def _answers(store: Store) -> bool:
    try:
        return store.takes_writes()
    except Failure:
        return False


def _listeners(server: PostgresServer) -> int:
    return int(server.execute("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN %'")[0][0])


def _threads() -> set[str]:
    return {thread.name for thread in threading.enumerate()}


def _send(number: signal.Signals, processes: list[int]) -> None:
    for process in processes:
        with suppress(ProcessLookupError):  # the session that told of all the others
            os.kill(process, number)


def _joined(store: Store, jobs: Jobs) -> str:
    with psycopg.connect(store.address_for("psycopg")) as connection:
        return jobs.enqueue("k", tx=store.join(connection)).id


def _take_writes(server: PostgresServer, whether: str) -> None:
    read_only = {"on": "off", "off": "on"}[whether]
    with psycopg.connect(server.dsn(), autocommit=True, options="-c default_transaction_read_only=off") as connection:
        connection.execute(f"ALTER SYSTEM SET default_transaction_read_only = {read_only}")
        connection.execute("SELECT pg_reload_conf()")
    asked = "SHOW default_transaction_read_only"
    wait_until(lambda: server.execute(asked) == [(read_only,)], within_s=30, what="the setting counts")
