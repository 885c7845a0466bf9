"""What a link promises about repeating a call, in every form in which it can be used."""

from __future__ import annotations

import asyncio
import gc
import traceback
import weakref
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest

from holdfast import Backoff, Budget, Catalog, Failure, Link, Retry, stamp_of, within
from holdfast.base import replaced, world
from holdfast.catalog.classify import Classifier
from holdfast.catalog.core import NOT_FOUND, RATE_LIMIT_EXCEEDED, SERVICE_UNAVAILABLE
from holdfast.guard import Keyed
from holdfast.lifecycle import Stop
from holdfast.policy import Decorrelated
from holdfast.testing import instant

from .timed_threads import wait_until_idle

errors = Catalog("retry tests")
SLOW = errors.fault("SLOW", status=503, says="Slow.", retry=Retry(attempts=2, backoff=Backoff.constant(7)))
PICKY = errors.fault(
    "PICKY", status=503, says="Picky.", retry=Retry(attempts=9, when=lambda failure: bool(failure.details.get("again")))
)
HURRIED = errors.fault(
    "HURRIED", status=503, says="Hurried.", retry=Retry(attempts=9, backoff=Backoff.constant(4), within_s=10)
)


class Script:
    """A callee that answers as written: an exception is raised, anything else is returned."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.calls = 0

    def __call__(self, *_: Any) -> Any:
        answer = self.answers[min(self.calls, len(self.answers) - 1)]
        self.calls += 1
        if isinstance(answer, BaseException):
            raise answer
        return answer


Guard = Link | Keyed
Form = Callable[[Guard, Callable[[], Any]], Any]


def sync_loop(link: Guard, function: Callable[[], Any]) -> Any:
    for attempt in link.attempts():
        with attempt:
            return function()
    raise AssertionError("the loop ended without a result")


async def _async_loop(link: Guard, function: Callable[[], Any]) -> Any:
    async for attempt in link.attempts():
        async with attempt:
            return function()
    raise AssertionError("the loop ended without a result")


async def _async_for_with(link: Guard, function: Callable[[], Any]) -> Any:
    async for attempt in link.attempts():
        with attempt:
            return function()
    raise AssertionError("the loop ended without a result")


def coloured(function: Callable[[], Any]) -> Callable[[], Any]:
    async def run() -> Any:
        return function()

    return run


ASYNC_FORMS: dict[str, Callable[[Guard, Callable[[], Any]], Awaitable[Any]]] = {
    "async call": lambda link, function: link.call(coloured(function)),
    "async decorator": lambda link, function: link(coloured(function))(),
    "async loop": _async_loop,
    "async for, plain with": _async_for_with,
}
SYNC_FORMS: dict[str, Form] = {
    "sync call": lambda link, function: link.call(function),
    "sync decorator": lambda link, function: link(function)(),
    "sync loop": sync_loop,
}


async def awaited(form: str, link: Guard, function: Callable[[], Any]) -> Any:
    return await ASYNC_FORMS[form](link, function)


def _run(form: str) -> Form:
    return lambda link, function: asyncio.run(awaited(form, link, function))


FORMS: dict[str, Form] = {**SYNC_FORMS, **{name: _run(name) for name in ASYNC_FORMS}}


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> Form:
    return FORMS[request.param]


def seconds(*delays_s: float, **options: Any) -> Retry:
    return Retry(attempts=len(delays_s) + 1, backoff=Backoff.listed(*delays_s), **options)


@contextmanager
def without_collector() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def test_a_call_that_works_is_made_once_and_waits_for_nothing(form: Form) -> None:
    script = Script("fine")
    with instant() as time:
        assert form(Link("a"), script) == "fine"
    assert (script.calls, time.waits_s) == (1, [])


def test_a_read_is_repeated_until_it_works(form: Form) -> None:
    script = Script(ConnectionRefusedError(), ConnectionResetError(), "fine")
    with instant() as time:
        assert form(Link("a", retry=seconds(1, 2, 4)), script) == "fine"
    assert (script.calls, time.waits_s) == (3, [1, 2])


def test_what_the_caller_gets_is_the_last_exception_itself(form: Form) -> None:
    first, last = ConnectionRefusedError("first"), ConnectionRefusedError("last")
    with instant(), pytest.raises(ConnectionRefusedError) as caught:
        form(Link("a", retry=seconds(1)), Script(first, last))
    assert caught.value is last
    assert str(last) == "last"
    assert last.args == ("last",)
    assert last.__cause__ is None
    assert last.__context__ is None
    assert first.__context__ is None


def test_the_traceback_still_leads_to_where_it_was_raised(form: Form) -> None:
    def deep() -> None:
        raise ConnectionRefusedError

    with instant(), pytest.raises(ConnectionRefusedError) as caught:
        form(Link("a", retry=seconds(1)), deep)
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "deep"


def test_a_context_that_the_exception_brought_along_stays(form: Form) -> None:
    def chained() -> None:
        try:
            raise KeyError("inner")
        except KeyError:
            raise ConnectionRefusedError from None

    with instant(), pytest.raises(ConnectionRefusedError) as caught:
        form(Link("a", retry=seconds(1)), chained)
    assert isinstance(caught.value.__context__, KeyError)
    assert caught.value.__suppress_context__


def test_a_write_is_not_repeated_without_a_key(form: Form) -> None:
    script = Script(ConnectionRefusedError())
    with instant() as time, pytest.raises(ConnectionRefusedError) as caught:
        form(Link("a", retry=seconds(1), writes=True), script)
    assert (script.calls, time.waits_s) == (1, [])
    assert stamp_of(caught.value).reason is Stop.WRITE_WITHOUT_KEY


def test_a_write_under_a_key_is_repeated(form: Form) -> None:
    script = Script(ConnectionRefusedError(), "fine")
    with instant():
        assert form(Link("a", retry=seconds(1), writes=True).keyed("order:7"), script) == "fine"
    assert script.calls == 2


class Strange(Exception):
    """No classifier knows it."""


def test_an_unknown_exception_of_a_read_is_repeated_but_only_as_often_as_unknown_ones_may_be(form: Form) -> None:
    script = Script(Strange())
    with instant(), pytest.raises(Strange) as caught:
        form(Link("a", retry=seconds(1, 1, 1, 1, attempts_unknown=2)), script)
    assert script.calls == 2
    assert stamp_of(caught.value).reason is Stop.UNKNOWN_FAILURE


def test_an_unknown_exception_of_a_write_is_never_repeated_even_under_a_key(form: Form) -> None:
    script = Script(Strange())
    with instant(), pytest.raises(Strange) as caught:
        form(Link("a", retry=seconds(1, 1), writes=True).keyed("order:7"), script)
    assert script.calls == 1
    assert stamp_of(caught.value).reason is Stop.UNKNOWN_FAILURE


def test_a_retry_after_replaces_the_backoff(form: Form) -> None:
    with instant() as time:
        form(Link("a", retry=seconds(1, 1)), Script(RATE_LIMIT_EXCEEDED(retry_after_s=42), "fine"))
    assert time.waits_s == [42]


def test_a_retry_after_is_ignored_by_a_rule_that_says_so(form: Form) -> None:
    with instant() as time:
        link = Link("a", retry=seconds(1, 1, honour_retry_after=False))
        form(link, Script(RATE_LIMIT_EXCEEDED(retry_after_s=42), "fine"))
    assert time.waits_s == [1]


def test_attempts_are_counted_per_code(form: Form) -> None:
    script = Script(SERVICE_UNAVAILABLE(), ConnectionRefusedError(), SERVICE_UNAVAILABLE())
    with instant(), pytest.raises(Failure) as caught:
        form(Link("a", retry=seconds(1, 1, 1, 1, attempts_per_code={"SERVICE_UNAVAILABLE": 2})), script)
    assert script.calls == 3
    assert stamp_of(caught.value).reason is Stop.CODE_ATTEMPTS_USED


def test_the_rule_of_a_fault_sets_its_own_backoff_and_attempts(form: Form) -> None:
    script = Script(SLOW())
    with instant() as time, pytest.raises(Failure) as caught:
        form(Link("a", retry=seconds(1, 1, 1, 1)), script)
    assert time.waits_s == [7]
    assert stamp_of(caught.value).reason is Stop.CODE_ATTEMPTS_USED


def test_the_time_of_a_faults_rule_counts_although_the_link_has_none(form: Form) -> None:
    script = Script(HURRIED())
    with instant() as time, pytest.raises(Failure) as caught:
        form(Link("a"), script)
    assert time.waits_s == [4, 4]
    assert stamp_of(caught.value).reason is Stop.TIME_USED


def test_decorrelated_jitter_grows_from_the_delay_before(form: Form) -> None:
    rule = Retry(attempts=4, backoff=Backoff.exponential(1, cap_s=100, jitter=Decorrelated()))
    with instant() as time, replaced(replace(world(), dice=lambda: 0.5)), pytest.raises(ConnectionRefusedError):
        form(Link("a", retry=rule), Script(ConnectionRefusedError()))
    assert time.waits_s == [2.0, 3.5, 5.75]  # halfway between 1 and three times the one before


def test_a_spent_budget_stops_retries_and_leaves_the_first_attempts_alone(form: Form) -> None:
    link = Link("a", retry=seconds(1, 1, 1), budget=Budget(share=0, reserve_per_s=0, burst=1))
    with instant():
        script = Script(ConnectionRefusedError())
        with pytest.raises(ConnectionRefusedError) as caught:
            form(link, script)
        assert script.calls == 2  # one retry was free
        assert stamp_of(caught.value).reason is Stop.BUDGET_SPENT
        assert form(link, Script("fine")) == "fine"


REASONS: dict[Stop, tuple[dict[str, Any], Any]] = {
    Stop.NOT_RETRYABLE: ({}, NOT_FOUND()),
    Stop.CONDITION_UNMET: ({}, PICKY(again=False)),
    Stop.ATTEMPTS_USED: ({"retry": seconds(1)}, ConnectionRefusedError()),
    Stop.CODE_ATTEMPTS_USED: ({"retry": seconds(1, 1, 1)}, SLOW()),
    Stop.TIME_USED: ({"retry": seconds(9, within_s=5)}, ConnectionRefusedError()),
    Stop.DEADLINE_TOO_NEAR: ({"retry": seconds(9), "total_s": 5}, ConnectionRefusedError()),
    Stop.WAIT_TOO_LONG: ({"retry": seconds(9)}, SERVICE_UNAVAILABLE(retry_after_s=61)),
    Stop.WRITE_WITHOUT_KEY: ({"writes": True}, ConnectionRefusedError()),
    Stop.UNKNOWN_FAILURE: ({"retry": seconds(1, 1, 1)}, Strange()),
    Stop.BUDGET_SPENT: ({"budget": Budget(burst=0)}, ConnectionRefusedError()),
}


@pytest.mark.parametrize("reason", REASONS)
def test_every_reason_to_stop_is_on_the_stamp(form: Form, reason: Stop) -> None:
    options, error = REASONS[reason]
    with instant(), pytest.raises(type(error)) as caught:
        form(Link("a", **options), Script(error))
    assert caught.value is error
    assert stamp_of(error).reason is reason
    assert stamp_of(error).link == "a"


def test_every_reason_to_stop_is_tested_here_or_with_its_policy() -> None:
    elsewhere = {Stop.BREAKER_OPEN, Stop.LIMIT_REACHED, Stop.RETRIED_INSIDE}
    assert set(REASONS) | elsewhere == set(Stop)


def test_a_condition_that_raises_does_not_hide_the_failure(form: Form, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []
    monkeypatch.setattr("sys.unraisablehook", lambda unraisable: shown.append(unraisable.exc_type))
    error = ConnectionRefusedError()
    with pytest.raises(ConnectionRefusedError) as caught:
        form(Link("a", retry=Retry(when=lambda failure: 1 / 0 > 0)), Script(error))
    assert caught.value is error
    assert stamp_of(error).reason is Stop.CONDITION_UNMET
    assert shown.count(ZeroDivisionError) == 1  # what others left behind may be shown in between


def test_the_classifier_of_the_link_decides_what_an_exception_is(form: Form) -> None:
    with instant(), pytest.raises(Strange) as caught:
        form(Link("a", classifier=Classifier({Strange: NOT_FOUND})), Script(Strange()))
    assert stamp_of(caught.value).code == "NOT_FOUND"


def test_a_deadline_around_the_call_is_respected(form: Form) -> None:
    script = Script(ConnectionRefusedError())
    with instant() as time, within(10), pytest.raises(ConnectionRefusedError) as caught:
        form(Link("a", retry=seconds(4, 4, 4)), script)
    assert time.waits_s == [4, 4]  # the third would end after twelve seconds
    assert stamp_of(caught.value).reason is Stop.DEADLINE_TOO_NEAR


def test_the_total_bounds_all_attempts_and_waits_together(form: Form) -> None:
    with instant() as time, pytest.raises(ConnectionRefusedError) as caught:
        form(Link("a", retry=seconds(4, 4, 4), total_s=10), Script(ConnectionRefusedError()))
    assert time.waits_s == [4, 4]
    assert stamp_of(caught.value).reason is Stop.DEADLINE_TOO_NEAR


def test_with_no_time_left_nothing_is_called(form: Form) -> None:
    script = Script("fine")
    with instant(), within(0), pytest.raises(Failure) as caught:
        form(Link("a"), script)
    assert script.calls == 0
    assert caught.value.code == "DEADLINE_EXCEEDED"
    assert stamp_of(caught.value).reason is Stop.DEADLINE_TOO_NEAR


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_what_is_no_exception_passes_at_once(form: Form, kind: type[BaseException]) -> None:
    script = Script(kind())
    with instant() as time, pytest.raises(kind):
        form(Link("a", retry=seconds(1)), script)
    assert (script.calls, time.waits_s) == (1, [])


class Watched(ConnectionRefusedError):
    """A built-in exception takes no weak reference; a class of one's own does."""


def failing(kept: list[weakref.ref[Watched]]) -> Callable[[], None]:
    def fail() -> None:
        error = Watched()
        kept.append(weakref.ref(error))
        try:
            raise error
        finally:
            del error

    return fail


def _caught(form: str, link: Guard, kept: list[weakref.ref[Watched]]) -> None:
    with suppress(Watched):
        SYNC_FORMS[form](link, failing(kept))


async def _caught_async(form: str, link: Guard, kept: list[weakref.ref[Watched]]) -> None:
    with suppress(Watched):
        await ASYNC_FORMS[form](link, failing(kept))


LINKS: dict[str, Callable[[], Link]] = {
    "plain": lambda: Link("a", retry=seconds(1, 1)),
    "not retried": lambda: Link("a", writes=True),
    "total": lambda: Link("a", retry=seconds(1, 1), total_s=60),
    "timeout": lambda: Link("a", retry=seconds(1, 1), timeout_s=60),
    "too late": lambda: Link("a", retry=seconds(1, 100), total_s=60),
}


@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize("form", SYNC_FORMS)
def test_nothing_keeps_a_failed_exception_alive(form: str, name: str) -> None:
    kept: list[weakref.ref[Watched]] = []
    with without_collector(), instant():
        _caught(form, LINKS[name](), kept)
        wait_until_idle()  # a thread that has handed its exception over may still be leaving its frame
        assert [reference() for reference in kept] == [None] * len(kept)
    assert kept


@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize("form", ASYNC_FORMS)
async def test_nothing_keeps_a_failed_exception_alive_in_a_coroutine(form: str, name: str) -> None:
    kept: list[weakref.ref[Watched]] = []
    with without_collector(), instant():
        await _caught_async(form, LINKS[name](), kept)
        assert [reference() for reference in kept] == [None] * len(kept)
    assert kept
