"""How many requests an endpoint may have open: fewer when it fails, and a turn for each that finds no room."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from holdfast.delivery.flight import TURN_S_MAX, TURN_S_MIN, Flight, Flights
from holdfast.testing import VirtualTime


def entered(flight: Flight, most: int) -> int:
    """How many get in at once."""
    count = 0
    while flight.enter(most) is None:
        count += 1
    for _ in range(count):
        flight.leave()
    return count


def test_no_more_are_open_than_may_be(time: VirtualTime) -> None:
    flight = Flight()
    assert entered(flight, 10) == 10
    assert entered(flight, 3) == 3


def test_each_failure_halves_what_is_trusted_and_each_success_gives_one_back(time: VirtualTime) -> None:
    flight = Flight()
    seen = []
    for _ in range(5):
        flight.failed(0.1, 10)
        seen.append(entered(flight, 10))
    assert seen == [5, 2, 1, 1, 1]
    for _ in range(9):
        flight.succeeded(0.1, 10)
    assert entered(flight, 10) == 10


def test_those_who_find_no_room_come_back_one_after_the_other(time: VirtualTime) -> None:
    flight = Flight()
    assert flight.enter(1) is None
    turns = [flight.enter(1) for _ in range(5)]
    assert turns == sorted(turns)
    assert all(later - earlier >= TURN_S_MIN * 0.99 for earlier, later in pairwise(turns))


def test_a_line_of_any_length_waits_no_longer_than_the_longest_turn(time: VirtualTime) -> None:
    flight = Flight()
    for _ in range(50):
        flight.failed(10.0, 10)
    assert flight.enter(10) is None
    turns = [flight.enter(10) or 0.0 for _ in range(1_000)]
    assert max(turns) <= TURN_S_MAX
    assert turns[0] > 5


def test_an_endpoint_that_asked_for_time_gets_it(time: VirtualTime) -> None:
    flight = Flight()
    flight.hold(30)
    wait_s = flight.enter(10)
    assert wait_s is not None
    assert 30 <= wait_s < 31
    time.advance(31)
    assert flight.enter(10) is None


@given(st.lists(st.sampled_from(["enter", "leave", "succeed", "fail"]), max_size=60), st.integers(1, 20))
def test_whatever_happens_the_bound_holds_and_one_always_gets_in(steps: list[str], most: int) -> None:
    flight, inside = Flight(), 0
    for step in steps:
        if step == "enter":
            if flight.enter(most) is None:
                inside += 1
                assert inside <= most
            else:
                assert inside > 0
        elif step == "leave" and inside:
            flight.leave()
            inside -= 1
        elif step == "succeed":
            flight.succeeded(0.01, most)
        elif step == "fail":
            flight.failed(0.01, most)


def test_endpoints_are_told_apart() -> None:
    flights = Flights()
    assert flights.of("a") is flights.of("a")
    assert flights.of("a") is not flights.of("b")
