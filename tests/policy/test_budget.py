"""What a retry budget promises: retries are a share of the traffic, paid evenly, and never more."""

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
    Budget, share=st.floats(0.0, 1.0), reserve_per_s=st.floats(0.0, 5.0), burst=st.sampled_from([0, 1, 2.5, 20])
)
# Milliseconds since the step before, then what happens: a call, a retry, or a glance at what is left.
steps = st.lists(
    st.tuples(st.integers(0, 40) | st.integers(0, 15_000), st.sampled_from("ccccrrrl"), st.integers(1, 30)),
    max_size=120,
)


def granted(purse: Purse, count: int, now_s: float) -> int:
    return sum(purse.withdraw(now_s) for _ in range(count))


def test_it_begins_with_what_can_be_saved_up() -> None:
    purse = Purse(Budget(share=0.5, reserve_per_s=0.0, burst=3))
    assert granted(purse, 100, 50.0) == 3


def test_a_share_of_the_calls_is_granted() -> None:
    purse = Purse(Budget(share=0.1, reserve_per_s=0.0, burst=100))
    assert granted(purse, 200, 0.0) == 100
    purse.calls += 250
    assert granted(purse, 200, 0.0) == 25


def test_time_pays_the_reserve() -> None:
    purse = Purse(Budget(share=0.0, reserve_per_s=0.5, burst=5))
    assert granted(purse, 9, 10.0) == 5
    assert granted(purse, 9, 14.0) == 2
    assert granted(purse, 9, 1_000.0) == 5


def test_no_traffic_of_the_past_makes_a_burst() -> None:
    purse = Purse(Budget(share=0.1, reserve_per_s=1.0, burst=20))
    purse.calls += 1_000_000
    assert granted(purse, 1_000, 120.0) == 20


@pytest.mark.parametrize("rate", [5, 50, 200, 1_000])
def test_in_an_outage_it_pays_evenly(rate: int) -> None:
    """After what was saved up, no second grants more than its own calls and its own reserve pay."""
    budget = Budget()
    purse = Purse(budget)
    each_second = []
    for second in range(60):
        paid = 0
        for number in range(rate):
            purse.calls += 1
            paid += purse.withdraw(second + number / rate)
        each_second.append(paid)
    even = budget.share * rate + budget.reserve_per_s
    assert each_second[0] <= budget.burst + even + 1
    begun = next(second for second, paid in enumerate(each_second) if paid <= even + 1)
    assert begun * rate <= 2 * budget.burst + rate
    assert all(abs(paid - min(even, rate)) <= 1 for paid in each_second[begun + 1 :])


def test_a_burst_below_one_grants_nothing() -> None:
    purse = Purse(Budget(burst=0))
    purse.calls += 1_000
    assert granted(purse, 10, 60.0) == 0


def test_a_clock_that_goes_back_pays_nothing() -> None:
    purse = Purse(Budget(share=0.0, reserve_per_s=1.0, burst=5))
    assert granted(purse, 9, 100.0) == 5
    assert granted(purse, 9, 50.0) == 0
    assert granted(purse, 9, 52.0) == 2


def test_looking_takes_nothing_out() -> None:
    purse = Purse(Budget(burst=7))
    assert [purse.left(1.0), purse.left(1.0)] == [7, 7]
    purse.deposit()
    assert purse.calls == 1


@given(budgets, steps)
def test_in_every_stretch_of_time_the_retries_are_paid_for(
    budget: Budget, happened: list[tuple[int, str, int]]
) -> None:
    purse = Purse(budget)
    history: list[tuple[float, int, int]] = [(0.0, 0, 0)]
    now_ms = calls = retries = 0
    purse.left(0.0)
    for waited_ms, step, count in happened:
        now_ms += waited_ms
        now_s = now_ms / 1_000
        if step == "c":
            purse.calls += count
            calls += count
        elif step == "r":
            retries += granted(purse, count, now_s)
        else:
            assert 0 <= purse.left(now_s) <= budget.burst
        history.append((now_s, calls, retries))
        for then_s, calls_then, retries_then in history:
            paid = budget.share * (calls - calls_then) + budget.reserve_per_s * (now_s - then_s) + budget.burst
            assert retries - retries_then <= paid + 1e-6


def test_counts_lost_and_found_in_a_race_never_pay_twice() -> None:
    purse = Purse(Budget(share=1.0, reserve_per_s=0.0, burst=50))
    granted(purse, 50, 0.0)
    purse.calls = 10
    assert granted(purse, 99, 0.0) == 10
    purse.calls = 4  # another thread wrote an older number back
    assert granted(purse, 99, 0.0) == 0
    purse.calls = 12
    assert granted(purse, 99, 0.0) == 2


def test_threads_that_share_a_purse_are_granted_no_more_than_it_holds() -> None:
    purse = Purse(Budget(share=0.0, reserve_per_s=0.0, burst=1_000))
    counts: list[int] = []
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=lambda: counts.append(granted(purse, 500, 1.0))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    finally:
        sys.setswitchinterval(before)
    assert sum(counts) == 1_000


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"share": -0.1}, "share"),
        ({"share": 1.1}, "share"),
        ({"share": nan}, "share"),
        ({"reserve_per_s": -1}, "reserve_per_s"),
        ({"reserve_per_s": inf}, "reserve_per_s"),
        ({"burst": -1}, "burst"),
        ({"burst": inf}, "burst"),
        ({"burst": nan}, "burst"),
    ],
)
def test_a_budget_that_cannot_be_meant_names_the_field(values: dict[str, float], field: str) -> None:
    with pytest.raises(PolicyInvalid, match=f"^{field}: "):
        Budget(**values)
