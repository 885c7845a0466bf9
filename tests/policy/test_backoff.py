"""Always true of a delay: not negative, not above the cap, and the same dice give the same delay."""

from __future__ import annotations

from itertools import pairwise
from math import inf, isfinite, nan, nextafter
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.policy import (
    Backoff,
    Between,
    Decorrelated,
    Equal,
    Extra,
    Full,
    Jitter,
    PolicyInvalid,
    Spread,
)

SECONDS = st.floats(min_value=0, max_value=1e6)
SHARES = st.floats(min_value=0, max_value=1)
DICE = st.floats(min_value=0, max_value=1, exclude_max=True)
ATTEMPTS = st.integers(min_value=1, max_value=60) | st.sampled_from([1_023, 1_075, 10**6, 10**18, 10**400])
SHAPING: st.SearchStrategy[Jitter | None] = (
    st.none() | st.builds(Spread, SHARES) | st.builds(Extra, SHARES) | st.sampled_from([Full(), Equal()])
)
RANGES = st.tuples(SECONDS, SECONDS).map(lambda pair: Between(*sorted(pair)))
BACKOFFS = st.builds(
    Backoff,
    base_s=SECONDS,
    factor=st.floats(min_value=1, max_value=100) | st.integers(min_value=1, max_value=100),
    cap_s=SECONDS,
    jitter=SHAPING | st.just(Decorrelated()) | RANGES,
) | st.builds(lambda delays_s, jitter: Backoff.listed(*delays_s, jitter=jitter), st.lists(SECONDS, min_size=1), SHAPING)


@given(BACKOFFS, ATTEMPTS, DICE, SECONDS)
@example(Backoff(base_s=1e-3, cap_s=1e6, factor=1), 10**400, 0.0, 0.0)
@example(Backoff(base_s=300.0, cap_s=300.0, jitter=Extra(0.1)), 1, nextafter(1, 0), 0.0)
def test_a_delay_is_within_its_range_and_the_range_within_nothing_and_the_cap(
    backoff: Backoff, attempt: int, dice: float, previous_s: float
) -> None:
    delay_s = backoff.delay_s(attempt, lambda: dice, previous_s=previous_s)
    low_s, high_s = backoff.range_s(attempt, previous_s=previous_s)
    assert 0 <= low_s <= delay_s <= high_s <= backoff.cap_s
    assert isfinite(delay_s)


@given(BACKOFFS, ATTEMPTS, DICE, SECONDS)
def test_the_same_dice_give_the_same_delay(backoff: Backoff, attempt: int, dice: float, previous_s: float) -> None:
    one = backoff.delay_s(attempt, lambda: dice, previous_s=previous_s)
    assert one == backoff.delay_s(attempt, lambda: dice, previous_s=previous_s)


@given(BACKOFFS.filter(lambda backoff: not backoff.delays_s), st.lists(ATTEMPTS, min_size=2).map(sorted))
def test_before_chance_has_its_say_delays_never_shrink(backoff: Backoff, attempts: list[int]) -> None:
    assert all(backoff.raw_s(before) <= backoff.raw_s(after) for before, after in pairwise(attempts))


@given(BACKOFFS, DICE)
def test_without_jitter_the_dice_stay_in_the_cup(backoff: Backoff, dice: float) -> None:
    thrown: list[float] = []

    def throw() -> float:
        thrown.append(dice)
        return dice

    backoff.delay_s(1, throw)
    assert len(thrown) == (0 if backoff.jitter is None else 1)


@given(BACKOFFS, st.integers(min_value=1, max_value=20), st.lists(DICE, min_size=20, max_size=20))
def test_every_run_starts_its_attempts_within_the_schedule(
    backoff: Backoff, attempts: int, throws: list[float]
) -> None:
    schedule = backoff.schedule_s(attempts)
    start_s = previous_s = 0.0
    assert len(schedule) == attempts
    for number, (earliest_s, latest_s) in enumerate(schedule, 1):
        assert earliest_s <= start_s * (1 + 1e-9) + 1e-9
        assert start_s <= latest_s * (1 + 1e-9) + 1e-9
        dealt = throws[number - 1]
        previous_s = backoff.delay_s(number, lambda dealt=dealt: dealt, previous_s=previous_s)  # type: ignore[misc]
        start_s += previous_s


@pytest.mark.parametrize("attempt", [1_024, 10**6, 10**18, 10**400])
@pytest.mark.parametrize("factor", [2, 2.0, 1.5])
def test_huge_attempt_numbers_reach_the_cap_and_overflow_nothing(attempt: int, factor: float) -> None:
    assert Backoff(base_s=1, factor=factor, cap_s=60).raw_s(attempt) == 60


@pytest.mark.parametrize("attempt", [1, 2, 1_024, 10**6, 10**400])
def test_a_base_of_nothing_stays_nothing_and_a_factor_of_one_stays_the_base(attempt: int) -> None:
    assert Backoff(base_s=0, cap_s=60).raw_s(attempt) == 0
    assert Backoff(base_s=5, factor=1, cap_s=60).raw_s(attempt) == 5


@pytest.mark.parametrize(
    ("jitter", "low_s", "high_s"),
    [
        (None, 8.0, 8.0),
        (Spread(0.25), 6.0, 10.0),
        (Extra(0.25), 8.0, 10.0),
        (Full(), 0.0, 8.0),
        (Equal(), 4.0, 8.0),
        (Between(0.5, 1.5), 0.5, 1.5),
    ],
)
def test_each_jitter_spreads_from_its_least_to_its_greatest(jitter: Jitter | None, low_s: float, high_s: float) -> None:
    backoff = Backoff.exponential(2, cap_s=100, jitter=jitter)
    assert backoff.range_s(3) == (low_s, high_s)
    assert backoff.delay_s(3, lambda: 0.0) == low_s
    assert backoff.delay_s(3, lambda: 0.5) == (low_s + high_s) / 2
    assert backoff.delay_s(3, lambda: 1.0) == high_s


def test_the_cap_is_applied_after_the_jitter() -> None:
    # Chance is not squeezed under the cap: 290 s and half of its 10 % is more than 300 s.
    backoff = Backoff(base_s=290, cap_s=300, jitter=Extra(0.1))
    assert backoff.delay_s(1, lambda: 0.2) == pytest.approx(295.8)
    assert backoff.delay_s(1, lambda: 0.5) == 300


def test_a_list_serves_its_last_delay_for_ever() -> None:
    backoff = Backoff.listed(3, 1, 2)
    assert [backoff.raw_s(attempt) for attempt in (1, 2, 3, 4, 10**9)] == [3, 1, 2, 2, 2]


def test_a_constant_delay_is_the_same_every_time() -> None:
    assert {Backoff.constant(2.5).raw_s(attempt) for attempt in range(1, 50)} == {2.5}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"base_s": -1}, "base_s: -1 is not a number of seconds"),
        ({"base_s": nan}, "base_s: nan is not"),
        ({"base_s": inf}, "base_s: inf is not"),
        ({"cap_s": -0.1}, "cap_s: -0.1 is not"),
        ({"cap_s": inf}, "cap_s: inf is not"),
        ({"cap_s": nan}, "cap_s: nan is not"),
        ({"delays_s": (1, -1)}, "delays_s: -1 is not"),
        ({"delays_s": (nan,)}, "delays_s: nan is not"),
        ({"factor": 0.5}, "factor: 0.5 would make delays shrink"),
        ({"factor": nan}, "factor: nan would"),
        ({"factor": inf}, "factor: inf would"),
        ({"factor": -2}, "factor: -2 would"),
        ({"jitter": Spread(-0.1)}, "a share of -0.1 is not between 0 and 1"),
        ({"jitter": Spread(1.1)}, "a share of 1.1 is not"),
        ({"jitter": Extra(nan)}, "a share of nan is not"),
        ({"jitter": Between(-1, 1)}, "-1 to 1 s is not a range"),
        ({"jitter": Between(2, 1)}, "2 to 1 s is not a range"),
        ({"jitter": Between(1, inf)}, "1 to inf s is not a range"),
        ({"jitter": Between(nan, 1)}, "nan to 1 s is not a range"),
        ({"delays_s": (1,), "jitter": Decorrelated()}, "Decorrelated makes its own delays"),
        ({"delays_s": (1,), "jitter": Between(1, 2)}, "Between makes its own delays"),
    ],
)
def test_values_that_cannot_be_meant_are_refused_by_name(values: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyInvalid, match=message):
        Backoff(**values)


def test_wrong_values_in_a_list_are_called_so() -> None:
    with pytest.raises(PolicyInvalid, match="delays_s: a list of delays needs at least one"):
        Backoff.listed()
    with pytest.raises(PolicyInvalid, match="delays_s: -5 is not"):
        Backoff.listed(-5)
    with pytest.raises(PolicyInvalid, match="delays_s: nan is not"):
        Backoff.listed(nan, 1)
    with pytest.raises(PolicyInvalid, match="is not a range"):
        Backoff.uniform(low_s=2, high_s=1)


def test_backoffs_are_values() -> None:
    assert Backoff.listed(1, 2, jitter=Full()) == Backoff.listed(1, 2, jitter=Full())
    assert len({Backoff.exponential(1), Backoff.exponential(1), Backoff.exponential(2)}) == 2
