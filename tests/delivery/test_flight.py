"""How many requests an endpoint may have open: fewer when it fails; and a place or a turn for what finds no room."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.delivery.flight import TURN_S_MAX, TURN_S_MIN, Flight, Flights
from holdfast.delivery.place import Place, WaitingRoom
from holdfast.testing import VirtualTime

ANSWER_S = 0.005
NO_ROOM = 0


def alone() -> Flight:
    """One before which nobody may wait."""
    return Flight(WaitingRoom(NO_ROOM))


def entered(flight: Flight, most: int) -> int:
    """How many get in at once."""
    count = 0
    while flight.enter(most) is None:
        count += 1
    for _ in range(count):
        flight.leave()
    return count


def placed(flight: Flight, most: int) -> Place:
    """One who is to wait here."""
    found = flight.enter(most)
    assert isinstance(found, Place)
    return found


def sent_back(flight: Flight, most: int) -> float:
    """When one who is not to wait here comes back."""
    found = flight.enter(most)
    assert isinstance(found, float)
    return found


def test_no_more_are_open_than_may_be(time: VirtualTime) -> None:
    flight = alone()
    assert entered(flight, 10) == 10
    assert entered(flight, 3) == 3


def test_each_failure_halves_what_is_trusted_and_each_success_gives_one_back(time: VirtualTime) -> None:
    flight = alone()
    seen = []
    for _ in range(5):
        flight.failed(0.1, 10)
        seen.append(entered(flight, 10))
    assert seen == [5, 2, 1, 1, 1]
    for _ in range(9):
        flight.succeeded(0.1, 10)
    assert entered(flight, 10) == 10


def test_before_an_endpoint_that_answers_the_next_ones_wait_and_are_let_in_one_for_one(time: VirtualTime) -> None:
    flight, most, done = Flight(), 5, 0
    assert [flight.enter(most) for _ in range(most)] == [None] * most
    line = [placed(flight, most) for _ in range(20)]
    began_s = time.passed_s
    while time.passed_s - began_s < 1.0 - ANSWER_S / 2:
        time.advance(ANSWER_S)
        for _ in range(most):
            flight.succeeded(ANSWER_S, most)
            flight.leave()
            # Whoever waited longest is in, and nobody else.
            assert [place.entered for place in line] == [True] + [False] * (len(line) - 1)
            assert flight.waited(line.pop(0)) is None
            line.append(placed(flight, most))
            done += 1
    assert done >= 200


def test_nobody_waits_where_the_line_would_take_too_long(time: VirtualTime) -> None:
    flight = Flight()
    flight.succeeded(2.0, 5)
    for _ in range(5):
        assert flight.enter(5) is None
    waiting = 0
    while isinstance(flight.enter(5), Place):
        waiting += 1
    # An answer is expected after 0.4 s, five places: the third in line would have 0.24 s, the fourth 0.32 s.
    assert waiting == 3


def test_nobody_waits_for_one_that_failed_or_hangs_until_it_answers(time: VirtualTime) -> None:
    flight = Flight()
    assert flight.enter(1) is None
    first, second = placed(flight, 1), placed(flight, 1)
    assert flight.waited(first) is not None
    assert sent_back(flight, 1) > TURN_S_MIN
    assert flight.waited(second) is not None
    flight.succeeded(ANSWER_S, 1)
    placed(flight, 1)
    flight.failed(ANSWER_S, 1)
    assert sent_back(flight, 1) == pytest.approx(TURN_S_MIN)


def test_the_waiting_before_all_endpoints_together_are_bounded(time: VirtualTime) -> None:
    flights = Flights(WaitingRoom(3))
    for name in ("a", "b"):
        assert flights.of(name).enter(1) is None
    places = [placed(flights.of(name), 1) for name in ("a", "b", "a")]
    sent_back(flights.of("b"), 1)
    flights.of("b").leave()
    assert [place.entered for place in places] == [False, True, False]
    placed(flights.of("b"), 1)


def test_those_who_may_not_wait_come_back_one_after_the_other(time: VirtualTime) -> None:
    flight = alone()
    flight.failed(0.001, 1)
    assert flight.enter(1) is None
    turns = [sent_back(flight, 1) for _ in range(5)]
    assert turns == sorted(turns)
    assert all(later - earlier >= TURN_S_MIN * 0.99 for earlier, later in pairwise(turns))


def test_turns_at_a_quick_endpoint_are_as_close_as_its_answers(time: VirtualTime) -> None:
    flight = alone()
    for _ in range(20):
        flight.succeeded(0.05, 5)
    for _ in range(5):
        assert flight.enter(5) is None
    turns = [sent_back(flight, 5) for _ in range(100)]
    assert 0.9 <= turns[-1] <= 1.1


def test_one_answer_that_took_long_makes_no_long_line(time: VirtualTime) -> None:
    flight = alone()
    flight.failed(10.0, 5)
    for _ in range(20):
        flight.come_back_s(0.0, 5)
    for _ in range(12):
        flight.succeeded(ANSWER_S, 5)
    for _ in range(5):
        assert flight.enter(5) is None
    assert max(sent_back(flight, 5) for _ in range(50)) < 1


def test_a_line_of_any_length_waits_no_longer_than_the_longest_turn(time: VirtualTime) -> None:
    flight = alone()
    for _ in range(50):
        flight.failed(10.0, 10)
    assert flight.enter(10) is None
    turns = [sent_back(flight, 10) for _ in range(1_000)]
    assert max(turns) <= TURN_S_MAX
    assert turns[0] > 5


def test_an_endpoint_that_asked_for_time_gets_it(time: VirtualTime) -> None:
    flight = Flight()
    flight.hold(30)
    assert 30 <= sent_back(flight, 10) < 31
    time.advance(31)
    assert flight.enter(10) is None


STEPS = st.sampled_from(["enter", "leave", "tire", "succeed", "fail"])


@given(st.lists(STEPS, max_size=60), st.integers(1, 20), st.integers(0, 5))
def test_whatever_happens_the_bound_holds_and_one_always_gets_in(steps: list[str], most: int, room: int) -> None:
    flight, inside, line = Flight(WaitingRoom(room)), 0, []
    for step in steps:
        if step == "enter":
            found = flight.enter(most)
            inside += found is None
            line += [found] if isinstance(found, Place) else []
            assert inside > 0
        elif step == "leave" and inside:
            flight.leave()
            inside -= 1
        elif step == "tire" and line:
            inside += flight.waited(line.pop()) is None
        elif step == "succeed":
            flight.succeeded(0.01, most)
        elif step == "fail":
            flight.failed(0.01, most)
        for place in [place for place in line if place.entered]:
            line.remove(place)
            inside += 1
        assert inside <= most
        assert len(line) <= room
        assert inside > 0 or not line


def test_endpoints_are_told_apart() -> None:
    flights = Flights()
    assert flights.of("a") is flights.of("a")
    assert flights.of("a") is not flights.of("b")
