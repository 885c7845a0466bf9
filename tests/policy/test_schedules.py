"""Every schedule of the seed documents, each named after its claim."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.policy import Backoff, Decorrelated, Equal, Extra, Full, Spread

DICE = st.floats(min_value=0, max_value=1, exclude_max=True)


def delays(backoff: Backoff, count: int, dice: float = 0.0) -> list[float]:
    return [backoff.delay_s(attempt, lambda: dice) for attempt in range(1, count + 1)]


def test_000_the_provisioner_waits_1_2_4_8_16_seconds() -> None:
    assert delays(Backoff.exponential(1), 5) == [1, 2, 4, 8, 16]
    assert delays(Backoff.listed(1, 2, 4, 8, 16), 5) == [1, 2, 4, 8, 16]


CONVERSION = Backoff.listed(5, 15, 45, jitter=Spread(0.2))


@pytest.mark.parametrize(("dice", "expected"), [(0.0, [4, 12, 36]), (0.5, [5, 15, 45]), (1.0, [6, 18, 54])])
def test_002_the_worker_waits_5_15_45_seconds_give_or_take_a_fifth(dice: float, expected: list[float]) -> None:
    assert delays(CONVERSION, 3, dice) == pytest.approx(expected)


def test_002_the_same_schedule_is_exponential_with_factor_three() -> None:
    tripling = Backoff.exponential(5, factor=3, jitter=Spread(0.2))
    assert [tripling.range_s(attempt) for attempt in (1, 2, 3)] == [
        pytest.approx(CONVERSION.range_s(attempt)) for attempt in (1, 2, 3)
    ]


WEBHOOK = Backoff.exponential(1, cap_s=60)


def test_003_a_webhook_is_sent_at_once_and_then_at_1_3_7_15_seconds() -> None:
    assert [start for start, _ in WEBHOOK.schedule_s(5)] == [0, 1, 3, 7, 15]
    assert list(accumulate(delays(WEBHOOK, 4), initial=0)) == [0, 1, 3, 7, 15]
    assert all(earliest == latest for earliest, latest in WEBHOOK.schedule_s(5))


@pytest.mark.parametrize("retry", range(12))
def test_003_the_delay_is_the_lesser_of_2_to_the_n_and_60_seconds(retry: int) -> None:
    assert WEBHOOK.delay_s(retry + 1, lambda: 0.0) == min(1 * 2**retry, 60)


RECORDS = Backoff.exponential(1, cap_s=300, jitter=Extra(0.1))


@given(st.integers(min_value=1, max_value=40), DICE)
def test_004_the_delay_doubles_with_up_to_a_tenth_more_and_is_capped_at_300_seconds_after_that(
    attempt: int, dice: float
) -> None:
    exponential = 1 * 2 ** (attempt - 1)
    assert RECORDS.delay_s(attempt, lambda: dice) == pytest.approx(min(exponential + dice * 0.1 * exponential, 300))


def test_004_a_network_timeout_waits_100_ms_times_one_and_a_half_up_to_5_seconds() -> None:
    policy = Backoff.exponential(0.1, factor=1.5, cap_s=5)
    assert delays(policy, 4) == pytest.approx([0.1, 0.15, 0.225, 0.3375])
    assert delays(policy, 12)[10:] == [5, 5]


def test_004_a_database_connection_waits_1_second_times_two_up_to_60() -> None:
    assert delays(Backoff.exponential(1, factor=2, cap_s=60), 8) == [1, 2, 4, 8, 16, 32, 60, 60]


def test_004_a_rate_limit_waits_a_minute_up_to_fifteen() -> None:
    assert delays(Backoff.exponential(60, cap_s=900), 6) == [60, 120, 240, 480, 900, 900]


@given(st.integers(min_value=1, max_value=50), DICE)
def test_001_a_step_claim_waits_anything_between_100_and_500_ms(attempt: int, dice: float) -> None:
    claim = Backoff.uniform(low_s=0.1, high_s=0.5)
    assert claim.range_s(attempt) == (0.1, 0.5)
    assert claim.delay_s(attempt, lambda: dice) == pytest.approx(0.1 + 0.4 * dice)
    assert 0.1 <= claim.delay_s(attempt, lambda: dice) <= 0.5


EXTERNAL = Backoff.exponential(1, factor=2, cap_s=32, jitter=Full())


def test_001_an_external_call_waits_1_second_times_two_up_to_32_with_jitter() -> None:
    assert [EXTERNAL.raw_s(attempt) for attempt in range(1, 8)] == [1, 2, 4, 8, 16, 32, 32]
    assert [EXTERNAL.range_s(attempt) for attempt in (1, 6, 7)] == [(0, 1), (0, 32), (0, 32)]
    assert EXTERNAL.schedule_s(5) == ((0, 0), (0, 1), (0, 3), (0, 7), (0, 15))


def test_an_explicit_list_is_followed_to_the_letter() -> None:
    assert delays(Backoff.listed(0, 60, 300, 900), 6) == [0, 60, 300, 900, 900, 900]


def test_full_jitter_is_anything_up_to_the_delay() -> None:
    full = Backoff.exponential(1, cap_s=10, jitter=Full())
    assert [full.range_s(attempt) for attempt in (1, 2, 3, 9)] == [(0, 1), (0, 2), (0, 4), (0, 10)]


def test_equal_jitter_is_half_the_delay_and_up_to_another_half() -> None:
    equal = Backoff.exponential(1, cap_s=10, jitter=Equal())
    assert [equal.range_s(attempt) for attempt in (1, 2, 3, 9)] == [(0.5, 1), (1, 2), (2, 4), (5, 10)]


def run(backoff: Backoff, throws: list[float]) -> Iterator[float]:
    previous_s = 0.0
    for attempt, dealt in enumerate(throws, 1):
        previous_s = backoff.delay_s(attempt, lambda dealt=dealt: dealt, previous_s=previous_s)  # type: ignore[misc]
        yield previous_s


def test_decorrelated_jitter_grows_from_the_delay_before() -> None:
    decorrelated = Backoff(base_s=1, cap_s=20, jitter=Decorrelated())
    assert list(run(decorrelated, [1.0, 1.0, 1.0, 1.0])) == [3, 9, 20, 20]
    assert list(run(decorrelated, [0.0, 0.0, 0.0])) == [1, 1, 1]
    assert list(run(decorrelated, [0.5, 0.5, 0.0])) == [2, 3.5, 1]
    assert decorrelated.schedule_s(4) == ((0, 0), (1, 3), (2, 12), (3, 32))


@given(st.lists(DICE, min_size=1, max_size=30))
def test_decorrelated_delays_stay_between_base_and_cap(throws: list[float]) -> None:
    assert all(1 <= delay_s <= 20 for delay_s in run(Backoff(base_s=1, cap_s=20, jitter=Decorrelated()), throws))
