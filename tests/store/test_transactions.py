"""A unit of work happens whole or not at all, and says so truthfully."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
from pathlib import Path
from typing import NoReturn

import pytest

from holdfast.base import now_us
from holdfast.catalog import Failure
from holdfast.catalog.core import DATABASE_ERROR, TRANSACTION_ROLLED_BACK
from holdfast.store import Engine, Store, Tx
from holdfast.store.sqlite import BUSY_S, SqliteDatabase
from holdfast.testing import instant


def names(store: Store) -> list[str]:
    return [row[0] for row in store.atomic(lambda tx: tx.rows("queue.registered", most=99), write=False)]


def register(store: Store, name: str) -> None:
    store.atomic(lambda tx: tx.run("queue.register", name=name))


def test_what_was_written_before_an_exception_is_undone(store: Store) -> None:
    def phase(tx: Tx) -> None:
        tx.run("queue.register", name="mail")
        raise KeyError("the phase's own")

    with pytest.raises(KeyError, match="own"):
        store.atomic(phase)
    assert names(store) == []
    register(store, "afterwards")
    assert names(store) == ["afterwards"]


def test_even_an_exit_of_the_process_undoes_the_phase(store: Store) -> None:
    def phase(tx: Tx) -> None:
        tx.run("queue.register", name="mail")
        raise SystemExit(1)

    with pytest.raises(SystemExit):
        store.atomic(phase)
    assert names(store) == []


def test_a_phase_that_only_reads_cannot_write(store: Store) -> None:
    with pytest.raises(Failure) as refused:
        store.atomic(lambda tx: tx.run("queue.register", name="mail"), write=False)
    assert refused.value.code == DATABASE_ERROR.code
    assert names(store) == []
    register(store, "mail")


def test_a_database_error_arrives_under_its_code_with_the_original_as_its_cause(store: Store) -> None:
    def phase(tx: Tx) -> None:
        tx.run("worker.register", id="w", host="h", process=1, queues="", lease_us=1)
        tx.run("worker.register", id="w", host="h", process=1, queues="", lease_us=1)

    with pytest.raises(Failure) as twice:
        store.atomic(phase)
    assert twice.value.code == "DUPLICATE_RECORD"
    assert type(twice.value.__cause__).__name__ in {"UniqueViolation", "IntegrityError"}
    assert store.atomic(lambda tx: tx.rows("worker.list"), write=False) == []


def test_a_phase_that_swallows_a_database_error_is_never_half_committed(store: Store) -> None:
    """SQLite undoes the failed statement alone; PostgreSQL everything, and then it must not look like success."""

    def phase(tx: Tx) -> str:
        tx.run("queue.register", name="mail")
        try:
            tx.run("worker.register", id="w", host=None, process=1, queues="", lease_us=1)
        except Exception:
            return "went on"
        return "was never refused"

    if store.engine is Engine.SQLITE:
        assert store.atomic(phase) == "went on"
        assert names(store) == ["mail"]
        return
    with pytest.raises(Failure) as refused:
        store.atomic(phase)
    assert "rolled back" in str(refused.value.__cause__)
    assert names(store) == []


def test_what_follows_the_commit_comes_after_it(store: Store) -> None:
    seen: list[list[str]] = []

    def phase(tx: Tx) -> None:
        tx.run("queue.register", name="mail")
        tx.after_commit.append(lambda: seen.append(names(store)))

    store.atomic(phase)
    assert seen == [["mail"]]


def test_nothing_follows_a_rollback(store: Store) -> None:
    followed: list[int] = []

    def phase(tx: Tx) -> None:
        tx.after_commit.append(lambda: followed.append(1))
        raise RuntimeError

    with pytest.raises(RuntimeError):
        store.atomic(phase)
    assert followed == []


def test_a_failure_of_what_follows_does_not_run_the_phase_again(store: Store) -> None:
    runs: list[int] = []

    def follow() -> None:
        raise sqlite3.OperationalError("looks like a lost connection")

    def phase(tx: Tx) -> None:
        runs.append(1)
        tx.run("queue.register", name=f"mail-{len(runs)}")
        tx.after_commit.append(follow)

    with pytest.raises(sqlite3.OperationalError):
        store.atomic(phase)
    assert runs == [1]
    assert names(store) == ["mail-1"]


def test_threads_write_side_by_side(store: Store) -> None:
    def many(number: int) -> None:
        for turn in range(5):
            register(store, f"{number}-{turn}")

    threads = [threading.Thread(target=many, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(names(store)) == 40


async def test_a_coroutine_uses_the_one_async_door(store: Store) -> None:
    await store.atomic_async(lambda tx: tx.run("queue.register", name="mail"))
    assert names(store) == ["mail"]


def test_lists_and_rows_with_any_text_arrive_as_they_were(store: Store) -> None:
    awkward = ['"', "\\", "'", "{}", ",", "", " ", "NULL", "ünï–çødé 🙂", 'a"b\\c', "\n\t"]
    unknown = (None, None, None)
    rows = [(text, text, text, "k", 1, "CODE", *unknown, text, None, text, text, text, text) for text in awkward]
    store.atomic(lambda tx: tx.many("job.journal_settled", rows, worker="w"))
    for text in awkward:
        (event,) = store.atomic(lambda tx, text=text: tx.records("job.history", id=text, after=0, count=9), write=False)
        assert (event["verb"], event["reason"], event["upstream_status"]) == (text, text, None)
    assert store.atomic(lambda tx: tx.rows("job.finishing", ids=awkward)) == []


def test_a_store_that_is_closed_stays_closed(store: Store) -> None:
    register(store, "mail")
    store.close()
    with pytest.raises(Failure) as refused:
        register(store, "late")
    assert refused.value.code == DATABASE_ERROR.code
    assert "closed" in str(refused.value.__cause__)
    store.close()


def test_a_child_process_begins_with_connections_of_its_own(store: Store) -> None:
    """Parent and child write at the same time, as they could not over one connection."""
    register(store, "before")
    names(store)
    child = os.fork()
    if child == 0:
        _live_as_child(store)
    for number in range(20):
        register(store, f"parent-{number}")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(names(store)) == 41


def _connections(store: Store) -> set[int]:
    return {id(one) for one in store.database._open} if isinstance(store.database, SqliteDatabase) else set()


def _live_as_child(store: Store) -> NoReturn:
    status = 1
    try:
        signal.alarm(100)  # a lock that nobody will ever release must not hang the test
        inherited = _connections(store)
        for number in range(20):
            register(store, f"child-{number}")
        names(store)
        status = 2 if inherited & _connections(store) else 0
    finally:
        os._exit(status)


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_child_that_is_born_during_a_transaction_does_not_wait_for_its_lock(store: Store) -> None:
    inside, leave = threading.Event(), threading.Event()

    def hold(tx: Tx) -> None:
        inside.set()
        assert leave.wait(110)

    holder = threading.Thread(target=store.atomic, args=(hold,))
    holder.start()
    assert inside.wait(60)
    child = os.fork()
    if child == 0:
        _live_as_child(store)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    leave.set()
    holder.join()


# -- SQLite alone --------------------------------------------------------------------------------------------------


@pytest.fixture
def file_store(tmp_path: Path) -> Store:
    store = Store.open(f"sqlite:///{tmp_path / 'holdfast.db'}")
    store.migrate()
    return store


def test_a_transaction_inside_a_transaction_of_the_same_thread_is_refused_in_words(file_store: Store) -> None:
    def outer(tx: Tx) -> None:
        tx.run("queue.register", name="outer")
        register(file_store, "inner")

    with pytest.raises(Failure) as refused:
        file_store.atomic(outer)
    assert "hand its Tx on" in str(refused.value.__cause__)
    assert names(file_store) == []
    file_store.close()


def test_a_file_that_stays_locked_is_waited_for_once(file_store: Store, tmp_path: Path) -> None:
    register(file_store, "first")
    other = sqlite3.connect(tmp_path / "holdfast.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with instant() as time, pytest.raises(Failure) as refused:
        register(file_store, "mail")
    assert refused.value.code == TRANSACTION_ROLLED_BACK.code
    assert BUSY_S <= time.passed_s < 1.1 * BUSY_S
    other.execute("ROLLBACK")
    register(file_store, "mail")
    other.close()
    file_store.close()


def test_threads_that_come_and_go_leave_no_connections_behind(file_store: Store) -> None:
    for _ in range(20):
        thread = threading.Thread(target=names, args=(file_store,))
        thread.start()
        thread.join()
    assert isinstance(file_store.database, SqliteDatabase)
    assert len(file_store.database._open) <= 2
    file_store.close()


def test_an_acknowledgement_means_on_disk(file_store: Store) -> None:
    def settings(tx: Tx) -> tuple[str, int]:
        return (
            tx._execute("PRAGMA journal_mode", {}).fetchall()[0][0],
            tx._execute("PRAGMA synchronous", {}).fetchall()[0][0],
        )

    assert file_store.atomic(settings) == ("wal", 2)
    file_store.close()


def test_an_in_memory_store_is_a_whole_store() -> None:
    store = Store.open("sqlite://")
    assert store.migrate()[0] == "0001_baseline"
    register(store, "mail")
    assert names(store) == ["mail"]
    store.close()


def test_the_clock_that_rules_is_a_clock(store: Store) -> None:
    assert now_us() - 5_000_000 < store.atomic(lambda tx: tx.now_us()) < now_us() + 5_000_000
