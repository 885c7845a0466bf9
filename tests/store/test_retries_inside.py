"""What the store tries again by itself, and what it must not: between it and PostgreSQL stands a proxy with faults."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import psycopg
import pytest

from holdfast.catalog import Failure
from holdfast.catalog.core import DATABASE_POOL_EXHAUSTED, TRANSACTION_ROLLED_BACK
from holdfast.catalog.durable import COMMIT_UNKNOWN
from holdfast.store import Store, Tx
from holdfast.store import connections as connections_module
from holdfast.store import store as store_module
from holdfast.testing.proxy import COMMIT, FaultProxy
from holdfast.worker import Jobs


@pytest.fixture
def direct(emptied_dsn: str) -> Iterator[Store]:
    store = Store.open(emptied_dsn)
    yield store
    store.close()


def names(store: Store) -> list[str]:
    return [row[0] for row in store.atomic(lambda tx: tx.rows("queue.registered", most=99), write=False)]


def register(store: Store, name: str, *, repeatable: bool = False) -> None:
    store.atomic(lambda tx: tx.run("queue.register", name=name), repeatable=repeatable)


def test_a_commit_whose_reply_is_lost_is_unknown(behind: Store, direct: Store, proxy: FaultProxy) -> None:
    runs: list[int] = []

    def phase(tx: Tx) -> None:
        runs.append(1)
        tx.run("queue.register", name=f"mail-{len(runs)}")

    proxy.set(lose_reply=COMMIT, times=1)
    with pytest.raises(Failure) as unknown:
        behind.atomic(phase)
    assert unknown.value.code == COMMIT_UNKNOWN.code
    assert not unknown.value.retryable
    assert runs == [1]
    assert names(direct) == ["mail-1"]
    assert names(behind) == ["mail-1"]


def test_a_repeatable_phase_runs_again_after_a_lost_reply(behind: Store, direct: Store, proxy: FaultProxy) -> None:
    proxy.set(lose_reply=COMMIT, times=2)
    register(behind, "mail", repeatable=True)
    assert proxy.triggered == 2
    assert names(direct) == ["mail"]


def test_a_lost_reply_stays_unknown_though_later_tries_fail_otherwise(behind: Store, proxy: FaultProxy) -> None:
    register(behind, "before")

    def phase(tx: Tx) -> None:
        tx.run("queue.register", name="mail")
        if proxy.triggered:
            raise psycopg.OperationalError("the server is away")

    proxy.set(lose_reply=COMMIT, times=1)
    with pytest.raises(Failure) as unknown:
        behind.atomic(phase, repeatable=True)
    assert unknown.value.code == COMMIT_UNKNOWN.code


def test_a_commit_that_never_arrived_is_unknown_too(behind: Store, direct: Store, proxy: FaultProxy) -> None:
    proxy.set(lose_request=COMMIT, times=1)
    with pytest.raises(Failure) as unknown:
        register(behind, "mail")
    assert unknown.value.code == COMMIT_UNKNOWN.code
    assert names(direct) == []


def test_reading_is_tried_again_whatever_was_lost(behind: Store, proxy: FaultProxy) -> None:
    register(behind, "mail")
    proxy.set(lose_reply=COMMIT, times=1)
    assert names(behind) == ["mail"]
    assert proxy.triggered == 1


@pytest.mark.parametrize("statement", ["BEGIN", "INSERT INTO holdfast_queue"])
@pytest.mark.parametrize("fault", ["lose_request", "lose_reply"])
def test_a_connection_lost_before_the_commit_is_tried_again(
    behind: Store, direct: Store, proxy: FaultProxy, statement: str, fault: str
) -> None:
    register(behind, "before")
    proxy.set(**{fault: statement}, times=1)
    register(behind, "mail")
    assert proxy.triggered == 1
    assert names(direct) == ["before", "mail"]


def test_a_statement_that_commits_by_itself_is_unknown_when_its_reply_is_lost(
    behind: Store, direct: Store, proxy: FaultProxy
) -> None:
    register(behind, "before")
    proxy.set(lose_reply="INSERT INTO holdfast_queue", times=1)
    with pytest.raises(Failure) as unknown:
        behind.single("queue.register", name="mail")
    assert unknown.value.code == COMMIT_UNKNOWN.code
    proxy.set(lose_reply="INSERT INTO holdfast_queue", times=1)
    behind.single("queue.register", name="post", repeatable=True)
    assert names(direct) == ["before", "mail", "post"]


def test_an_enqueue_whose_reply_is_lost_makes_one_job(behind: Store, direct: Store, proxy: FaultProxy) -> None:
    jobs = Jobs(behind)
    jobs.enqueue("k", queue="mail")
    for pattern, ask in (
        ("INSERT INTO holdfast_job", lambda: jobs.enqueue("k", queue="mail")),
        (COMMIT, lambda: jobs.enqueue("k", queue="mail", dedupe_key="d")),
    ):
        proxy.set(lose_reply=pattern, times=1)
        made = ask()
        assert proxy.triggered == 1
        assert made.created
        events = Jobs(direct).history(made.id)
        assert [event["verb"] for event in events] == ["enqueued"]
    assert len(Jobs(direct).list()) == 3
    jobs.close()


def test_when_every_pooled_connection_is_lost_the_next_call_still_succeeds(behind: Store, proxy: FaultProxy) -> None:
    """As after a restart of the server: the pool is full of connections that do not know yet."""
    together = threading.Barrier(8)

    def at_once(tx: Tx) -> None:
        tx.now_us()
        together.wait(60)

    threads = [threading.Thread(target=behind.atomic, args=(at_once,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert proxy.open_connections >= 8
    proxy.reset_connections()
    register(behind, "mail")
    assert names(behind) == ["mail"]


def test_a_conflict_between_transactions_is_tried_again(direct: Store) -> None:
    """Two phases read what the other writes; under this isolation the database rolls one of them back."""
    both = threading.Barrier(2)
    runs: list[str] = []

    def phase(tx: Tx, mine: str, others: str) -> None:
        runs.append(mine)
        tx._execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", {})
        seen = tx.rows("queue.registered", most=99)
        if runs.count(mine) == 1:
            both.wait(60)
        tx.run("queue.register", name=f"{mine} saw {len(seen)}")

    pairs = [("a", "b"), ("b", "a")]
    threads = [threading.Thread(target=direct.atomic, args=(lambda tx, pair=pair: phase(tx, *pair),)) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # More often, should the other have been rolled back while the first stood still in the middle of its commit.
    assert len(runs) >= 3
    assert sorted(name[2:] for name in names(direct)) == ["saw 0", "saw 1"]


def test_a_conflict_that_never_ends_is_told_in_the_end(direct: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "TRY_S", 0.0)
    runs: list[int] = []

    def phase(tx: Tx) -> None:
        runs.append(1)
        raise psycopg.errors.SerializationFailure("always")

    with pytest.raises(Failure) as told:
        direct.atomic(phase)
    assert told.value.code == TRANSACTION_ROLLED_BACK.code
    assert told.value.retryable
    assert len(runs) == store_module.ROLLBACK_TRIES


def test_a_constraint_that_is_checked_at_the_commit_is_a_plain_refusal(direct: Store) -> None:
    with direct.database.script(
        ["CREATE TABLE seat (row INT CONSTRAINT one_each UNIQUE DEFERRABLE INITIALLY DEFERRED)"]
    ):
        pass

    def phase(tx: Tx) -> None:
        tx._execute("INSERT INTO seat VALUES (1), (1)", {})

    with pytest.raises(Failure) as refused:
        direct.atomic(phase)
    assert refused.value.code == "DUPLICATE_RECORD"


def test_a_pool_without_a_free_connection_is_told_as_such(emptied_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store.open(emptied_dsn, pool_max=1)
    register(store, "first")  # connected before the patience is short
    monkeypatch.setattr(connections_module, "WAIT_S", 0.1)
    inside, leave = threading.Event(), threading.Event()

    def hold(tx: Tx) -> None:
        inside.set()
        assert leave.wait(60)

    holder = threading.Thread(target=store.atomic, args=(hold,))
    holder.start()
    assert inside.wait(60)
    with pytest.raises(Failure) as exhausted:
        register(store, "mail")
    assert exhausted.value.code == DATABASE_POOL_EXHAUSTED.code
    assert exhausted.value.retryable
    leave.set()
    holder.join()
    register(store, "mail")
    store.close()


def test_callers_go_on_while_another_one_leaves_the_server(direct: Store) -> None:
    """Leaving closes the pool under the hands of whoever is about to take a connection from it."""
    told: list[str] = []
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            try:
                direct.takes_writes()
            except Failure as failure:
                told.append(str(failure))
                return

    askers = [threading.Thread(target=ask) for _ in range(8)]
    for asker in askers:
        asker.start()
    for _ in range(60):
        direct.database.leave()
        over.wait(0.02)
    over.set()
    for asker in askers:
        asker.join()
    assert told == []
