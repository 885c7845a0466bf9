"""Held keys are renewed by one thread, which ends by itself, and a process holds no more of them than its limit."""

from __future__ import annotations

import os
import threading
from dataclasses import replace

import pytest

from holdfast import Failure
from holdfast.base import Limits, replaced, world
from holdfast.guard import heartbeat as heartbeat_module
from holdfast.guard.heartbeat import HEARTBEAT
from holdfast.guard.idempotency import Answer, InProgress, Keys, Started, request_hash
from holdfast.store import Store
from holdfast.testing.processes import wait_until

MADE = Answer(201, (("Content-Type", "text/plain"),), b"made")
ASKED = {"operation": "make", "key": "k", "request_hash": request_hash(body="r")}
PATIENCE_S = 60.0


@pytest.fixture(autouse=True)
def _ends_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that renews keys ends at once when there is none, instead of some seconds later."""
    monkeypatch.setattr(heartbeat_module, "IDLE_S", 0.05)


def lease_left_us(store: Store) -> int:
    shown = Keys(store).show(operation="make", key="k")
    assert shown is not None
    return int((shown["lease_until_us"] or 0) - store.atomic(lambda tx: tx.now_us(), write=False))


def test_slow_work_keeps_its_key_and_the_thread_ends_with_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat_module, "BEATS_PER_LEASE", 200)
    keys = Keys(store, lease_s=10)

    def slow(started: Started) -> Answer:
        for _ in range(2):
            # Most of the lease has passed; the next beat makes it whole again.
            store.atomic(
                lambda tx: tx._execute("UPDATE holdfast_idempotency SET lease_until_us = lease_until_us - 5000000", {})
            )
            wait_until(lambda: lease_left_us(store) > 6_000_000, within_s=PATIENCE_S, what="the lease is renewed")
        assert isinstance(keys.begin(**ASKED), InProgress)
        assert not started.lost
        return MADE

    assert not keys.once("make", "k", "r", slow).replayed
    wait_until(lambda: not beating(), within_s=PATIENCE_S, what="the thread ends")


def test_one_thread_renews_all_keys(store: Store) -> None:
    keys = Keys(store, lease_s=0.6)
    started = [keys.begin(operation="make", key=f"k{number}", request_hash="h") for number in range(20)]
    held = [keys.held(one) for one in started if isinstance(one, Started)]
    for block in held:
        block.__enter__()
    try:
        ends_us = [lease_end(keys, number) for number in range(20)]
        wait_until(
            lambda: all(lease_end(keys, number) > end_us for number, end_us in enumerate(ends_us)),
            within_s=PATIENCE_S,
            what="all are renewed",
        )
        assert beating() == 1
    finally:
        for block in held:
            block.__exit__(None, None, None)
    wait_until(lambda: not beating(), within_s=PATIENCE_S, what="the thread ends")


def test_moments_without_a_key_start_no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread for each of them cost a busy server more than the keys themselves."""
    begun: list[str] = []
    original = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        begun.append(thread.name)
        original(thread)

    monkeypatch.setattr(heartbeat_module, "IDLE_S", PATIENCE_S)
    monkeypatch.setattr(threading.Thread, "start", start)
    wait_until(lambda: not beating(), within_s=PATIENCE_S, what="the thread of other tests ends")
    store = Store.open("sqlite://")
    store.migrate()
    keys = Keys(store)
    started = keys.begin(**ASKED)
    assert isinstance(started, Started)
    for _ in range(200):
        with keys.held(started):
            pass
    assert begun.count("holdfast-keys") == 1
    store.close()


def lease_end(keys: Keys, number: int) -> int:
    shown = keys.show(operation="make", key=f"k{number}")
    assert shown is not None
    return int(shown["lease_until_us"])


def beating() -> int:
    return sum(thread.name == "holdfast-keys" for thread in threading.enumerate())


def test_work_is_told_when_its_key_is_lost(store: Store) -> None:
    keys = Keys(store, lease_s=0.3)
    started = keys.begin(**ASKED)
    assert isinstance(started, Started)
    with keys.held(started):
        assert keys.release(started)
        assert isinstance(Keys(store).begin(**ASKED), Started)
        wait_until(lambda: started.lost, within_s=PATIENCE_S, what="the loss is noticed")


def test_a_process_holds_no_more_keys_than_its_limit() -> None:
    store = Store.open("sqlite://")
    store.migrate()
    keys = Keys(store)

    def inner(started: Started) -> Answer:
        with pytest.raises(Failure, match="CONCURRENCY_EXCEEDED"):
            keys.once("make", "other", "r", lambda _: MADE)
        return MADE

    with replaced(replace(world(), limits=Limits(keys_held_max=1))):
        assert keys.once("make", "k", "r", inner).answer == MADE
    assert not keys.once("make", "other", "r", lambda _: MADE).replayed
    store.close()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_does_not_renew_its_parents_keys() -> None:
    store = Store.open("sqlite://")
    store.migrate()
    keys = Keys(store, lease_s=1.0)
    started = keys.begin(**ASKED)
    assert isinstance(started, Started)
    with keys.held(started):
        child = os.fork()
        if child == 0:
            os._exit(len(HEARTBEAT._held))
        assert len(HEARTBEAT._held) == 1
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    store.close()
