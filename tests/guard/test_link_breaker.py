"""What a breaker does for the calls of a link."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import copy
import gc
import pickle
import threading
from typing import Any

import pytest

from holdfast import Backoff, Breaker, Failure, Link, RateLimit, Retry, stamp_of
from holdfast.base import monotonic_s, now_us
from holdfast.catalog.core import NOT_FOUND, RATE_LIMIT_EXCEEDED
from holdfast.lifecycle import BreakerState, Stop
from holdfast.testing import instant

CALLERS = 50
NEVER = Retry(attempts=1)


def refused() -> None:
    raise ConnectionRefusedError


async def refused_async() -> None:
    raise ConnectionRefusedError


def link(**options: Any) -> Link:
    return Link("shop → bank", **{"retry": NEVER, "breaker": Breaker(calls_min=1, open_s=30), **options})


def opened(**options: Any) -> Link:
    made = link(**options)
    with pytest.raises(ConnectionRefusedError):
        made.call(refused)
    assert made.gate.circuit.state is BreakerState.OPEN
    return made


def test_an_open_breaker_rejects_without_calling_and_tells_when_to_come_back() -> None:
    with instant() as time:
        bank = opened()
        time.advance(10)
        calls: list[int] = []
        with pytest.raises(Failure) as caught:
            bank.call(lambda: calls.append(1))
    assert calls == []
    assert caught.value.code == "BREAKER_OPEN"
    assert caught.value.retry_after_s == pytest.approx(20)
    assert caught.value.details == {"link": "shop → bank"}
    assert stamp_of(caught.value).reason is Stop.BREAKER_OPEN
    assert stamp_of(caught.value).attempts == 0


def test_a_rejection_is_dated_when_it_was_made_whenever_it_is_asked() -> None:
    with instant() as time:
        bank = opened()
        time.advance(10)
        made_us = now_us()
        with pytest.raises(Failure) as caught:
            bank.call(refused)
        time.advance(5)
    assert caught.value.at_us == made_us


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
def test_a_rejection_is_copied_whole(copied: Any) -> None:
    with pytest.raises(Failure) as caught:
        opened().call(refused)
    twin = copied(caught.value)
    for name in ("code", "message", "technical", "details", "retry_after_s", "at_us", "context"):
        assert getattr(twin, name) == getattr(caught.value, name)
    assert stamp_of(twin) == stamp_of(caught.value)


async def test_an_open_breaker_rejects_coroutines_too() -> None:
    with instant():
        bank = opened()
        with pytest.raises(Failure, match="BREAKER_OPEN"):
            await bank.call(refused_async)


def test_good_and_bad_calls_of_both_colours_fill_the_same_window() -> None:
    bank = link(breaker=Breaker(calls_min=4, failure_ratio=0.5))

    async def fine() -> None:
        return None

    with instant():
        bank.call(lambda: None)
        asyncio.run(bank.call(fine))
        with pytest.raises(ConnectionRefusedError):
            bank.call(refused)
        assert bank.gate.circuit.state is BreakerState.CLOSED
        with pytest.raises(ConnectionRefusedError):
            asyncio.run(bank.call(refused_async))
    assert bank.gate.circuit.state is BreakerState.OPEN


def test_calls_that_work_roll_the_window_on() -> None:
    bank = link(breaker=Breaker(calls_min=5, window_s=100))
    with instant() as time:
        for _ in range(4):
            with pytest.raises(ConnectionRefusedError):
                bank.call(refused)
        time.advance(120)
        for _ in range(8):
            bank.call(lambda: None)
            time.advance(5)
        with pytest.raises(ConnectionRefusedError):
            bank.call(refused)
        assert bank.gate.circuit.state is BreakerState.CLOSED


@pytest.mark.parametrize("fault", [NOT_FOUND, RATE_LIMIT_EXCEEDED], ids=["404", "429"])
def test_refusals_that_are_the_callers_fault_never_open_it(fault: Any) -> None:
    bank = link()

    def refuse() -> None:
        raise fault()

    for _ in range(100):
        with pytest.raises(Failure, match=fault.code):
            bank.call(refuse)
    assert bank.gate.circuit.state is BreakerState.CLOSED


def test_a_probe_that_is_answered_with_a_refusal_closes_it() -> None:
    def absent() -> None:
        raise NOT_FOUND()

    with instant() as time:
        bank = opened()
        time.advance(30)
        with pytest.raises(Failure, match="NOT_FOUND"):
            bank.call(absent)
    assert bank.gate.circuit.state is BreakerState.CLOSED


def test_each_attempt_is_counted() -> None:
    bank = link(retry=Retry(attempts=3, backoff=Backoff.constant(1)), breaker=Breaker(calls_min=10))
    with instant():
        with pytest.raises(ConnectionRefusedError):
            bank.call(refused)
        assert bank.gate.circuit.counts(monotonic_s()) == {"failures": 3, "calls": 3}


def test_a_breaker_that_opens_between_two_attempts_ends_the_call_with_its_own_exception() -> None:
    bank = link(retry=Retry(attempts=5, backoff=Backoff.constant(1)), breaker=Breaker(calls_min=2, open_s=30))
    with instant() as time, pytest.raises(ConnectionRefusedError) as caught:
        bank.call(refused)
    assert time.waits_s == [1, 1]
    assert stamp_of(caught.value).reason is Stop.BREAKER_OPEN
    assert stamp_of(caught.value).attempts == 2
    assert caught.value.__context__ is None


def test_a_retry_that_waits_as_long_as_the_pause_is_the_probe() -> None:
    answers = [ConnectionRefusedError()]

    def work() -> str:
        if answers:
            raise answers.pop()
        return "fine"

    bank = link(retry=Retry(attempts=2, backoff=Backoff.constant(30)))
    with instant():
        assert bank.call(work) == "fine"
    assert bank.gate.circuit.state is BreakerState.CLOSED


def test_a_probe_that_finds_no_place_under_a_limit_frees_its_own() -> None:
    bank = link(rate=RateLimit(count=1, per_s=3_600))
    with instant() as time:
        with pytest.raises(ConnectionRefusedError):
            bank.call(refused)
        time.advance(30)
        for _ in range(3):
            with pytest.raises(Failure, match="RATE_LIMIT_EXCEEDED"):
                bank.call(refused)
        assert bank.gate.circuit.state is BreakerState.HALF_OPEN
        time.advance(3_600)
        bank.call(lambda: None)
    assert bank.gate.circuit.state is BreakerState.CLOSED


def test_an_interrupted_probe_frees_its_place() -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with instant() as time:
        bank = opened()
        time.advance(30)
        for _ in range(3):
            with pytest.raises(KeyboardInterrupt):
                bank.call(interrupt)
        bank.call(lambda: None)
    assert bank.gate.circuit.state is BreakerState.CLOSED


def test_a_slow_call_from_before_the_outage_does_not_open_it_again_afterwards() -> None:
    bank = link()
    with instant() as time:

        def slow() -> None:
            with pytest.raises(ConnectionRefusedError):
                bank.call(refused)
            time.advance(30)
            bank.call(lambda: None)
            assert bank.gate.circuit.state is BreakerState.CLOSED
            raise ConnectionResetError

        with pytest.raises(ConnectionResetError):
            bank.call(slow)
    assert bank.gate.circuit.state is BreakerState.CLOSED


@pytest.mark.parametrize("probes", [1, 3])
def test_of_50_threads_exactly_the_configured_number_reach_the_callee(probes: int) -> None:
    reached: list[int] = []
    outcomes: list[str] = []
    everyone_asked = threading.Event()
    barrier = threading.Barrier(CALLERS)

    def work() -> None:
        reached.append(1)
        everyone_asked.wait(100)

    with instant() as time:
        bank = opened(breaker=Breaker(calls_min=1, open_s=30, probes=probes))
        time.advance(30)
        guarded = bank(work)

        def ask() -> None:
            barrier.wait()
            try:
                guarded()
                outcomes.append("probed")
            except Failure as failure:
                outcomes.append(failure.code)
                if len(outcomes) == CALLERS - probes:
                    everyone_asked.set()

        threads = [threading.Thread(target=contextvars.copy_context().run, args=(ask,)) for _ in range(CALLERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(reached) == probes
    assert sorted(outcomes) == ["BREAKER_OPEN"] * (CALLERS - probes) + ["probed"] * probes
    assert bank.gate.circuit.state is BreakerState.CLOSED


@pytest.mark.parametrize("probes", [1, 3])
async def test_of_50_tasks_exactly_the_configured_number_reach_the_callee(probes: int) -> None:
    reached = 0

    async def work() -> None:
        nonlocal reached
        reached += 1
        await asyncio.sleep(0)

    with instant() as time:
        bank = opened(breaker=Breaker(calls_min=1, open_s=30, probes=probes))
        time.advance(30)
        outcomes = await asyncio.gather(*(bank.call(work) for _ in range(CALLERS)), return_exceptions=True)
    assert reached == probes
    assert sum(isinstance(outcome, Failure) for outcome in outcomes) == CALLERS - probes


def test_a_rejection_keeps_nothing_alive() -> None:
    with instant():
        bank = opened()
        gc.collect()
        before = _rejections()
        gc.disable()
        try:
            _rejected(bank)
            assert _rejections() == before
        finally:
            gc.enable()


def _rejections() -> int:
    """How many there are; a thread that an earlier test left behind may make failures of other kinds meanwhile."""
    return sum(issubclass(type(found), Failure) and found.code == "BREAKER_OPEN" for found in gc.get_objects())


def _rejected(bank: Link) -> None:
    with contextlib.suppress(Failure):
        bank.call(refused)
