"""What holds for the loop form alone."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from holdfast import Backoff, Breaker, Concurrency, Failure, Link, Retry, stamp_of
from holdfast.lifecycle import BreakerState, Stop
from holdfast.policy import left_s
from holdfast.testing import instant

ONCE_MORE = Retry(attempts=2, backoff=Backoff.constant(1))
SHORT_S = 0.01


def test_attempts_are_numbered_from_one() -> None:
    numbers: list[int] = []
    with instant():
        for attempt in Link("a", retry=ONCE_MORE).attempts():
            with attempt as entered:
                assert entered is attempt
                numbers.append(attempt.number)
                if attempt.number == 1:
                    raise ConnectionRefusedError
    assert numbers == [1, 2]


@pytest.mark.parametrize("leaving", ["break", "continue", "end"])
def test_the_loop_ends_when_an_attempt_worked_however_it_is_left(leaving: str) -> None:
    link = Link("a", concurrency=Concurrency(count=1))
    rounds = 0
    for attempt in link.attempts():
        rounds += 1
        with attempt:
            if leaving == "break":
                break
            if leaving == "continue":
                continue
    assert rounds == 1
    assert link.gate.slots.running == 0


def test_a_body_that_never_enters_its_attempt_does_not_loop_for_ever() -> None:
    rounds = 0
    for _ in Link("a").attempts():
        rounds += 1
    assert rounds == 1


def test_each_attempt_sees_its_time_limit_and_the_rest_of_the_total() -> None:
    seen: list[float] = []
    with instant() as time, pytest.raises(ConnectionRefusedError):  # noqa: PT012 - the loop or block is what is tested
        for attempt in Link(
            "a", retry=Retry(attempts=3, backoff=Backoff.constant(4)), timeout_s=5, total_s=10
        ).attempts():
            with attempt:
                seen.append(left_s())
                raise ConnectionRefusedError
    assert seen == pytest.approx([5, 5, 2])
    assert time.waits_s == [4, 4]


def test_an_attempt_that_is_entered_after_the_total_is_refused() -> None:
    with instant() as time, pytest.raises(Failure) as caught:  # noqa: PT012 - the loop or block is what is tested
        for attempt in Link("a", total_s=10).attempts():
            time.advance(10)
            with attempt:
                raise AssertionError("entered")
    assert caught.value.code == "DEADLINE_EXCEEDED"
    assert stamp_of(caught.value).reason is Stop.DEADLINE_TOO_NEAR


async def test_an_async_attempt_is_cut_off_at_its_time_limit_and_repeated() -> None:
    begun: list[int] = []
    with instant() as time, pytest.raises(TimeoutError) as caught:  # noqa: PT012 - the loop or block is what is tested
        async for attempt in Link("a", timeout_s=SHORT_S, retry=ONCE_MORE).attempts():
            async with attempt:
                begun.append(attempt.number)
                await asyncio.Event().wait()
    assert begun == [1, 2]
    assert time.waits_s == [1]
    assert stamp_of(caught.value).attempts == 2


async def test_an_async_attempt_that_worked_after_one_that_was_cut_off_ends_the_loop() -> None:
    with instant():
        async for attempt in Link("a", timeout_s=SHORT_S, retry=ONCE_MORE).attempts():
            async with attempt:
                if attempt.number == 1:
                    await asyncio.Event().wait()
    assert attempt.number == 2
    assert not asyncio.current_task().cancelling()


async def test_cancelling_the_loop_is_no_timeout() -> None:
    link = Link("a", timeout_s=60, concurrency=Concurrency(count=1), retry=ONCE_MORE)
    begun = asyncio.Event()

    async def loop() -> None:
        async for attempt in link.attempts():
            async with attempt:
                begun.set()
                await asyncio.Event().wait()

    task = asyncio.create_task(loop())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert link.gate.slots.running == 0


def test_the_loop_reports_to_the_breaker() -> None:
    link = Link("a", retry=Retry(attempts=1), breaker=Breaker(calls_min=2, open_s=10))

    def once(*, good: bool) -> None:
        for attempt in link.attempts():
            with attempt:
                if not good:
                    raise ConnectionRefusedError

    with instant() as time:
        once(good=True)
        with pytest.raises(ConnectionRefusedError):
            once(good=False)
        assert link.gate.circuit.state is BreakerState.OPEN
        with pytest.raises(Failure, match="BREAKER_OPEN"):
            once(good=True)
        time.advance(10)
        once(good=True)
    assert link.gate.circuit.state is BreakerState.CLOSED


class Watched(ConnectionRefusedError):
    pass


def _refused_later(link: Link, kept: list[weakref.ref[Watched]], *, interrupt: bool) -> None:
    try:
        for attempt in link.attempts():
            with attempt:
                if attempt.number == 2 and interrupt:
                    raise KeyboardInterrupt
                error = Watched()
                kept.append(weakref.ref(error))
                try:
                    raise error
                finally:
                    del error
    except (Watched, KeyboardInterrupt):
        pass


@pytest.mark.parametrize("interrupt", [False, True])
def test_nothing_keeps_an_exception_alive_when_a_later_attempt_is_refused_or_interrupted(interrupt: bool) -> None:
    breaker = None if interrupt else Breaker(calls_min=1, open_s=30)
    kept: list[weakref.ref[Watched]] = []
    gc.disable()
    try:
        with instant():
            _refused_later(Link("a", retry=ONCE_MORE, breaker=breaker), kept, interrupt=interrupt)
        assert [reference() for reference in kept] == [None]
    finally:
        gc.enable()
