"""What a rate limit promises: never more than agreed, and a refusal that says when to come back."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from itertools import accumulate
from math import ceil, inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.base import REAL, replaced
from holdfast.catalog.core import RATE_LIMIT_EXCEEDED
from holdfast.policy.backoff import PolicyInvalid
from holdfast.policy.rate_limit import Allowed, Bucket, Concurrency, Limited, RateLimit, Slots

MINUTE_US = 60_000_000

limits_drawn = st.builds(
    RateLimit,
    count=st.integers(1, 50),
    per_s=st.floats(0.001, 100.0),
    burst=st.none() | st.integers(1, 20),
)
gaps_us = st.lists(st.integers(0, 3_000_000) | st.just(0), min_size=1, max_size=60)


def admitted(bucket: Bucket, times_us: list[int]) -> list[int]:
    return [now_us for now_us in times_us if bucket.take(now_us) is None]


def test_the_burst_passes_at_once_and_the_next_one_is_refused():
    limit = RateLimit.per_minute(3)
    bucket = Bucket(limit)
    assert [bucket.take(0) for _ in range(3)] == [None, None, None]
    assert bucket.take(0) == Limited(retry_after_us=20_000_000, tat_us=MINUTE_US)


def test_the_burst_is_the_count_unless_said_otherwise():
    assert RateLimit(count=7, per_s=60.0) == RateLimit.per_minute(7) == RateLimit(count=7, per_s=60.0, burst=7)
    assert RateLimit.per_minute(60, burst=2).burst == 2


def test_a_steady_flow_at_the_rate_is_never_refused():
    bucket = Bucket(RateLimit(count=10, per_s=1.0, burst=1))
    assert [bucket.take(moment * 100_000) for moment in range(50)] == [None] * 50


def test_a_rate_that_is_no_whole_number_of_microseconds_is_rounded_to_the_slower_side():
    bucket = Bucket(RateLimit(count=7, per_s=0.00001, burst=1))
    assert len(admitted(bucket, list(range(101)))) <= 1 + 70


def test_a_thousand_a_minute_are_told_as_the_wire_format_wants_them():
    limit = RateLimit.per_minute(1000)
    full = limit.take(0, 0, cost=1000)
    assert isinstance(full, Allowed)
    refusal = limit.take(full.tat_us, 0, cost=1000)
    assert isinstance(refusal, Limited)
    assert limit.details(refusal) == {"retry_after_seconds": 60, "limit": 1000, "window_seconds": 60}
    failure = RATE_LIMIT_EXCEEDED(retry_after_s=refusal.retry_after_s, **limit.details(refusal))
    assert failure.retry_after_s == 60.0


def test_a_wait_of_a_fraction_is_rounded_up_to_a_whole_second_in_the_header():
    refusal = Limited(retry_after_us=60_000)
    assert refusal.retry_after_s == 0.06
    assert refusal.retry_after_seconds == 1


def test_the_figures_for_headers_follow_what_was_taken():
    bucket = Bucket(RateLimit.per_minute(6))
    assert (bucket.remaining(0), bucket.reset_s(0)) == (6, 0.0)
    bucket.take(0)
    bucket.take(0)
    assert (bucket.remaining(0), bucket.reset_s(0)) == (4, 20.0)
    assert (bucket.remaining(10_000_000), bucket.reset_s(10_000_000)) == (5, 10.0)


def test_a_greater_cost_uses_more_of_the_burst():
    bucket = Bucket(RateLimit.per_minute(10))
    assert bucket.take(0, cost=8) is None
    assert bucket.take(0, cost=3) == Limited(6_000_000, 48_000_000)
    assert bucket.take(0, cost=2) is None


@pytest.mark.parametrize("cost", [0, -1, 11])
def test_a_cost_that_could_never_pass_is_a_mistake(cost: int):
    with pytest.raises(PolicyInvalid, match="cost"):
        Bucket(RateLimit.per_minute(10)).take(0, cost=cost)


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"count": 0, "per_s": 1.0}, "count"),
        ({"count": -1, "per_s": 1.0}, "count"),
        ({"count": True, "per_s": 1.0}, "count"),
        ({"count": 1.5, "per_s": 1.0}, "count"),
        ({"count": 2_000_000, "per_s": 1.0}, "count"),
        ({"count": 10**400, "per_s": 1.0}, "count"),
        ({"count": 1, "per_s": 0.0}, "per_s"),
        ({"count": 1, "per_s": -1.0}, "per_s"),
        ({"count": 1, "per_s": nan}, "per_s"),
        ({"count": 1, "per_s": inf}, "per_s"),
        ({"count": 1, "per_s": 1e308}, "per_s"),
        ({"count": 1, "per_s": 86_400.0, "burst": 10**9}, "per_s"),
        ({"count": 1, "per_s": 1.0, "burst": 0}, "burst"),
    ],
)
def test_a_rate_limit_that_cannot_be_meant_names_the_field(values: dict[str, float], name: str):
    with pytest.raises(PolicyInvalid, match=f"^{name}:"):
        RateLimit(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"count": 0}, "count"),
        ({"count": 1, "retry_after_s": 0.0}, "retry_after_s"),
        ({"count": 1, "retry_after_s": inf}, "retry_after_s"),
    ],
)
def test_a_concurrency_that_cannot_be_meant_names_the_field(values: dict[str, float], name: str):
    with pytest.raises(PolicyInvalid, match=f"^{name}:"):
        Concurrency(**values)  # type: ignore[arg-type]


@given(limits_drawn, gaps_us)
def test_no_stretch_of_time_lets_more_through_than_burst_and_rate(limit: RateLimit, gaps: list[int]):
    passed = admitted(Bucket(limit), list(accumulate(gaps)))
    for first, start_us in enumerate(passed):
        for count, end_us in enumerate(passed[first:], 1):
            assert (count - limit.burst) * limit.per_s * 1_000_000 <= (end_us - start_us) * limit.count + 1e-3


@given(limits_drawn, st.lists(st.tuples(st.integers(0, 500_000), st.integers(0, 5_000_000)), min_size=1, max_size=60))
def test_a_clock_that_goes_back_never_opens_the_gate(limit: RateLimit, steps: list[tuple[int, int]]):
    bucket, real_us, behind_us, passed = Bucket(limit), 0, 0, []
    for elapsed_us, back_us in steps:
        real_us, behind_us = real_us + elapsed_us, behind_us + back_us
        if bucket.take(10**9 + real_us - behind_us) is None:
            passed.append(real_us)
    for first, start_us in enumerate(passed):
        for count, end_us in enumerate(passed[first:], 1):
            assert (count - limit.burst) * limit.per_s * 1_000_000 <= (end_us - start_us) * limit.count + 1e-3


@given(limits_drawn, gaps_us, st.data())
def test_waiting_exactly_as_long_as_asked_always_passes(limit: RateLimit, gaps: list[int], data: st.DataObject):
    bucket = Bucket(limit)
    for now_us in accumulate(gaps):
        cost = data.draw(st.integers(1, limit.burst))
        refusal = bucket.take(now_us, cost)
        if refusal is not None:
            assert refusal.retry_after_s > 0
            assert isinstance(limit.take(refusal.tat_us, now_us + ceil(refusal.retry_after_s * 1e6), cost), Allowed)


@given(limits_drawn, st.integers(0, 10**9), st.integers(0, 10**12), st.data())
def test_a_refusal_holds_for_every_moment_before_the_one_it_names(
    limit: RateLimit, now_us: int, ahead_us: int, data: st.DataObject
):
    cost = data.draw(st.integers(1, limit.burst))
    refusal = limit.take(now_us + ahead_us, now_us, cost)
    if isinstance(refusal, Limited):
        last_us = now_us + refusal.retry_after_us - 1
        sooner_us = data.draw(st.just(last_us) | st.integers(now_us - 10**7, last_us))
        assert isinstance(limit.take(refusal.tat_us, sooner_us, cost), Limited)


@given(limits_drawn, gaps_us)
def test_what_remains_is_exactly_what_still_passes(limit: RateLimit, gaps: list[int]):
    bucket = Bucket(limit)
    for now_us in accumulate(gaps):
        bucket.take(now_us)
    now_us = sum(gaps)
    promised = bucket.remaining(now_us)
    assert 0 <= promised <= limit.burst
    assert len(admitted(bucket, [now_us] * (limit.burst + 1))) == promised


def test_after_the_clock_went_back_a_day_the_wait_is_one_interval_and_not_a_day():
    bucket = Bucket(RateLimit.per_minute(60))
    day_us = 86_400_000_000
    assert bucket.take(day_us) is None
    refusal = bucket.take(0)
    assert refusal is not None
    assert refusal.retry_after_s == 1.0
    assert bucket.take(1_000_000) is None


def test_a_bucket_without_a_given_time_reads_the_monotonic_clock_of_its_world():
    clock = [100.0]
    with replaced(replace(REAL, monotonic_s=lambda: clock[0])):
        bucket = Bucket(RateLimit(count=1, per_s=2.0))
        assert bucket.take() is None
        assert bucket.remaining() == 0
        assert bucket.reset_s() == 2.0
        assert bucket.take() is not None
        clock[0] += 2.0
        assert bucket.take() is None


def run_together(count: int, work: object) -> None:
    barrier = threading.Barrier(count)

    def one() -> None:
        barrier.wait()
        work()  # type: ignore[operator]

    threads = [threading.Thread(target=one) for _ in range(count)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)


def test_threads_that_share_a_bucket_get_exactly_the_burst():
    bucket, passed = Bucket(RateLimit.per_minute(100)), []

    def work() -> None:
        passed.extend(1 for _ in range(100) if bucket.take(0) is None)

    run_together(8, work)
    assert len(passed) == 100


def test_a_place_that_is_left_can_be_taken_again():
    slots = Slots(Concurrency(count=2, retry_after_s=0.5))
    assert (slots.enter(), slots.enter()) == (None, None)
    refusal = slots.enter()
    assert refusal is not None
    assert refusal.retry_after_s == 0.5
    assert slots.concurrency.details(refusal) == {"retry_after_seconds": 1, "limit": 2}
    slots.leave()
    assert slots.enter() is None
    assert slots.running == 2


def test_leaving_more_often_than_entering_is_a_mistake():
    slots = Slots(Concurrency(count=1))
    slots.enter()
    slots.leave()
    with pytest.raises(RuntimeError, match="more often"):
        slots.leave()
    assert slots.running == 0


def test_never_more_threads_are_inside_than_the_concurrency_allows():
    slots, most, inside = Slots(Concurrency(count=3)), [], []

    def work() -> None:
        for _ in range(200):
            if slots.enter() is None:
                inside.append(1)
                most.append(len(inside))
                inside.pop()
                slots.leave()

    run_together(8, work)
    assert 1 <= max(most) <= 3
    assert slots.running == 0
