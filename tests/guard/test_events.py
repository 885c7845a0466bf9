"""What listeners are told, and that they cannot change what happens."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import Backoff, Breaker, Failure, Link, Retry, stamp_of, within
from holdfast.guard import LinkEvent, LinkVerb
from holdfast.lifecycle import Stop
from holdfast.testing import instant

TWICE = Retry(attempts=3, backoff=Backoff.listed(1, 2))


def scripted(*answers: Any) -> Any:
    left = list(answers)

    def work() -> Any:
        answer = left.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return work


def told(link: Link) -> list[LinkEvent]:
    events: list[LinkEvent] = []
    link.on(events.append)
    return events


def run_sync(link: Link, work: Any) -> Any:
    return link.call(work)


def run_async(link: Link, work: Any) -> Any:
    async def coroutine() -> Any:
        return work()

    return asyncio.run(link.call(coroutine))


def run_loop(link: Link, work: Any) -> Any:
    for attempt in link.attempts():
        with attempt:
            return work()
    return None


@pytest.fixture(params=[run_sync, run_async, run_loop], ids=["sync", "async", "loop"])
def run(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_a_success_at_once_is_one_event(run: Any) -> None:
    link = Link("a → b")
    events = told(link)
    run(link, scripted(1))
    assert events == [LinkEvent(verb=LinkVerb.SUCCEEDED, link="a → b", attempt=1)]


def test_retries_and_the_success_are_told_in_order(run: Any) -> None:
    link = Link("a", retry=TWICE)
    events = told(link)
    with instant():
        run(link, scripted(ConnectionRefusedError(), ConnectionResetError(), 1))
    assert [(event.verb, event.attempt, event.delay_s) for event in events] == [
        (LinkVerb.RETRIED, 1, 1),
        (LinkVerb.RETRIED, 2, 2),
        (LinkVerb.SUCCEEDED, 3, None),
    ]
    assert [event.failure and event.failure.code for event in events] == [
        "CONNECTION_REFUSED",
        "CONNECTION_RESET",
        None,
    ]


def test_giving_up_tells_the_reason(run: Any) -> None:
    link = Link("a", retry=TWICE)
    events = told(link)
    with instant(), pytest.raises(ConnectionRefusedError):
        run(link, scripted(*[ConnectionRefusedError() for _ in range(3)]))
    assert [event.verb for event in events] == [LinkVerb.RETRIED, LinkVerb.RETRIED, LinkVerb.GAVE_UP]
    assert (events[-1].attempt, events[-1].reason) == (3, Stop.ATTEMPTS_USED)
    assert events[-1].failure is not None
    assert events[-1].failure.code == "CONNECTION_REFUSED"


def test_a_refusal_before_the_first_attempt_is_a_rejection(run: Any) -> None:
    link = Link("a")
    events = told(link)
    with instant(), within(0), pytest.raises(Failure) as caught:
        run(link, scripted(1))
    [event] = events
    assert (event.verb, event.attempt, event.reason) == (LinkVerb.REJECTED, 0, Stop.DEADLINE_TOO_NEAR)
    assert event.failure is caught.value


def test_a_refusal_of_a_later_attempt_is_a_giving_up(run: Any) -> None:
    link = Link("a", retry=TWICE, breaker=Breaker(calls_min=1, open_s=30))
    events = told(link)
    error = ConnectionRefusedError()
    with instant(), pytest.raises(ConnectionRefusedError) as caught:
        run(link, scripted(error, 1))
    assert caught.value is error
    assert [(event.verb, event.reason) for event in events] == [
        (LinkVerb.RETRIED, None),
        (LinkVerb.GAVE_UP, Stop.BREAKER_OPEN),
    ]
    assert stamp_of(error).attempts == 1


def test_a_listener_that_raises_changes_nothing_and_is_reported(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[Any] = []
    monkeypatch.setattr("sys.unraisablehook", reported.append)
    link = Link("a", retry=TWICE)

    @link.on
    def broken(event: LinkEvent) -> None:
        raise ZeroDivisionError(event.verb)

    events = told(link)
    with instant() as time:
        assert run(link, scripted(ConnectionRefusedError(), "fine")) == "fine"
        error = ConnectionRefusedError()
        with pytest.raises(ConnectionRefusedError) as caught:
            run(link, scripted(error, error, error))
    assert caught.value is error
    assert time.waits_s == [1, 1, 2]
    assert len(events) == 5  # those after the broken one are told all the same
    # What others left behind may be reported in between.
    assert [found.exc_type for found in reported if found.object is broken] == [ZeroDivisionError] * 5


def test_a_listener_that_comes_later_hears_functions_that_were_guarded_before() -> None:
    link = Link("a")
    guarded = link(scripted(1, 2))
    guarded()
    events = told(link)
    guarded()
    assert [event.verb for event in events] == [LinkVerb.SUCCEEDED]
