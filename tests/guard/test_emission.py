"""What links and their breakers tell on the bus, in every form of the call."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from holdfast import CORE, Backoff, Breaker, Budget, Catalog, Failure, Link, Retry, within
from holdfast.base import bus
from holdfast.catalog import current_context, enriched
from holdfast.guard import links
from holdfast.testing import VirtualTime, instant

TWICE = Retry(attempts=3, backoff=Backoff.listed(1, 2))
ONCE = Retry(attempts=1)


@pytest.fixture
def time() -> Iterator[VirtualTime]:
    with instant() as passing:
        yield passing


@contextmanager
def listening(hear: Any) -> Iterator[None]:
    """Hand on what this thread tells: a thread that an earlier test left behind may tell of its own end."""
    mine = threading.get_ident()
    end = bus.listen(lambda verb, facts: hear(verb, facts) if threading.get_ident() == mine else None)
    try:
        yield
    finally:
        end()


@pytest.fixture
def told() -> Iterator[list[tuple[str, Any]]]:
    heard: list[tuple[str, Any]] = []
    with listening(lambda verb, facts: heard.append((verb, facts))):
        yield heard


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


def scripted(time: VirtualTime, *answers: Any, takes_s: float = 0.25) -> Any:
    left = list(answers)

    def work() -> Any:
        time.advance(takes_s)
        answer = left.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return work


def known(told: list[tuple[str, Any]], verb: str) -> list[dict[str, Any]]:
    return [dict(facts) for found, facts in told if found == verb]


def close(seconds: float) -> Any:
    return pytest.approx(seconds, abs=1e-6)


def test_a_success_is_told_with_the_time_it_took(run: Any, time: VirtualTime, told: list[Any]) -> None:
    run(Link("a → b"), scripted(time, 1))
    assert told == [("link.succeeded", {"link": "a → b", "attempt": 1, "duration_s": close(0.25)})]


# With a budget nothing is worked out ahead, with a listener a whole failure is made: the facts are the same.
@pytest.mark.parametrize(
    "options", [{}, {"budget": Budget()}, {"breaker": Breaker()}], ids=["bare", "budget", "breaker"]
)
@pytest.mark.parametrize("heard", [False, True], ids=["", "listener"])
def test_each_attempt_is_told_with_its_own_duration(
    run: Any, time: VirtualTime, told: list[Any], options: dict[str, Any], heard: bool
) -> None:
    link = Link("a", retry=TWICE, **options)
    if heard:
        link.on(lambda event: None)
    run(link, scripted(time, ConnectionRefusedError(), ConnectionResetError(), 1))
    took = {"link": "a", "duration_s": close(0.25)}
    assert told == [
        ("link.retried", {**took, "attempt": 1, **CORE["CONNECTION_REFUSED"].facts, "delay_s": 1}),
        ("link.retried", {**took, "attempt": 2, **CORE["CONNECTION_RESET"].facts, "delay_s": 2}),
        ("link.succeeded", {**took, "attempt": 3}),
    ]


def test_giving_up_tells_the_code_and_the_reason(run: Any, time: VirtualTime, told: list[Any]) -> None:
    with pytest.raises(ConnectionRefusedError):
        run(Link("a", retry=ONCE), scripted(time, ConnectionRefusedError()))
    assert told == [
        (
            "link.gave_up",
            {
                "link": "a",
                "attempt": 1,
                **CORE["CONNECTION_REFUSED"].facts,
                "reason": "attempts_used",
                "attempted": True,
                "duration_s": close(0.25),
            },
        )
    ]
    assert type(told[0][1]["reason"]) is str


def test_giving_up_because_a_further_attempt_was_refused_counts_no_attempt(
    run: Any, time: VirtualTime, told: list[Any]
) -> None:
    link = Link("a", retry=TWICE, breaker=Breaker(calls_min=1, open_s=30))
    with pytest.raises(ConnectionRefusedError):
        run(link, scripted(time, ConnectionRefusedError()))
    assert [verb for verb, _ in told] == ["breaker.opened", "link.retried", "link.gave_up"]
    assert told[-1][1] == {
        "link": "a",
        "attempt": 1,
        **CORE["CONNECTION_REFUSED"].facts,
        "reason": "breaker_open",
        "attempted": False,
    }


def test_a_rejection_by_an_open_breaker_is_told(run: Any, time: VirtualTime, told: list[Any]) -> None:
    link = Link("a", retry=ONCE, breaker=Breaker(calls_min=1))
    with pytest.raises(ConnectionRefusedError):
        run(link, scripted(time, ConnectionRefusedError()))
    with pytest.raises(Failure, match="BREAKER_OPEN"):
        run(link, scripted(time, 1))
    assert told[-1] == (
        "link.rejected",
        {"link": "a", "attempt": 0, **CORE["BREAKER_OPEN"].facts, "reason": "breaker_open"},
    )


def test_a_rejection_by_a_deadline_is_told(run: Any, time: VirtualTime, told: list[Any]) -> None:
    with within(0), pytest.raises(Failure):
        run(Link("a"), scripted(time, 1))
    assert known(told, "link.rejected") == [
        {"link": "a", "attempt": 0, **CORE["DEADLINE_EXCEEDED"].facts, "reason": "deadline_too_near"}
    ]


def test_a_breaker_tells_each_move_once_and_why(run: Any, time: VirtualTime, told: list[Any]) -> None:
    link = Link("a → b", retry=ONCE, breaker=Breaker(calls_min=1, open_s=30))
    for answer in (ConnectionRefusedError(), ConnectionRefusedError(), 1):
        try:
            run(link, scripted(time, answer))
        except ConnectionRefusedError:
            time.advance(30)
    assert [(verb, facts) for verb, facts in told if verb.startswith("breaker.")] == [
        ("breaker.opened", {"name": "a → b", "reason": "failing"}),
        ("breaker.half_opened", {"name": "a → b", "reason": "pause_over"}),
        ("breaker.opened", {"name": "a → b", "reason": "probe_failed"}),
        ("breaker.half_opened", {"name": "a → b", "reason": "pause_over"}),
        ("breaker.closed", {"name": "a → b", "reason": "recovered"}),
    ]


def test_a_listener_may_call_the_link_whose_breaker_it_hears_of(time: VirtualTime) -> None:
    link = Link("a", retry=ONCE, breaker=Breaker(calls_min=1))
    codes: list[str] = []

    def hear(verb: str, facts: Any) -> None:
        if verb == "breaker.opened":
            try:
                link.call(lambda: None)
            except Failure as refusal:
                codes.append(refusal.code)

    with listening(hear), pytest.raises(ConnectionRefusedError):
        link.call(scripted(time, ConnectionRefusedError()))
    assert codes == ["BREAKER_OPEN"]


def test_everything_is_told_in_the_context_of_the_caller(run: Any, time: VirtualTime) -> None:
    seen: list[tuple[str, str]] = []
    link = Link("a", retry=TWICE, breaker=Breaker(calls_min=1, open_s=0.5))
    with (
        listening(lambda verb, facts: seen.append((verb, current_context().request_id))),
        enriched(request_id="req_1"),
    ):
        run(link, scripted(time, ConnectionRefusedError(), 1))
    assert seen == [
        ("breaker.opened", "req_1"),
        ("link.retried", "req_1"),
        ("breaker.half_opened", "req_1"),
        ("breaker.closed", "req_1"),
        ("link.succeeded", "req_1"),
    ]


def test_functions_that_were_guarded_before_anyone_listened_are_heard(time: VirtualTime) -> None:
    guarded = Link("a")(scripted(time, 1, 2))
    guarded()
    told: list[str] = []
    with listening(lambda verb, facts: told.append(verb)):
        guarded()
    assert told == ["link.succeeded"]


def test_a_listener_that_comes_during_a_call_hears_the_next_attempt(run: Any, time: VirtualTime) -> None:
    told: list[str] = []
    blocks: list[Any] = []

    def work() -> str:
        if blocks:
            return "fine"
        blocks.append(listening(lambda verb, facts: told.append(f"{verb} {'duration_s' in facts}")))
        blocks[0].__enter__()
        raise ConnectionRefusedError

    try:
        assert run(Link("a", retry=TWICE), work) == "fine"
    finally:
        for block in blocks:
            block.__exit__(None, None, None)
    assert told == ["link.retried False", "link.succeeded True"]


def test_a_listener_that_raises_changes_nothing(run: Any, time: VirtualTime, monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[Any] = []
    monkeypatch.setattr("sys.unraisablehook", reported.append)

    def broken(verb: str, facts: Any) -> None:
        raise ZeroDivisionError(verb)

    with listening(broken):
        assert run(Link("a", retry=TWICE), scripted(time, ConnectionRefusedError(), "fine")) == "fine"
    # What others left behind may be reported in between.
    ours = [str(found.exc_value) for found in reported if found.exc_type is ZeroDivisionError]
    assert ours == ["link.retried", "link.succeeded"]


def test_listening_does_not_move_the_moment_from_which_a_rule_counts_its_time(
    time: VirtualTime, told: list[Any]
) -> None:
    # The fault's own rule allows 2 s from its first occurrence on; the attempt before took 5.
    slow = Catalog("shop").fault(
        "SLOW", status=503, says="Slow.", retry=Retry(attempts=2, backoff=Backoff.constant(1), within_s=2)
    )
    work = scripted(time, slow(), "fine", takes_s=5)
    assert Link("a").call(work) == "fine"
    assert [verb for verb, _ in told] == ["link.retried", "link.succeeded"]


def test_live_links_are_known_by_name_until_nobody_holds_them() -> None:
    first, second = Link("emission: b"), Link("emission: a")
    found = [link for link in links() if link.name.startswith("emission: ")]
    assert found == [second, first]
    del found, first
    gc.collect()
    assert [link.name for link in links() if link.name.startswith("emission: ")] == ["emission: a"]
