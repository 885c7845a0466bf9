"""What rate limits, concurrency limits and budgets do for the calls of a link."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import Backoff, Budget, Concurrency, Failure, Link, RateLimit, Retry, stamp_of
from holdfast.lifecycle import Stop
from holdfast.testing import instant

ONCE_MORE = Retry(attempts=2, backoff=Backoff.constant(1))


def refused() -> None:
    raise ConnectionRefusedError


def test_a_call_above_the_rate_is_refused_with_the_time_to_wait_and_the_facts() -> None:
    link = Link("a", rate=RateLimit(count=2, per_s=60))
    with instant():
        assert [link.call(lambda: 1), link.call(lambda: 1)] == [1, 1]
        with pytest.raises(Failure) as caught:
            link.call(lambda: 1)
    failure = caught.value
    assert failure.code == "RATE_LIMIT_EXCEEDED"
    assert failure.retry_after_s == pytest.approx(30)
    assert failure.details == {"link": "a", "retry_after_seconds": 30, "limit": 2, "window_seconds": 60}
    assert stamp_of(failure).reason is Stop.LIMIT_REACHED


def test_after_the_time_to_wait_the_call_passes() -> None:
    link = Link("a", rate=RateLimit(count=1, per_s=60))
    with instant() as time:
        link.call(lambda: 1)
        with pytest.raises(Failure) as caught:
            link.call(lambda: 1)
        time.advance(caught.value.retry_after_s)
        assert link.call(lambda: 1) == 1


def test_an_outer_link_waits_as_long_as_the_limit_says() -> None:
    inner = Link("inner", rate=RateLimit(count=1, per_s=60))
    outer = Link("outer", retry=ONCE_MORE)
    with instant() as time:
        inner.call(lambda: 1)
        assert outer.call(inner(lambda: 2)) == 2
    assert time.waits_s == [pytest.approx(60)]


def test_every_attempt_counts_against_the_rate_and_a_refused_one_ends_the_call() -> None:
    link = Link("a", retry=Retry(attempts=5, backoff=Backoff.constant(1)), rate=RateLimit(count=2, per_s=3_600))
    with instant() as time, pytest.raises(ConnectionRefusedError) as caught:
        link.call(refused)
    assert time.waits_s == [1, 1]
    assert stamp_of(caught.value).reason is Stop.LIMIT_REACHED
    assert stamp_of(caught.value).attempts == 2


def test_a_call_without_a_place_is_refused_with_the_time_to_wait_and_the_facts() -> None:
    link = Link("a", concurrency=Concurrency(count=1, retry_after_s=2.5))

    def nested() -> None:
        with pytest.raises(Failure) as caught:
            link.call(lambda: 1)
        assert caught.value.code == "CONCURRENCY_EXCEEDED"
        assert caught.value.retry_after_s == pytest.approx(2.5)
        assert caught.value.details == {"link": "a", "retry_after_seconds": 3, "limit": 1}
        assert stamp_of(caught.value).reason is Stop.LIMIT_REACHED

    link.call(nested)
    assert link.gate.slots.running == 0


async def test_no_more_run_at_once_than_the_limit_allows() -> None:
    link = Link("a", concurrency=Concurrency(count=3))
    running = most = 0

    async def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    outcomes = await asyncio.gather(*(link.call(work) for _ in range(20)), return_exceptions=True)
    assert most == 3
    assert sum(outcome is None for outcome in outcomes) == 3
    assert link.gate.slots.running == 0


def test_the_place_is_free_while_waiting_for_the_next_attempt() -> None:
    link = Link("a", retry=ONCE_MORE, concurrency=Concurrency(count=1))
    free: list[int] = []
    link.on(lambda event: free.append(link.gate.slots.running))
    with instant(), pytest.raises(ConnectionRefusedError):
        link.call(refused)
    assert free == [0, 0]


@pytest.mark.parametrize(
    "error", [ValueError(), KeyboardInterrupt(), SystemExit()], ids=lambda error: type(error).__name__
)
@pytest.mark.parametrize("options", [{}, {"timeout_s": 30}, {"rate": RateLimit(count=9, per_s=1)}], ids=str)
def test_however_a_call_ends_its_place_is_free_again(error: BaseException, options: dict[str, Any]) -> None:
    link = Link("a", concurrency=Concurrency(count=1), writes=True, **options)

    def fail() -> None:
        raise error

    for _ in range(3):
        with pytest.raises(type(error)):
            link.call(fail)
    assert link.gate.slots.running == 0


def test_a_call_refused_by_the_rate_holds_no_place() -> None:
    link = Link("a", concurrency=Concurrency(count=1), rate=RateLimit(count=1, per_s=60))
    with instant():
        link.call(lambda: 1)
        for _ in range(3):
            with pytest.raises(Failure, match="RATE_LIMIT_EXCEEDED"):
                link.call(lambda: 1)
    assert link.gate.slots.running == 0


def test_calls_pay_for_retries() -> None:
    link = Link("a", retry=ONCE_MORE, budget=Budget(share=0.1, reserve_per_s=0, burst=3))
    with instant() as time:
        for _ in range(9):
            with pytest.raises(ConnectionRefusedError):
                link.call(refused)
        assert len(time.waits_s) == 3  # what was saved up
        time.waits_s.clear()
        for _ in range(30):
            link.call(lambda: 1)
        for _ in range(5):
            with pytest.raises(ConnectionRefusedError):
                link.call(refused)
    assert len(time.waits_s) == 3  # a tenth of the calls


@pytest.mark.parametrize(("options", "attempts"), [({}, 100 + 20 + 9), ({"budget": None}, 200)])
def test_a_link_has_a_budget_unless_it_says_that_it_wants_none(options: dict[str, Any], attempts: int) -> None:
    made = 0

    def failing() -> None:
        nonlocal made
        made += 1
        raise ConnectionRefusedError

    link = Link("a", retry=Retry(attempts=2, backoff=Backoff.constant(0)), **options)
    with instant():
        for _ in range(100):
            with pytest.raises(ConnectionRefusedError):
                link.call(failing)
    assert made == attempts


def test_retries_do_not_pay_for_retries() -> None:
    link = Link("a", retry=Retry(attempts=50, backoff=Backoff.constant(0)), budget=Budget(share=1, reserve_per_s=0))
    calls = 0

    def work() -> None:
        nonlocal calls
        calls += 1
        raise ConnectionRefusedError

    with instant():
        with pytest.raises(ConnectionRefusedError):
            link.call(work)  # calls pay from the first look at the budget on
        calls = 0
        with pytest.raises(ConnectionRefusedError) as caught:
            link.call(work)
    assert calls == 2
    assert stamp_of(caught.value).reason is Stop.BUDGET_SPENT
