"""What holds for calls that ran out of time and go on in their thread."""

from __future__ import annotations

import gc
import os
import queue
import threading
import weakref
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import pytest

from holdfast import Breaker, Failure, Link, Retry
from holdfast.base import Limits, replaced, world
from holdfast.guard import timed
from holdfast.guard.timed import Crowded, call_within
from holdfast.lifecycle import BreakerState
from holdfast.testing import instant
from holdfast.testing.processes import wait_until

from .timed_threads import NAME, wait_until_idle

SHORT_S = 0.01


class Hung:
    """Functions that hang until they are let go."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def __call__(self) -> None:
        self._event.wait()

    def let_go(self) -> None:
        self._event.set()
        wait_until_idle()


@pytest.fixture
def hung() -> Any:
    wait_until(lambda: timed._left_behind == 0, within_s=60, what="what earlier tests left behind has ended")
    found = Hung()
    yield found
    found.let_go()
    assert timed._left_behind == 0


def leave_behind(function: Any) -> None:
    with pytest.raises(TimeoutError):
        call_within(SHORT_S, function)


def test_a_result_and_an_exception_come_over_from_the_thread_as_they_are() -> None:
    error = KeyError("x")

    def fail() -> None:
        raise error

    assert call_within(60, divmod, 7, 2) == (3, 1)
    with pytest.raises(KeyError) as caught:
        call_within(60, fail)
    assert caught.value is error
    assert error.__context__ is None


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_what_is_no_exception_comes_over_too(kind: type[BaseException]) -> None:
    def fail() -> None:
        raise kind

    with pytest.raises(kind):
        call_within(60, fail)


def test_a_time_limit_longer_than_a_thread_can_wait_is_taken() -> None:
    assert Link("a", timeout_s=1e300).call(lambda: 1) == 1


def test_the_thread_lives_in_a_copy_of_the_callers_context() -> None:
    colour: ContextVar[str] = ContextVar("colour", default="none")
    colour.set("red")

    def look() -> tuple[str, object]:
        seen = colour.get(), world()
        colour.set("blue")
        return seen

    with instant():
        assert call_within(60, look) == ("red", world())
    assert colour.get() == "red"


def test_a_thread_takes_one_call_after_another() -> None:
    wait_until_idle()
    first = call_within(60, threading.get_ident)
    assert first != threading.get_ident()
    assert [call_within(60, threading.get_ident) for _ in range(50)] == [first] * 50


def test_a_thread_that_was_left_behind_takes_calls_again_when_its_own_has_ended(hung: Hung) -> None:
    leave_behind(hung)
    assert call_within(60, divmod, 7, 2) == (3, 1), "another thread does it meanwhile"
    hung.let_go()
    known = {thread.ident for thread in threading.enumerate() if thread.name == NAME}
    assert call_within(60, threading.get_ident) in known


def test_a_thread_without_calls_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timed, "IDLE_S", SHORT_S)
    ident = call_within(60, threading.get_ident)
    wait_until(
        lambda: ident not in {thread.ident for thread in threading.enumerate()}, within_s=60, what="the thread ends"
    )
    wait_until_idle()
    assert call_within(60, divmod, 7, 2) == (3, 1)


def test_no_more_threads_wait_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    wait_until_idle()
    limit = max(0, len(timed._idle) - 4) + 2
    monkeypatch.setattr(timed, "IDLE_MAX", limit)
    together = threading.Barrier(5)
    callers = [threading.Thread(target=call_within, args=(60, together.wait)) for _ in range(4)]
    for caller in callers:
        caller.start()
    together.wait()
    for caller in callers:
        caller.join()
    wait_until_idle()
    assert len(timed._idle) == limit


def test_many_callers_at_once_each_get_their_own_result() -> None:
    found: dict[int, list[int]] = {}

    def call(number: int) -> None:
        found[number] = [call_within(60, int, number * 1_000 + turn) for turn in range(200)]

    callers = [threading.Thread(target=call, args=(number,)) for number in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert found == {number: [number * 1_000 + turn for turn in range(200)] for number in range(8)}


def test_a_forked_child_has_threads_of_its_own() -> None:
    assert call_within(60, divmod, 7, 2) == (3, 1)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if call_within(10, divmod, 7, 2) == (3, 1) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_calls_left_behind_are_counted_until_they_end(hung: Hung) -> None:
    leave_behind(hung)
    leave_behind(hung)
    assert timed._left_behind == 2
    hung.let_go()
    assert timed._left_behind == 0


def test_no_further_call_is_started_while_too_many_are_left_behind(hung: Hung) -> None:
    calls: list[int] = []
    with replaced(replace(world(), limits=Limits(abandoned_calls_max=2))):
        leave_behind(hung)
        leave_behind(hung)
        with pytest.raises(Crowded) as caught:
            call_within(60, lambda: calls.append(1))
    assert calls == []
    assert caught.value.code == "CONCURRENCY_EXCEEDED"
    assert caught.value.retry_after_s == 1.0
    assert caught.value.details == {"abandoned": 2}


def test_a_call_that_was_not_started_is_no_answer_of_the_callee(hung: Hung) -> None:
    link = Link("a", timeout_s=SHORT_S, retry=Retry(attempts=1), breaker=Breaker(calls_min=1, open_s=10))
    with instant() as time, replaced(replace(world(), limits=Limits(abandoned_calls_max=1))):
        with pytest.raises(TimeoutError):
            link.call(hung)
        time.advance(10)
        for _ in range(2):  # each takes the probe's place and gives it back
            with pytest.raises(Failure) as caught:
                link.call(hung)
            assert caught.value.code == "CONCURRENCY_EXCEEDED"
        assert link.gate.circuit.state is BreakerState.HALF_OPEN


def test_an_interrupted_wait_counts_as_left_behind(hung: Hung, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(queue.SimpleQueue):  # type: ignore[type-arg]
        def get(self, block: bool = True, timeout: float | None = None) -> Any:
            raise KeyboardInterrupt

    monkeypatch.setattr(queue, "SimpleQueue", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        call_within(60, hung)
    assert timed._left_behind == 1


def test_an_outcome_at_the_last_moment_still_counts() -> None:
    call = timed._Call()
    call.end((True, "just in time"))
    assert call._leave_behind() == (True, "just in time")
    assert timed._left_behind == 0


class Watched(Exception):
    pass


def test_what_a_call_left_behind_raises_in_the_end_is_dropped(hung: Hung) -> None:
    kept: list[weakref.ref[Watched]] = []

    def fail_late() -> None:
        hung()
        error = Watched()
        kept.append(weakref.ref(error))
        try:
            raise error
        finally:
            del error

    gc.disable()
    try:
        leave_behind(fail_late)
        hung.let_go()
        assert kept[0]() is None
    finally:
        gc.enable()
