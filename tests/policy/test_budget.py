"""What a retry budget promises: retries are a share of the traffic, and never more."""

from __future__ import annotations

import sys
import threading
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.policy.backoff import PolicyInvalid
from holdfast.policy.budget import Budget, Purse

budgets = st.builds(
    Budget,
    share=st.floats(0.0, 1.0),
    reserve_per_s=st.floats(0.0, 5.0),
    window_s=st.sampled_from([0.1, 1.0, 10.0]),
)
# Milliseconds since the step before, then what happens: a call, a retry, a look, or a glance at what is left.
steps = st.lists(
    st.tuples(st.integers(0, 40) | st.integers(0, 15_000), st.sampled_from("ccccrrrol"), st.integers(1, 30)),
    max_size=120,
)


def granted(purse: Purse, count: int, now_s: float) -> int:
    return sum(purse.withdraw(now_s) for _ in range(count))


def test_without_traffic_only_the_reserve_is_granted():
    assert granted(Purse(Budget(share=0.5, reserve_per_s=0.3, window_s=10.0)), 100, 50.0) == 3


def test_a_share_of_the_calls_is_granted_on_top_of_the_reserve():
    purse = Purse(Budget(share=0.1, reserve_per_s=0.2, window_s=10.0))
    purse.observe(100.0)
    for _ in range(250):
        purse.deposit()
    assert purse.left(101.0) == pytest.approx(27.0)
    assert granted(purse, 100, 101.0) == 27
    assert purse.left(101.0) == pytest.approx(0.0)


def test_a_call_is_counted_by_adding_to_a_plain_number():
    purse = Purse(Budget(share=1.0, reserve_per_s=0.0))
    purse.observe(0.0)
    purse.calls += 5
    assert granted(purse, 10, 0.0) == 5


def test_calls_older_than_the_window_pay_for_nothing():
    purse = Purse(Budget(share=1.0, reserve_per_s=0.0, window_s=10.0))
    purse.observe(0.0)
    purse.calls += 50
    purse.observe(1.0)
    assert purse.left(8.9) == 50
    assert purse.left(10.1) == 0.0


def test_calls_first_seen_after_a_whole_window_pay_for_nothing_because_their_time_is_unknown():
    purse = Purse(Budget(share=1.0, reserve_per_s=0.1, window_s=10.0))
    purse.observe(0.0)
    purse.calls += 1_000
    assert granted(purse, 10, 60.0) == 1


def test_looking_now_and_then_keeps_the_credit_of_a_long_quiet_time():
    purse = Purse(Budget(share=0.1, reserve_per_s=0.0, window_s=10.0))
    for second in range(60):
        purse.observe(float(second))
        purse.calls += 100
    assert purse.left(59.0) >= 80


def test_a_granted_retry_counts_until_the_window_has_passed_and_then_no_more():
    purse = Purse(Budget(share=0.0, reserve_per_s=0.1, window_s=10.0))
    assert purse.withdraw(5.9)
    assert not purse.withdraw(15.8)
    assert purse.withdraw(17.0)


def test_a_budget_of_nothing_grants_nothing():
    purse = Purse(Budget(share=0.0, reserve_per_s=0.0))
    purse.observe(0.0)
    purse.calls += 10_000
    assert not purse.withdraw(0.1)
    assert purse.left(0.1) == 0.0


def test_threads_that_arrive_out_of_order_draw_from_the_same_window():
    purse = Purse(Budget(share=0.0, reserve_per_s=0.2, window_s=10.0))
    assert purse.withdraw(20.0)
    assert purse.withdraw(17.0)
    assert not purse.withdraw(19.0)


def test_another_clock_starts_with_a_fresh_window_and_does_not_freeze_the_purse():
    purse = Purse(Budget(share=0.0, reserve_per_s=0.1, window_s=10.0))
    assert purse.withdraw(1_000_000.0)
    assert purse.withdraw(3.0)
    assert not purse.withdraw(4.0)
    assert purse.withdraw(30.0)


@given(budgets, steps)
def test_at_every_grant_the_retries_of_the_last_window_are_paid_for(budget: Budget, steps: list[tuple[int, str, int]]):
    purse, now_ms, window_ms = Purse(budget), 0, round(budget.window_s * 1_000)
    calls: list[int] = []
    retries: list[int] = []
    for elapsed_ms, what, count in steps:
        now_ms += elapsed_ms
        if what == "c":
            purse.calls += count
            calls.extend([now_ms] * count)
        elif what == "o":
            purse.observe(now_ms / 1_000)
        elif what == "l":
            assert purse.left(now_ms / 1_000) >= 0.0
        for _ in range(count if what == "r" else 0):
            if purse.withdraw(now_ms / 1_000):
                retries.append(now_ms)
                recent_calls = sum(at > now_ms - window_ms for at in calls)
                recent = sum(at > now_ms - window_ms for at in retries)
                assert recent <= budget.share * recent_calls + budget.reserve + 1e-6


@given(budgets, st.lists(st.floats(0.0, 1.0), max_size=60))
def test_counts_lost_and_found_in_a_race_never_pay_twice(budget: Budget, shares: list[float]):
    purse, retries = Purse(budget), 0
    purse.observe(0.0)
    for true_calls, share in enumerate(shares, 1):
        # Paused threads write back old numbers in any order: the count is anything up to the true one.
        purse.calls = round(true_calls * share)
        retries += granted(purse, 40, 0.0)
    assert retries <= budget.share * len(shares) + budget.reserve + 1e-6


def test_threads_that_share_a_purse_are_granted_no_more_than_it_holds():
    purse, passed = Purse(Budget(share=0.1, reserve_per_s=1.0, window_s=10.0)), []
    purse.observe(0.0)

    def work() -> None:
        for _ in range(500):
            purse.calls += 1
            if purse.withdraw(0.5):
                passed.append(1)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=work) for _ in range(4)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert 10 <= len(passed) <= 0.1 * 2_000 + 10


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"share": -0.1}, "share"),
        ({"share": 1.1}, "share"),
        ({"share": nan}, "share"),
        ({"reserve_per_s": -1.0}, "reserve_per_s"),
        ({"reserve_per_s": inf}, "reserve_per_s"),
        ({"window_s": 0.0}, "window_s"),
        ({"window_s": inf}, "window_s"),
        ({"window_s": nan}, "window_s"),
    ],
)
def test_a_budget_that_cannot_be_meant_names_the_field(values: dict[str, float], name: str):
    with pytest.raises(PolicyInvalid, match=f"^{name}:"):
        Budget(**values)
