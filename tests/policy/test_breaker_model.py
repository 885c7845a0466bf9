"""A breaker in any order of events, against a model that remembers every call.

The window moves on in slices, so what it counts is bounded and not exact: every call of the last `window_s`, and none
that is older than `window_s` and one slice.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from holdfast.lifecycle import BreakerState
from holdfast.policy import Breaker, Circuit, Rejected
from holdfast.policy.circuit import STRIDE_MAX
from holdfast.policy.window import SLICES

CLOSED, OPEN, HALF_OPEN = BreakerState.CLOSED, BreakerState.OPEN, BreakerState.HALF_OPEN


def ticket_of(circuit: Circuit, now_s: float) -> int:
    ticket = circuit.admit(now_s)
    assert not isinstance(ticket, Rejected)
    return ticket


def call(circuit: Circuit, now_s: float, *, good: bool) -> None:
    ticket = ticket_of(circuit, now_s)
    if good:
        circuit.succeed(now_s, ticket)
    else:
        circuit.fail(now_s, ticket)


# Quarters of seconds and a slice of one second are exact as floats, so that the bounds can be tested to the point.
WINDOW_S = float(SLICES)
events = st.lists(st.tuples(st.integers(0, 60), st.booleans()), max_size=80)


@given(events)
def test_every_call_of_the_window_is_counted_and_none_older_than_the_window_and_a_slice(
    steps: list[tuple[int, bool]],
) -> None:
    circuit = Circuit(Breaker(calls_min=10**9, window_s=WINDOW_S))
    history: list[tuple[float, bool]] = []
    now_s = 0.0
    for quarters, good in steps:
        now_s += quarters / 4
        call(circuit, now_s, good=good)
        history.append((now_s, good))
        counted = circuit.counts(now_s)
        certain = [ok for at_s, ok in history if at_s > now_s - WINDOW_S]
        possible = [ok for at_s, ok in history if at_s > now_s - WINDOW_S * (1 + 1 / SLICES)]
        assert len(certain) <= counted["calls"] <= len(possible)
        assert certain.count(False) <= counted["failures"] <= possible.count(False)


def count(circuit: Circuit, now_s: float, *, good: bool) -> None:
    """As the guard does it: good calls without a lock, and with a clock only when it is time to look."""
    if good:
        circuit.spare -= 1
        if circuit.spare <= 0:
            circuit.look(now_s)
    else:
        circuit.fail(now_s, circuit.ticket)


paces = st.lists(
    st.tuples(st.sampled_from([0.0, 0.0001, 0.25, 1.0, 9.75, 30.0]), st.booleans(), st.integers(1, 70)), max_size=25
)


@given(paces)
def test_calls_that_the_guard_counts_are_never_missed_and_few_count_too_long(
    steps: list[tuple[float, bool, int]],
) -> None:
    circuit = Circuit(Breaker(calls_min=10**9, window_s=WINDOW_S))
    history: list[tuple[float, bool]] = []
    now_s = 0.0
    for pause_s, good, times in steps:
        for _ in range(times):
            now_s += pause_s
            count(circuit, now_s, good=good)
            history.append((now_s, good))
        counted = circuit.counts(now_s)
        certain = [ok for at_s, ok in history if at_s > now_s - WINDOW_S]
        possible = [ok for at_s, ok in history if at_s > now_s - WINDOW_S * (1 + 1 / SLICES)]
        assert len(certain) <= counted["calls"] < len(possible) + STRIDE_MAX
        assert certain.count(False) <= counted["failures"] <= possible.count(False)


@given(st.lists(st.tuples(st.integers(1, 60), st.booleans()), max_size=80))
def test_calls_that_come_slowly_are_counted_to_the_point(steps: list[tuple[int, bool]]) -> None:
    guarded, told = (Circuit(Breaker(calls_min=10**9, window_s=WINDOW_S)) for _ in range(2))
    now_s = 0.0
    for quarters, good in steps:
        now_s += quarters / 4
        count(guarded, now_s, good=good)
        call(told, now_s, good=good)
        assert guarded.counts(now_s) == told.counts(now_s)


def test_the_clock_is_read_for_few_of_many_fast_calls() -> None:
    circuit = Circuit(Breaker())
    looks = 0
    for number in range(3_200):
        circuit.spare -= 1
        if circuit.spare <= 0:
            looks += 1
            circuit.look(number / 100_000)
    assert looks == pytest.approx(3_200 / STRIDE_MAX, abs=10)
    assert circuit.counts(0.032) == {"failures": 0, "calls": 3_200}


@given(events)
def test_it_never_opens_without_enough_failures_in_the_window_and_a_slice(steps: list[tuple[int, bool]]) -> None:
    breaker = Breaker(failure_ratio=0.5, calls_min=5, window_s=WINDOW_S)
    circuit = Circuit(breaker)
    history: list[tuple[float, bool]] = []
    now_s = 0.0
    for quarters, good in steps:
        now_s += quarters / 4
        call(circuit, now_s, good=good)
        history.append((now_s, good))
        if circuit.state is OPEN:
            recent = [ok for at_s, ok in history if at_s > now_s - WINDOW_S * (1 + 1 / SLICES)]
            assert not good
            assert len(recent) >= breaker.calls_min
            assert recent.count(False) >= breaker.failure_ratio * breaker.calls_min
            return


class Life(RuleBasedStateMachine):
    """Any order of asking, answering, cancelling, losing and waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.breaker = Breaker(failure_ratio=0.5, calls_min=3, window_s=10, open_s=8, probes=2)
        self.circuit = Circuit(self.breaker)
        self.now_s = 0.0
        self.inside: list[tuple[int, float, int]] = []
        """The tickets that are out: since when, and since which move."""
        self.moves: list[BreakerState] = []
        self.opened_s: float | None = None

    @initialize(failing=st.sampled_from([True, True, False]))
    def begin(self, failing: bool) -> None:
        """Mostly in an outage: left to chance, few lives would ever see a probe."""
        for _ in range(self.breaker.calls_min if failing else 0):
            call(self.circuit, self.now_s, good=False)
        self.opened_s = self.now_s
        assert (self.circuit.state is OPEN) is failing
        self.moves.append(self.circuit.state)

    @rule(quarters=st.sampled_from([1, 4, 31, 32, 50]))
    def wait(self, quarters: int) -> None:
        """For less than a pause, for a pause to the point, or for more."""
        self.now_s += quarters / 4

    @rule()
    def ask(self) -> None:
        before = self.circuit.state
        answer = self.circuit.admit(self.now_s)
        if isinstance(answer, Rejected):
            assert before is not CLOSED
            assert 0 < answer.retry_after_s <= self.breaker.open_s
        else:
            assert before is not OPEN or self.now_s - self.opened_s >= self.breaker.open_s
            self.note_move()
            self.inside.append((answer, self.now_s, len(self.moves)))

    @precondition(lambda self: self.inside)
    @rule(chosen=st.randoms(use_true_random=False), report=st.sampled_from(["succeed", "fail", "release"]))
    def answer(self, chosen: Any, report: str) -> None:
        ticket, _, since_move = self.inside.pop(chosen.randrange(len(self.inside)))
        before, counted = self.circuit.state, self.circuit.counts(self.now_s)
        if report == "release":
            self.circuit.release(ticket)
            assert self.circuit.state is before
        else:
            getattr(self.circuit, report)(self.now_s, ticket)
        if self.circuit.state is OPEN and before is not OPEN:
            assert report == "fail"
            self.opened_s = self.now_s
        if self.circuit.state is CLOSED and before is not CLOSED:
            assert report == "succeed"
        if since_move < len(self.moves):
            assert (self.circuit.state, self.circuit.counts(self.now_s)) == (before, counted), "it came too late"
        self.note_move()

    def note_move(self) -> None:
        if self.circuit.state is not self.moves[-1]:
            self.moves.append(self.circuit.state)

    @invariant()
    def no_more_than_the_probes_are_in_flight_in_half_open(self) -> None:
        if self.circuit.state is not HALF_OPEN:
            return
        # One that has been out for a whole pause is lost, and another may have taken its place.
        probing = [since_s for _, since_s, since_move in self.inside if since_move == len(self.moves)]
        assert len([since_s for since_s in probing if self.now_s - since_s < self.breaker.open_s]) <= 2

    @invariant()
    def the_free_ticket_exists_exactly_while_it_is_closed(self) -> None:
        assert (self.circuit.ticket is not None) == (self.circuit.state is CLOSED)


Life.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestLife = Life.TestCase
