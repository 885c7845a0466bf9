"""What a deadline promises: it only ever gets nearer on the way down, and never grows on the wire."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from math import inf, nan, nextafter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.base import REAL, replaced
from holdfast.base.limits import Limits
from holdfast.catalog.core import SERVICE_UNAVAILABLE
from holdfast.lifecycle import GiveUp, Stop
from holdfast.policy.backoff import Backoff, PolicyInvalid
from holdfast.policy.deadline import (
    DEADLINE_HEADER,
    Deadline,
    current_deadline,
    deadline_at,
    from_header,
    left_s,
    to_header,
    within,
)
from holdfast.policy.decide import decide
from holdfast.policy.retry import Retry


class Clock:
    def __init__(self, now_s: float = 1_000.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Iterator[Clock]:
    hand = Clock()
    with replaced(replace(REAL, monotonic_s=hand)):
        yield hand


def test_without_a_deadline_the_time_left_is_infinite():
    assert left_s() == inf
    assert current_deadline() is None
    assert deadline_at() is None
    assert to_header() is None


def test_the_header_has_the_name_that_callers_send():
    assert DEADLINE_HEADER == "X-Deadline-Ms"


def test_the_time_left_shrinks_with_the_clock_and_ends_at_zero(clock: Clock):
    with within(5.0) as deadline:
        assert (left_s(), deadline.left_s, deadline.expired) == (5.0, 5.0, False)
        assert current_deadline() == deadline == Deadline(1_005.0)
        assert deadline_at() == 1_005.0
        clock.now_s += 3.0
        assert left_s() == 2.0
        clock.now_s += 3.0
        assert (left_s(), deadline.left_s, deadline.expired) == (0.0, 0.0, True)
    assert left_s() == inf


def test_an_inner_block_cannot_extend_the_outer_one(clock: Clock):
    with within(5.0):
        with within(60.0) as inner:
            assert inner.at_s == 1_005.0
        with within(2.0) as inner:
            assert inner.at_s == 1_002.0
        assert left_s() == 5.0


def test_a_block_without_a_bound_of_its_own_keeps_the_outer_one(clock: Clock):
    with within(None):
        assert left_s() == inf
        assert current_deadline() is None
        assert to_header() is None
    with within(5.0), within(None):
        assert left_s() == 5.0


def test_an_error_in_the_block_restores_the_outer_deadline(clock: Clock):
    with within(9.0):
        with pytest.raises(KeyError), within(1.0):
            raise KeyError
        assert left_s() == 9.0


@pytest.mark.parametrize("seconds", [0.0, -0.0, -5.0, -inf])
def test_no_time_or_less_is_a_deadline_that_has_passed(clock: Clock, seconds: float):
    with within(seconds) as deadline:
        assert deadline.expired
        assert left_s() == 0.0
        assert to_header() == "0"


def test_a_deadline_that_is_not_a_number_is_a_mistake():
    with pytest.raises(PolicyInvalid, match="seconds"):
        within(nan)


def test_one_block_object_cannot_be_entered_twice_at_once(clock: Clock):
    block = within(1.0)
    with block, pytest.raises(RuntimeError, match="entered already"):
        block.__enter__()
    with block:
        assert left_s() == 1.0
    assert deadline_at() is None


def test_a_thread_in_a_copied_context_inherits_the_deadline_and_a_bare_thread_does_not(clock: Clock):
    seen: list[float | None] = []
    with within(5.0):
        copied = contextvars.copy_context()
        for target in (lambda: copied.run(lambda: seen.append(deadline_at())), lambda: seen.append(deadline_at())):
            thread = threading.Thread(target=target)
            thread.start()
            thread.join()
    assert seen == [1_005.0, None]


async def test_tasks_inherit_the_deadline_and_keep_their_own_to_themselves(clock: Clock):
    entered = asyncio.Event()

    async def narrow() -> float:
        with within(1.0):
            entered.set()
            await asyncio.sleep(0)
            return left_s()

    async def wide() -> float:
        await entered.wait()
        return left_s()

    with within(5.0):
        assert await asyncio.gather(narrow(), wide()) == [1.0, 5.0]
        assert await asyncio.to_thread(left_s) == 5.0
        assert left_s() == 5.0


def test_a_wait_longer_than_the_time_left_fails_at_once(clock: Clock):
    rule = Retry(attempts=5, backoff=Backoff.constant(10.0))
    with within(10.0):
        decision = decide(rule, SERVICE_UNAVAILABLE(), 1, 0.0, left_s(), lambda: 0.5)
    assert decision == GiveUp(Stop.DEADLINE_TOO_NEAR)


@given(st.lists(st.none() | st.floats(-1.0, 1e6), min_size=1, max_size=8), st.data())
def test_a_nested_deadline_is_never_later_than_the_outer_one(seconds: list[float | None], data: st.DataObject):
    clock = Clock()
    with replaced(replace(REAL, monotonic_s=clock)), ExitStack() as stack:
        outer_s = inf
        for own in seconds:
            clock.now_s += data.draw(st.floats(0.0, 10.0))
            deadline = stack.enter_context(within(own))
            assert deadline.at_s <= outer_s
            assert deadline.at_s <= clock.now_s + max(0.0, inf if own is None else own)
            assert left_s() >= 0.0
            outer_s = deadline.at_s
    assert deadline_at() is None


@given(st.floats(0.0, 86_400.0), st.floats(0.0, 1e7))
def test_the_way_over_the_wire_loses_at_most_a_millisecond_and_never_adds_time(seconds: float, now_s: float):
    with replaced(replace(REAL, monotonic_s=Clock(now_s))):
        with within(seconds):
            before_s, header = left_s(), to_header()
        received_s = from_header(header)
    assert received_s is not None
    assert received_s <= before_s
    # The last digits of a float are not time: the subtraction of two instants is allowed its rounding.
    assert before_s - received_s <= 0.001 + 1e-8


def test_a_hair_less_than_a_whole_millisecond_is_not_rounded_up_to_it():
    almost_s = nextafter(0.117, 0.0)
    with replaced(replace(REAL, monotonic_s=Clock(0.0))), within(almost_s):
        assert to_header() == "116"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1500", 1.5),
        (" 250\t", 0.25),
        ("007", 0.007),
        ("0", 0.0),
        ("000", 0.0),
        ("-0", 0.0),
        ("-1", 0.0),
        ("-99999999999999999999999999", 0.0),
        ("86400001", 86_400.0),
        ("9" * 5_000, 86_400.0),
        ("0" * 5_000 + "1000", 1.0),
    ],
)
def test_a_received_header_is_read_and_kept_within_the_limit(text: str, seconds: float):
    assert from_header(text) == seconds


@pytest.mark.parametrize(
    "text",
    [None, "", " ", "soon", "1.5", "1e3", "1_000", "+5", "--5", "5 ms", "٣", "NaN", "inf", "5\n", "0" * 99 + "x"],
)
def test_a_header_that_cannot_be_read_is_ignored(text: str | None):
    assert from_header(text) is None


@given(st.text())
def test_no_header_whatever_breaks_the_request(text: str):
    seconds = from_header(text)
    assert seconds is None or 0.0 <= seconds <= 86_400.0


def test_the_longest_deadline_from_outside_can_be_set():
    with replaced(replace(REAL, limits=Limits(deadline_s_max=2.0))):
        assert from_header("5000") == 2.0
