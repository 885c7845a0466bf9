"""Idempotency keys among many: stampedes, dead holders, lost replies, and a model that they must agree with."""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast import Failure
from holdfast.guard.idempotency import Answer, InProgress, Keys, Replay, Started, request_hash
from holdfast.store import Engine, Store
from holdfast.testing.processes import Child, wait_until

CALLERS = 100
MADE = Answer(201, (("Content-Type", "text/plain"),), b"made \x00\xff", {"instanceId": "inst_7"})
ASKED = {"operation": "make", "key": "k", "request_hash": request_hash(body="r")}
PATIENCE_S = 60.0


class Effects:
    """A table of the user's own, written over the user's own connections."""

    def __init__(self, store: Store) -> None:
        self.store = store
        with self.transaction() as connection:
            connection.execute("CREATE TABLE effect (note TEXT NOT NULL)")

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        connection = connect(self.store)
        try:
            with connection:  # commits, or rolls back when the block raises
                yield connection
        finally:
            connection.close()

    def make(self, started: Started) -> Answer:
        with self.transaction() as connection:
            connection.execute("INSERT INTO effect VALUES ('made')")
        return MADE

    def count(self) -> int:
        with self.transaction() as connection:
            return int(connection.execute("SELECT count(*) FROM effect").fetchone()[0])


def connect(store: Store) -> Any:
    if store.engine is Engine.SQLITE:
        return sqlite3.connect(store.address.target, timeout=PATIENCE_S)
    import psycopg

    return psycopg.connect(store.address.target)


@pytest.fixture
def effects(store: Store) -> Effects:
    return Effects(store)


# -- stampedes -----------------------------------------------------------------------------------------------------


def stampede(call: Callable[[int], Any]) -> list[Any]:
    """What each of a hundred callers, let loose at once, got or raised."""
    gate = threading.Barrier(CALLERS)

    def caller(number: int) -> Any:
        gate.wait(PATIENCE_S)
        try:
            return call(number)
        except Failure as failure:
            return failure

    with ThreadPoolExecutor(CALLERS) as pool:
        return list(pool.map(caller, range(CALLERS)))


def test_a_stampede_on_one_key_has_one_effect(store: Store, effects: Effects) -> None:
    keys = Keys(store)
    outcomes = stampede(lambda _: keys.once("make", "k", "r", effects.make))
    answers = [outcome for outcome in outcomes if not isinstance(outcome, Failure)]
    assert effects.count() == 1
    assert [answered.replayed for answered in answers].count(False) == 1
    assert {answered.answer.body for answered in answers} == {MADE.body}
    assert {failure.code for failure in outcomes if isinstance(failure, Failure)} <= {"IDEMPOTENCY_IN_PROGRESS"}
    assert keys.once("make", "k", "r", effects.make).replayed


def test_a_stampede_that_waits_gets_one_answer(store: Store, effects: Effects) -> None:
    keys = Keys(store)
    outcomes = stampede(lambda _: keys.once("make", "k", "r", effects.make, wait_s=PATIENCE_S))
    assert effects.count() == 1
    assert [answered.replayed for answered in outcomes].count(False) == 1
    assert {answered.answer.body for answered in outcomes} == {MADE.body}


def test_a_stampede_on_a_key_whose_holder_died_lets_one_in(store: Store) -> None:
    assert isinstance(Keys(store, lease_s=0.001).begin(**ASKED), Started)
    keys = Keys(store)
    wait_until(lambda: lease_left_us(store) <= 0, within_s=PATIENCE_S, what="the lease ends")
    outcomes = stampede(lambda _: keys.begin(**ASKED))
    assert sum(isinstance(outcome, Started) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, InProgress) for outcome in outcomes) == CALLERS - 1


def test_different_keys_do_not_block_each_other(store: Store) -> None:
    keys, all_inside = Keys(store), threading.Barrier(CALLERS)

    def together(started: Started) -> Answer:
        all_inside.wait(PATIENCE_S)  # passes only if everybody is at work at the same time
        return Answer(200, body=started.key.encode())

    outcomes = stampede(lambda number: keys.once("make", f"k{number}", "r", together))
    assert [answered.answer.body for answered in outcomes] == [f"k{number}".encode() for number in range(CALLERS)]


# -- the caller's own transaction ------------------------------------------------------------------------------------


def test_effect_and_answer_commit_together(store: Store, effects: Effects) -> None:
    keys = Keys(store)

    def make(started: Started) -> Answer:
        with effects.transaction() as connection:
            connection.execute("INSERT INTO effect VALUES ('made')")
            keys.finish(started, MADE, tx=store.join(connection))
        return MADE

    assert not keys.once("make", "k", "r", make).replayed
    assert keys.once("make", "k", "r", make).answer == MADE
    assert effects.count() == 1


def test_a_transaction_that_rolls_back_takes_the_answer_with_it(store: Store, effects: Effects) -> None:
    keys = Keys(store)

    def fail(started: Started) -> Answer:
        with effects.transaction() as connection:
            connection.execute("INSERT INTO effect VALUES ('made')")
            keys.finish(started, MADE, tx=store.join(connection))
            raise ConnectionResetError

    def fail_atomically(started: Started) -> Answer:
        def phase(tx: Any) -> Answer:
            keys.finish(started, MADE, tx=tx)
            raise ConnectionResetError

        return store.atomic(phase)

    with pytest.raises(ConnectionResetError):
        keys.once("make", "k", "r", fail_atomically)
    with pytest.raises(ConnectionResetError):
        keys.once("make", "k2", "r", fail)
    assert effects.count() == 0
    assert isinstance(keys.begin(**ASKED), Started)


def test_what_fails_after_the_commit_is_raised_and_the_answer_stands(store: Store) -> None:
    keys = Keys(store)

    def make(started: Started) -> Answer:
        store.atomic(lambda tx: keys.finish(started, MADE, tx=tx))
        raise ValueError("the receipt could not be printed")

    with pytest.raises(ValueError, match="receipt"):
        keys.once("make", "k", "r", make)
    assert keys.begin(**ASKED) == Replay(MADE)


def test_a_zombies_transaction_is_refused_and_rolls_back(store: Store, effects: Effects) -> None:
    keys = Keys(store, lease_s=0.001)
    zombie = keys.begin(**ASKED)
    assert isinstance(zombie, Started)
    wait_until(lambda: isinstance(keys.begin(**ASKED), Started), within_s=PATIENCE_S, what="another takes over")

    def late() -> None:
        with effects.transaction() as connection:
            connection.execute("INSERT INTO effect VALUES ('made')")
            keys.finish(zombie, MADE, tx=store.join(connection))

    with pytest.raises(Failure, match="IDEMPOTENCY_LOST"):
        late()
    assert effects.count() == 0


def test_nobody_waits_for_a_holder_that_is_committing(postgres_dsn: str) -> None:
    store = Store.open(postgres_dsn)  # SQLite has one writer at a time, whatever is written
    effects, keys = Effects(store), Keys(store, lease_s=0.001)
    started = keys.begin(**ASKED)
    assert isinstance(started, Started)
    wait_until(lambda: lease_left_us(store) <= 0, within_s=PATIENCE_S, what="the lease ends")
    with effects.transaction() as connection:
        keys.finish(started, MADE, tx=store.join(connection))
        assert isinstance(keys.begin(**ASKED), InProgress)
        keys.renew(started)
        assert not started.lost
    assert keys.begin(**ASKED) == Replay(MADE)
    store.close()


# -- dead holders ----------------------------------------------------------------------------------------------------

HOLDER = """
import sys, threading
from holdfast.guard import heartbeat
from holdfast.guard.idempotency import Answer, Keys
from holdfast.store import Store
url, lease_s, how = sys.argv[1:]
store = Store.open(url)
keys = Keys(store, lease_s=float(lease_s))
if how == "idle":
    heartbeat.BEATS_PER_LEASE = 60
answer = Answer(201, (("Content-Type", "text/plain"),), b"made \\x00\\xff", {"instanceId": "inst_7"})

def work(started):
    if how != "idle":
        import sqlite3
        if store.engine == "sqlite":
            connection = sqlite3.connect(store.address.target, timeout=30)
        else:
            import psycopg
            connection = psycopg.connect(store.address.target)
        if how == "before":
            keys.renew(started)
        connection.execute("INSERT INTO effect VALUES ('made')")
        keys.finish(started, answer, tx=store.join(connection))
        if how == "after":
            connection.commit()
    print("there", flush=True)
    threading.Event().wait()

keys.once("make", "k", "r", work)
"""


@contextmanager
def holder(store: Store, folder: Path, how: str, *, lease_s: float) -> Iterator[Child]:
    """Another process that holds the key and has come as far as asked: `idle`, `before` or `after` its commit."""
    log = folder / "holder.log"
    url = f"sqlite:///{store.address.target}" if store.engine is Engine.SQLITE else store.address.target
    with log.open("wb") as stream:
        child = Child([sys.executable, "-c", HOLDER, url, str(lease_s), how], log=stream, environment=dict(os.environ))
    try:
        wait_until(lambda: b"there" in log.read_bytes(), within_s=PATIENCE_S, what=f"holder: {log.read_text()}")
        yield child
    finally:
        child.end([signal.SIGKILL])


def lease_left_us(store: Store) -> int:
    shown = Keys(store).show(operation="make", key="k")
    assert shown is not None
    return int((shown["lease_until_us"] or 0) - store.atomic(lambda tx: tx.now_us(), write=False))


def test_a_killed_holder_frees_its_key_after_its_lease(store: Store, tmp_path: Path) -> None:
    lease_s, keys = 30.0, Keys(store)
    with holder(store, tmp_path, "idle", lease_s=lease_s) as child:
        first = Keys(store).show(operation="make", key="k")
        assert first is not None
        wait_until(lambda: _renewed(keys, first["lease_until_us"]), within_s=PATIENCE_S, what="the lease is renewed")
        child.end([signal.SIGKILL])
        assert isinstance(keys.begin(**ASKED), InProgress)
        assert 0 < lease_left_us(store) <= lease_s * 1_000_000
        # What is left of it passes.
        store.atomic(
            lambda tx: tx._execute("UPDATE holdfast_idempotency SET lease_until_us = lease_until_us - 30000000", {})
        )
        assert isinstance(keys.begin(**ASKED), Started)


def _renewed(keys: Keys, first_us: int) -> bool:
    shown = keys.show(operation="make", key="k")
    return shown is not None and shown["lease_until_us"] > first_us


def test_a_crash_between_effect_and_reply_is_a_replay(store: Store, effects: Effects, tmp_path: Path) -> None:
    with holder(store, tmp_path, "after", lease_s=30) as child:
        child.end([signal.SIGKILL])
    answered = Keys(store).once("make", "k", "r", effects.make)
    assert (answered.answer, answered.replayed, effects.count()) == (MADE, True, 1)


def test_a_crash_before_the_commit_leaves_no_effect_and_the_work_is_done_once(
    store: Store, effects: Effects, tmp_path: Path
) -> None:
    with holder(store, tmp_path, "before", lease_s=0.5) as child:
        child.end([signal.SIGKILL])
    answered = Keys(store).once("make", "k", "r", effects.make, wait_s=PATIENCE_S)
    assert (answered.replayed, effects.count()) == (False, 1)
