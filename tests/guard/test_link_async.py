"""What holds for coroutines alone: time limits that cancel, and being cancelled."""

from __future__ import annotations

import asyncio
import functools
import inspect
from typing import Any

import pytest

from holdfast import Backoff, Breaker, Concurrency, Link, Retry, stamp_of, within
from holdfast.lifecycle import BreakerState, Stop
from holdfast.policy import left_s
from holdfast.testing import instant

ONCE_MORE = Retry(attempts=2, backoff=Backoff.constant(1))
SHORT_S = 0.01


class Hanging:
    """A coroutine function that never ends by itself, and remembers how it ended."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.calls = 0
        self.cancelled = 0

    async def __call__(self) -> None:
        self.calls += 1
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


class Client:
    async def __call__(self, number: int) -> int:
        return number

    async def fetch(self, number: int) -> int:
        return number

    @classmethod
    async def make(cls, number: int) -> int:
        return number


@pytest.mark.parametrize(
    "function",
    [Client(), Client().fetch, Client.make, functools.partial(Client().fetch), functools.partial(Client())],
    ids=["object", "method", "classmethod", "partial", "partial of an object"],
)
async def test_everything_that_is_awaited_can_be_guarded(function: Any) -> None:
    guarded = Link("a")(function)
    assert inspect.iscoroutinefunction(guarded)
    assert await guarded(3) == 3
    assert await Link("a").call(function, 4) == 4
    assert await Link("a", total_s=60).keyed("k").call(function, 5) == 5


async def test_an_attempt_is_cancelled_at_its_time_limit_and_repeated() -> None:
    hanging = Hanging()
    link = Link("a", timeout_s=SHORT_S, retry=ONCE_MORE)
    with (
        instant() as time,
        pytest.raises(TimeoutError, match=r"no result within 0\.01 s; the call was cancelled") as caught,
    ):
        await link.call(hanging)
    assert (hanging.calls, hanging.cancelled) == (2, 2)
    assert time.waits_s == [1]
    assert stamp_of(caught.value).code == "NETWORK_TIMEOUT"


async def test_the_total_cancels_what_is_under_way() -> None:
    hanging = Hanging()
    with instant(), pytest.raises(TimeoutError) as caught:
        await Link("a", total_s=SHORT_S, retry=ONCE_MORE).call(hanging)
    assert (hanging.calls, hanging.cancelled) == (1, 1)
    assert stamp_of(caught.value).reason is Stop.DEADLINE_TOO_NEAR


async def test_a_deadline_around_the_link_cancels_what_is_under_way() -> None:
    hanging = Hanging()
    with instant(), within(SHORT_S), pytest.raises(TimeoutError):
        await Link("a", retry=ONCE_MORE).call(hanging)
    assert hanging.cancelled == 1


async def test_a_block_without_a_bound_of_its_own_sets_no_time_limit() -> None:
    with within(None):
        assert await Link("a").call(Client().fetch, 3) == 3


async def test_a_timeout_that_the_function_raises_itself_stays_as_it_is() -> None:
    own = TimeoutError("the socket was silent")

    async def fail() -> None:
        raise own

    with instant(), pytest.raises(TimeoutError) as caught:
        await Link("a", timeout_s=60, retry=ONCE_MORE).call(fail)
    assert caught.value is own
    assert own.args == ("the socket was silent",)
    assert own.__context__ is None


async def test_the_attempt_sees_its_time_limit_as_its_deadline() -> None:
    async def look() -> float:
        return left_s()

    with instant():
        assert await Link("a", timeout_s=5, total_s=60).call(look) == pytest.approx(5)
        assert await Link("a", timeout_s=60, total_s=5).call(look) == pytest.approx(5)
        with within(1):
            assert await Link("a", timeout_s=60).call(look) == pytest.approx(1)


async def test_a_cancelled_call_gives_its_place_back() -> None:
    link = Link("a", concurrency=Concurrency(count=1))
    hanging = Hanging()
    task = asyncio.create_task(link.call(hanging))
    await hanging.begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert link.gate.slots.running == 0
    assert await link.call(Client().fetch, 1) == 1


async def test_a_cancelled_probe_frees_its_place_and_says_nothing_about_the_callee() -> None:
    link = Link("a", breaker=Breaker(calls_min=1, open_s=10), retry=Retry(attempts=1))

    async def refused() -> None:
        raise ConnectionRefusedError

    with instant() as time:
        with pytest.raises(ConnectionRefusedError):
            await link.call(refused)
        time.advance(10)
        hanging = Hanging()
        task = asyncio.create_task(link.call(hanging))
        await hanging.begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert link.gate.circuit.state is BreakerState.HALF_OPEN
        assert await link.call(Client().fetch, 1) == 1
        assert link.gate.circuit.state is BreakerState.CLOSED


@pytest.mark.parametrize("form", ["call", "loop"])
async def test_being_cancelled_while_waiting_for_the_next_attempt_ends_the_call(form: str) -> None:
    link = Link("a", retry=Retry(attempts=2, backoff=Backoff.constant(3_600)), concurrency=Concurrency(count=1))
    failed = asyncio.Event()

    async def refused() -> None:
        failed.set()
        raise ConnectionRefusedError

    async def loop() -> None:
        async for attempt in link.attempts():
            async with attempt:
                await refused()

    task = asyncio.create_task(link.call(refused) if form == "call" else loop())
    await failed.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert link.gate.slots.running == 0


async def test_a_coroutine_that_is_closed_unfinished_gives_its_place_back() -> None:
    link = Link("a", concurrency=Concurrency(count=1))
    coroutine = link.call(Hanging())
    coroutine.send(None)
    assert link.gate.slots.running == 1
    coroutine.close()
    assert link.gate.slots.running == 0


async def test_waiting_for_the_next_attempt_lets_other_tasks_run() -> None:
    order: list[str] = []
    refusals = [ConnectionRefusedError()]

    async def work() -> None:
        order.append("attempt")
        if refusals:
            raise refusals.pop()

    async def other() -> None:
        order.append("other")

    with instant():
        await asyncio.gather(Link("a", retry=ONCE_MORE).call(work), other())
    assert order == ["attempt", "other", "attempt"]


async def test_calls_side_by_side_do_not_share_their_attempts() -> None:
    @Link("a", retry=ONCE_MORE)
    async def work(number: int) -> int:
        await asyncio.sleep(0)
        if number not in seen:
            seen.add(number)
            raise ConnectionRefusedError
        return number

    seen: set[int] = set()
    with instant():
        assert await asyncio.gather(*(work(number) for number in range(50))) == list(range(50))
