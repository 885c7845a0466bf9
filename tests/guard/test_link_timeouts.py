"""What a time limit means for a function that blocks."""

from __future__ import annotations

import threading
from math import inf

import pytest

from holdfast import Backoff, Breaker, Link, Retry, stamp_of, within
from holdfast.lifecycle import BreakerState, Stop
from holdfast.policy import left_s
from holdfast.testing import instant

from .timed_threads import wait_until_idle

ONCE_MORE = Retry(attempts=2, backoff=Backoff.constant(1))
SHORT_S = 0.01


@pytest.fixture
def release() -> threading.Event:
    """Lets go of every function that still hangs."""
    event = threading.Event()
    yield event
    event.set()
    wait_until_idle()


def test_an_attempt_is_left_behind_at_its_time_limit_and_repeated(release: threading.Event) -> None:
    calls: list[str] = []

    def hang() -> None:
        calls.append(threading.current_thread().name)
        release.wait()

    with instant() as time, pytest.raises(TimeoutError, match="the call goes on in the background") as caught:
        Link("a", timeout_s=SHORT_S, retry=ONCE_MORE).call(hang)
    release.set()
    wait_until_idle()  # on a busy machine a thread may begin after its time is over
    assert calls == ["holdfast-timed"] * 2
    assert time.waits_s == [1]
    assert stamp_of(caught.value).code == "NETWORK_TIMEOUT"


def test_the_total_cuts_an_attempt_off_that_has_no_limit_of_its_own(release: threading.Event) -> None:
    with instant(), pytest.raises(TimeoutError) as caught:
        Link("a", total_s=SHORT_S, retry=ONCE_MORE).call(release.wait)
    assert stamp_of(caught.value).reason is Stop.DEADLINE_TOO_NEAR


def test_without_a_limit_of_the_link_the_function_runs_in_the_callers_thread() -> None:
    with within(60):
        assert Link("a").call(threading.current_thread) is threading.current_thread()


def test_the_attempt_sees_its_time_limit_as_its_deadline() -> None:
    with instant():
        assert Link("a", timeout_s=5, total_s=60).call(left_s) == pytest.approx(5)
        assert Link("a", timeout_s=60, total_s=5).call(left_s) == pytest.approx(5)
        with within(1):
            assert Link("a", timeout_s=60).call(left_s) == pytest.approx(1)
    assert left_s() == inf


def test_each_attempt_has_its_whole_time_limit_while_the_total_allows() -> None:
    seen: list[float] = []

    def look() -> None:
        seen.append(left_s())
        raise ConnectionRefusedError

    rule = Retry(attempts=3, backoff=Backoff.constant(4))
    with instant(), pytest.raises(ConnectionRefusedError):
        Link("a", timeout_s=5, total_s=10, retry=rule).call(look)
    assert seen == pytest.approx([5, 5, 2])


def test_a_timeout_counts_against_the_callee(release: threading.Event) -> None:
    link = Link("a", timeout_s=SHORT_S, retry=Retry(attempts=1), breaker=Breaker(calls_min=1))
    with pytest.raises(TimeoutError):
        link.call(release.wait)
    assert link.gate.circuit.state is BreakerState.OPEN


def test_a_later_attempt_that_would_start_too_late_is_not_made() -> None:
    calls: list[int] = []
    with instant() as time:

        def slow() -> None:
            calls.append(1)
            time.advance(9)
            raise ConnectionRefusedError

        with pytest.raises(ConnectionRefusedError) as caught:
            Link("a", retry=Retry(attempts=9, backoff=Backoff.constant(2)), total_s=10).call(slow)
    assert (len(calls), time.waits_s) == (1, [])
    assert stamp_of(caught.value).reason is Stop.DEADLINE_TOO_NEAR


def test_within_s_counts_from_the_start_of_the_first_attempt() -> None:
    with instant() as time:

        def slow() -> None:
            time.advance(3)
            raise ConnectionRefusedError

        rule = Retry(attempts=9, backoff=Backoff.constant(1), within_s=10)
        with pytest.raises(ConnectionRefusedError) as caught:
            Link("a", retry=rule).call(slow)
    assert time.waits_s == [1, 1]  # starts at 0, 4 and 8; the next would start at 12
    assert stamp_of(caught.value).reason is Stop.TIME_USED
