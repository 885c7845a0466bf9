"""A key that is finished in the caller's own transaction is free again when that transaction is gone."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
import sqlalchemy
from sqlalchemy.orm import Session

from holdfast import Failure
from holdfast.guard import Answer, InProgress, Keys, Replay, Started, request_hash
from holdfast.store import Engine, Store
from holdfast.testing.processes import wait_until

MADE = Answer.of_json({"id": 7}, status=201)
OTHER = Answer.of_json({"why": "sold out"}, status=409)
LEASE_S = 3_600.0
"""So long that no test would see its end."""
Connect = Callable[[], Any]


@pytest.fixture
def keys(store: Store) -> Keys:
    return Keys(store, lease_s=LEASE_S, expires_s=2 * LEASE_S)


def as_driver(url: str) -> Any:
    if url.startswith("sqlite"):
        return sqlite3.connect(url.removeprefix("sqlite:///"), check_same_thread=False)
    return psycopg.connect(url)


def as_session(url: str) -> Any:
    return Session(sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://")))


@pytest.fixture(params=[as_driver, as_session], ids=["driver", "session"])
def connect(request: pytest.FixtureRequest, database_url: str) -> Iterator[Connect]:
    opened: list[Any] = []

    def made() -> Any:
        opened.append(request.param(database_url))
        return opened[-1]

    yield made
    for connection in opened:
        connection.close()
        if isinstance(connection, Session):
            connection.get_bind().engine.dispose()


def begun(keys: Keys) -> Any:
    return keys.begin(operation="pay", key="k", request_hash=request_hash(body="r"))


def paid(keys: Keys, work: Callable[[Started], Answer]) -> Any:
    return keys.once("pay", "k", "r", work)


def finishing(keys: Keys, connection: Any, end: Callable[[], object], answer: Answer = MADE) -> Any:
    """Work that finishes its key in a transaction, which then ends as the test says."""

    def work(started: Started) -> Answer:
        keys.finish(started, MADE, tx=keys.store.join(connection))
        end()
        return answer

    return work


def raising(connection: Any, error: BaseException) -> Callable[[], None]:
    def end() -> None:
        connection.rollback()
        raise error

    return end


def test_a_rollback_and_an_exception_free_the_key_at_once(keys: Keys, connect: Connect) -> None:
    connection = connect()
    with pytest.raises(ZeroDivisionError):
        paid(keys, finishing(keys, connection, raising(connection, ZeroDivisionError())))
    done = paid(keys, finishing(keys, connection, connection.commit))
    assert (done.answer, done.replayed) == (MADE, False)
    assert paid(keys, finishing(keys, connection, connection.commit)).replayed


def test_an_answer_for_what_was_rolled_back_is_not_given(keys: Keys, connect: Connect) -> None:
    connection = connect()
    with pytest.raises(Failure) as refused:
        paid(keys, finishing(keys, connection, connection.rollback))
    assert (refused.value.code, refused.value.retryable) == ("TRANSACTION_ROLLED_BACK", True)
    assert "not committed" in refused.value.technical
    assert isinstance(begun(keys), Started)


def test_another_answer_after_a_rollback_is_kept_as_usual(keys: Keys, connect: Connect) -> None:
    connection = connect()
    assert paid(keys, finishing(keys, connection, connection.rollback, OTHER)).answer == OTHER
    assert begun(keys) == Replay(OTHER)


def test_an_exception_after_the_commit_changes_nothing(keys: Keys, connect: Connect) -> None:
    connection = connect()

    def end() -> None:
        connection.commit()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        paid(keys, finishing(keys, connection, end))
    assert begun(keys) == Replay(MADE)


def test_an_interrupt_after_a_rollback_frees_the_key(keys: Keys, connect: Connect) -> None:
    connection = connect()
    with pytest.raises(KeyboardInterrupt):
        paid(keys, finishing(keys, connection, raising(connection, KeyboardInterrupt())))
    assert isinstance(begun(keys), Started)


def test_a_connection_that_has_begun_anew_since_does_not_hold_the_key(keys: Keys, connect: Connect) -> None:
    connection = connect()

    def end() -> None:
        connection.rollback()
        look = "SELECT 1"
        connection.execute(sqlalchemy.text(look) if isinstance(connection, Session) else look)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        paid(keys, finishing(keys, connection, end))
    assert isinstance(begun(keys), Started)


def execute(connection: Any, statement: str) -> None:
    connection.execute(sqlalchemy.text(statement) if isinstance(connection, Session) else statement)


def test_a_savepoint_that_is_rolled_back_leaves_the_key_to_the_same_work(keys: Keys, connect: Connect) -> None:
    connection = connect()

    def work(started: Started) -> Answer:
        tx = keys.store.join(connection)
        execute(connection, "SAVEPOINT one")
        keys.finish(started, OTHER, tx=tx)
        execute(connection, "ROLLBACK TO SAVEPOINT one")
        keys.finish(started, MADE, tx=tx)
        connection.commit()
        return MADE

    assert paid(keys, work).answer == MADE
    assert begun(keys) == Replay(MADE)


def test_a_savepoint_that_took_the_answer_along_leaves_the_key_free(keys: Keys, connect: Connect) -> None:
    connection = connect()

    def work(started: Started) -> Answer:
        tx = keys.store.join(connection)
        execute(connection, "SAVEPOINT one")
        keys.finish(started, MADE, tx=tx)
        execute(connection, "ROLLBACK TO SAVEPOINT one")
        connection.commit()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        paid(keys, work)
    assert isinstance(begun(keys), Started)


def test_others_are_told_to_wait_until_the_transaction_is_gone(keys: Keys, connect: Connect) -> None:
    connection = connect()
    told: list[Any] = []

    def look() -> None:
        # On SQLite nobody else can write meanwhile, not even to ask.
        told.append(begun(keys) if keys.store.engine is Engine.POSTGRESQL else InProgress(1.0))
        connection.rollback()
        told.append(begun(keys))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        paid(keys, finishing(keys, connection, look))
    assert [type(one) for one in told] == [InProgress, InProgress], "the work goes on, and holds the key"
    assert isinstance(begun(keys), Started)


def test_a_transaction_that_outlives_the_work_decides_by_itself(keys: Keys, connect: Connect) -> None:
    connection = connect()
    assert paid(keys, finishing(keys, connection, lambda: None)).answer == MADE
    connection.commit()
    assert begun(keys) == Replay(MADE)


def test_a_transaction_that_outlives_the_work_and_is_rolled_back_frees_the_key(keys: Keys, connect: Connect) -> None:
    connection = connect()
    assert paid(keys, finishing(keys, connection, lambda: None)).answer == MADE
    connection.rollback()
    done = paid(keys, finishing(keys, connection, connection.commit))
    assert (done.answer, done.replayed) == (MADE, False)


def test_work_that_failed_while_its_transaction_goes_on_frees_the_key_with_it(keys: Keys, connect: Connect) -> None:
    connection = connect()

    def end() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        paid(keys, finishing(keys, connection, end))
    connection.rollback()
    assert isinstance(begun(keys), Started)


def test_a_twin_in_another_process_need_not_wait_for_the_lease(keys: Keys, connect: Connect, database_url: str) -> None:
    connection = connect()
    paid(keys, finishing(keys, connection, lambda: None))
    connection.rollback()
    other = Store.open(database_url)  # knows nothing of this process's keys
    try:
        there = Keys(other, lease_s=LEASE_S)
        wait_until(lambda: isinstance(begun(there), Started), within_s=60, what="the key is free")
    finally:
        other.close()


def test_a_twin_on_an_event_loop_gets_it_too(keys: Keys, connect: Connect) -> None:
    connection = connect()
    paid(keys, finishing(keys, connection, lambda: None))
    connection.rollback()
    begun = asyncio.run(keys.begin_async(operation="pay", key="k", request_hash=request_hash(body="r")))
    assert isinstance(begun, Started)


def test_a_key_that_was_begun_by_hand_is_free_for_twins_and_its_holder_may_try_again(
    keys: Keys, connect: Connect
) -> None:
    connection, started = connect(), begun(keys)
    keys.finish(started, MADE, tx=keys.store.join(connection))
    connection.rollback()
    keys.finish(started, OTHER, tx=keys.store.join(connection))
    connection.rollback()
    other = begun(keys)
    assert isinstance(other, Started), "the transaction is gone"
    with pytest.raises(Failure, match="IDEMPOTENCY_LOST"):
        keys.finish(started, MADE, tx=keys.store.join(connection))
    connection.rollback()
    keys.finish(other, OTHER)
    assert begun(keys) == Replay(OTHER)


def test_nothing_is_freed_while_the_transaction_goes_on(keys: Keys, connect: Connect) -> None:
    connection = connect()
    paid(keys, finishing(keys, connection, lambda: None))
    if keys.store.engine is Engine.POSTGRESQL:  # on SQLite nobody else can write meanwhile, not even to ask
        assert isinstance(begun(keys), InProgress)
    connection.commit()
    assert begun(keys) == Replay(MADE)


def test_a_connection_that_is_dropped_takes_its_transaction_along(keys: Keys, database_url: str) -> None:
    connection = as_driver(database_url)
    paid(keys, finishing(keys, connection, lambda: None))
    if keys.store.engine is Engine.POSTGRESQL:
        connection.close()  # psycopg warns of one that is only dropped
    del connection
    gc.collect()
    wait_until(lambda: isinstance(begun(keys), Started), within_s=60, what="the server has seen it close")


def test_a_phase_of_the_store_that_failed_and_was_hidden_is_not_answered_for(keys: Keys, store: Store) -> None:
    def work(started: Started) -> Answer:
        def phase(tx: Any) -> None:
            keys.finish(started, MADE, tx=tx)
            raise LookupError

        with pytest.raises(LookupError):
            store.atomic(phase)
        return MADE

    with pytest.raises(Failure, match="TRANSACTION_ROLLED_BACK"):
        paid(keys, work)
    assert isinstance(begun(keys), Started)
