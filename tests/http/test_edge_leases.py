"""Leased tokens: one limit for all processes, seldom asked of the store."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.base import monotonic_s, new_id
from holdfast.http import leases as leases_module
from holdfast.http.leases import BATCH_MAX, LEASE_S, SUBJECTS_MAX, Leases, Taken
from holdfast.policy import RateLimit
from holdfast.policy.rate_limit import Limited
from holdfast.store import Store
from holdfast.testing.instant import VirtualTime, instant

HUNDRED = RateLimit.per_minute(100)


@pytest.fixture
def time() -> Iterator[VirtualTime]:
    with instant() as virtual:
        yield virtual


class Counted(Leases):
    """Leases that count how often the store was asked."""

    asked = 0

    def _phase(self, tx: Any, subject: str, **given: Any) -> Any:
        self.asked += 1
        return super()._phase(tx, subject, **given)


def taken(leases: Leases, count: int, subject: str = "acme") -> int:
    """How many of so many were let through."""
    return sum(isinstance(leases.quick(subject) or leases.take(subject), Taken) for _ in range(count))


def test_two_processes_share_one_limit(virtual_store: Store, time: VirtualTime) -> None:
    here, there = (Leases("api", HUNDRED, virtual_store) for _ in range(2))
    passed = 0
    for _ in range(75):
        passed += taken(here, 1) + taken(there, 1)
    # Ten percent of the burst at most lie leased and unspent in the other process.
    assert 90 <= passed <= 100


def test_an_allowed_request_does_not_cost_a_transaction_each(virtual_store: Store, time: VirtualTime) -> None:
    leases = Counted("api", RateLimit.per_minute(1_000), virtual_store)
    assert taken(leases, 1_000) == 1_000
    assert leases.asked < 30


def test_a_refused_request_does_not_ask_again_before_it_can_succeed(virtual_store: Store, time: VirtualTime) -> None:
    leases = Counted("api", HUNDRED, virtual_store)
    taken(leases, 200)
    asked = leases.asked
    assert taken(leases, 500) == 0
    assert leases.asked == asked
    refusal = leases.take("acme")
    assert isinstance(refusal, Limited)
    time.advance(refusal.retry_after_s)
    assert taken(leases, 1) == 1


def test_a_small_limit_is_exact_over_processes(virtual_store: Store, time: VirtualTime) -> None:
    rate = RateLimit.per_minute(6, burst=5)
    shared = [Leases("small", rate, virtual_store) for _ in range(4)]
    assert sum(taken(one, 3) for one in shared) == 5
    time.advance(10)
    assert sum(taken(one, 3) for one in shared) == 1


def test_subjects_and_rules_do_not_share_tokens(virtual_store: Store, time: VirtualTime) -> None:
    rate = RateLimit.per_minute(3)
    one, other = Leases("one", rate, virtual_store), Leases("other", rate, virtual_store)
    assert [taken(one, 5, "a"), taken(one, 5, "b"), taken(other, 5, "a")] == [3, 3, 3]


def test_a_steady_client_at_the_allowed_rate_is_never_refused(virtual_store: Store, time: VirtualTime) -> None:
    leases = Leases("api", RateLimit(count=10, per_s=10, burst=100), virtual_store)
    assert taken(leases, 90) == 90  # the lease has grown by now, and most of the burst is gone
    for _ in range(60):
        time.advance(1.0)
        assert taken(leases, 1) == 1


def test_what_a_lease_leaves_over_is_given_back(virtual_store: Store, time: VirtualTime) -> None:
    here, there = (Leases("api", RateLimit(count=1, per_s=1_000, burst=100), virtual_store) for _ in range(2))
    spent = taken(here, 40)
    time.advance(LEASE_S + 1)
    spent += taken(here, 1)  # gives back what was left, and takes less
    assert spent == 41
    assert taken(there, 100) >= 50


def test_leased_tokens_expire(virtual_store: Store, time: VirtualTime) -> None:
    leases = Counted("api", HUNDRED, virtual_store)
    taken(leases, 8)
    asked = leases.asked
    time.advance(LEASE_S)
    taken(leases, 1)
    assert leases.asked == asked + 1


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.tuples(st.integers(0, 2), st.integers(1, 30), st.floats(0, 5, allow_nan=False)), min_size=1, max_size=15
    )
)
def test_no_order_of_requests_gets_more_than_the_limit_allows(
    file_store: Store, steps: list[tuple[int, int, float]]
) -> None:
    rate = RateLimit(count=20, per_s=10, burst=40)
    with instant() as time:
        processes = [Leases("api", rate, file_store) for _ in range(3)]
        subject, begun_s, passed = new_id(), monotonic_s(), 0
        for process, count, pause_s in steps:
            passed += taken(processes[process], count, subject)
            elapsed_s = monotonic_s() - begun_s
            assert passed <= rate.burst + elapsed_s * rate.count / rate.per_s + 3 * rate.burst / 10
            time.advance(pause_s)


@pytest.fixture
def file_store(tmp_path: Any) -> Iterator[Store]:
    opened = Store.open(f"sqlite:///{tmp_path / 'limits.db'}", database_clock=False)
    opened.migrate()
    yield opened
    opened.close()


def test_threads_that_come_together_take_no_more_than_there_is(store: Store) -> None:
    leases = Counted("api", RateLimit(count=1, per_s=1_000, burst=100), store)
    gate = threading.Barrier(8)
    passed: list[int] = []

    def many() -> None:
        gate.wait()
        passed.append(taken(leases, 50))

    threads = [threading.Thread(target=many) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(passed) == 100
    assert leases.asked < 60


def test_while_the_store_is_away_each_process_limits_by_itself(virtual_store: Store, time: VirtualTime) -> None:
    leases = Leases("api", RateLimit.per_minute(5), virtual_store)
    virtual_store.close()
    assert taken(leases, 20) == 5


def test_without_a_store_nothing_is_shared(time: VirtualTime) -> None:
    here, there = (Leases("api", RateLimit.per_minute(5), None) for _ in range(2))
    assert [taken(here, 20), taken(there, 20)] == [5, 5]


def test_idle_subjects_are_forgotten(virtual_store: Store, time: VirtualTime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases_module, "PRUNE_EVERY", 10)
    leases = Leases("api", RateLimit.per_minute(60), virtual_store)
    for number in range(19):
        leases.take(f"client {number}")
    time.advance(120)
    leases.take("visitor")
    with virtual_store.database.transaction(write=False) as execute:
        assert execute("SELECT subject FROM holdfast_rate_limit", {}).fetchall() == [("visitor",)]


def test_memory_is_bounded_whoever_comes(time: VirtualTime) -> None:
    leases = Leases("api", RateLimit.per_minute(60), None)
    for number in range(SUBJECTS_MAX + 100):
        leases.quick(str(number))
    assert len(leases._pools) == SUBJECTS_MAX


@pytest.mark.parametrize("subject", ["x" * 10_000, "bad\x00subject", ""])
def test_a_subject_of_any_shape_can_be_counted(virtual_store: Store, time: VirtualTime, subject: str) -> None:
    assert taken(Leases("api", RateLimit.per_minute(3), virtual_store), 9, subject) == 3


def test_a_lease_never_takes_more_than_its_share() -> None:
    assert Leases("api", RateLimit.per_minute(60_000), None)._batch_max == BATCH_MAX
    assert Leases("api", RateLimit.per_minute(19), None)._batch_max == 1
