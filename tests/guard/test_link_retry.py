"""What a link promises about repeating a call, in every form in which it can be used."""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import traceback
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


FORMS: dict[str, Form] = {
    "sync call": lambda link, function: link.call(function),
    "sync decorator": lambda link, function: link(function)(),
    "sync loop": sync_loop,
    "async call": lambda link, function: asyncio.run(link.call(coloured(function))),
    "async decorator": lambda link, function: asyncio.run(link(coloured(function))()),
    "async loop": lambda link, function: asyncio.run(_async_loop(link, function)),
    "async for, plain with": lambda link, function: asyncio.run(_async_for_with(link, function)),
}


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
    with instant() as time, replaced(_loaded(0.5)), pytest.raises(ConnectionRefusedError):
        form(Link("a", retry=rule), Script(ConnectionRefusedError()))
    assert time.waits_s == [2.0, 3.5, 5.75]  # halfway between 1 and three times the one before


def _loaded(dice: float) -> Any:
    from dataclasses import replace

    return replace(world(), dice=lambda: dice)


def test_a_spent_budget_stops_retries_and_leaves_the_first_attempts_alone(form: Form) -> None:
    link = Link("a", retry=seconds(1, 1, 1), budget=Budget(share=0, reserve_per_s=0.1, window_s=10))
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
    Stop.WRITE_WITHOUT_KEY: ({"writes": True}, ConnectionRefusedError()),
    Stop.UNKNOWN_FAILURE: ({"retry": seconds(1, 1, 1)}, Strange()),
    Stop.BUDGET_SPENT: ({"budget": Budget(share=0, reserve_per_s=0)}, ConnectionRefusedError()),
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
    assert shown == [ZeroDivisionError]


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


def _provoke(form: Form, link: Guard, kept: list[weakref.ref[Watched]]) -> None:
    def fail() -> None:
        error = Watched()
        kept.append(weakref.ref(error))
        try:
            raise error
        finally:
            del error

    try:
        form(link, fail)
    except Watched:
        pass


LINKS: dict[str, Callable[[], Link]] = {
    "plain": lambda: Link("a", retry=seconds(1, 1)),
    "not retried": lambda: Link("a", writes=True),
    "total": lambda: Link("a", retry=seconds(1, 1), total_s=60),
    "timeout": lambda: Link("a", retry=seconds(1, 1), timeout_s=60),
    "too late": lambda: Link("a", retry=seconds(1, 100), total_s=60),
}


@pytest.mark.parametrize("name", LINKS)
def test_nothing_keeps_a_failed_exception_alive(form: Form, name: str) -> None:
    kept: list[weakref.ref[Watched]] = []
    link = LINKS[name]()
    _provoke(form, link, [])  # the first run of an event loop leaves things of its own
    with without_collector(), instant():
        _provoke(form, link, kept)
        assert [reference() for reference in kept] == [None] * len(kept)
    assert kept


# -- what can be guarded ---------------------------------------------------------------------------------------------


class Bank:
    link = Link("a", retry=seconds(1))

    def __init__(self) -> None:
        self.script = Script(ConnectionRefusedError(), 5)

    @link
    def balance(self, factor: int, *, plus: int = 0) -> int:
        """The balance."""
        return self.script() * factor + plus

    @classmethod
    @link
    def name(cls) -> str:
        return cls.__name__

    @staticmethod
    @link
    def currency() -> str:
        return "EUR"


def test_methods_of_every_kind_can_be_guarded() -> None:
    with instant():
        assert Bank().balance(2, plus=1) == 11
        assert Bank().name() == Bank.name() == "Bank"
        assert Bank().currency() == Bank.currency() == "EUR"


def test_a_guarded_function_looks_like_the_function() -> None:
    assert Bank.balance.__name__ == "balance"
    assert Bank.balance.__qualname__ == "Bank.balance"
    assert Bank.balance.__doc__ == "The balance."
    assert list(inspect.signature(Bank.balance).parameters) == ["self", "factor", "plus"]


def test_partials_objects_and_builtins_can_be_guarded() -> None:
    link = Link("a", retry=seconds(1))
    with instant():
        assert link.call(functools.partial(Script(ConnectionRefusedError(), 7), "x")) == 7
        assert link(Script(ConnectionRefusedError(), 8))() == 8
        assert link.call(len, [1, 2]) == 2
        assert link.call(Bank().balance, 3) == 15


def test_arguments_are_passed_on_to_every_attempt() -> None:
    seen: list[Any] = []

    @Link("a", retry=seconds(1))
    def work(*args: int, **kwargs: int) -> None:
        seen.append((args, kwargs))
        if len(seen) == 1:
            raise ConnectionRefusedError

    with instant():
        work(1, 2, function=3, key=4)
    assert seen == [((1, 2), {"function": 3, "key": 4})] * 2


def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> Any:
    yield 1


class Generating:
    def __call__(self) -> Iterator[int]:
        yield 1


@pytest.mark.parametrize(
    "function",
    [generator, async_generator, functools.partial(generator), Generating(), functools.partial(Generating())],
    ids=["generator", "async generator", "partial", "object", "partial of an object"],
)
def test_a_generator_is_refused_because_calling_it_does_no_work(function: Any) -> None:
    with pytest.raises(TypeError, match="does no work yet"):
        Link("a")(function)
    with pytest.raises(TypeError, match="does no work yet"):
        Link("a").call(function)
    with pytest.raises(TypeError, match="does no work yet"):
        Link("a").keyed("k")(function)


async def fetch() -> int:
    return 1


@pytest.mark.parametrize("options", [{}, {"timeout_s": 5}], ids=["plain", "in a thread"])
def test_a_lambda_that_hands_out_a_coroutine_is_refused_with_the_reason(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="returned a coroutine, so nothing of it was guarded"):
        Link("a", **options).call(lambda: fetch())


def test_a_coroutine_is_refused_because_it_cannot_be_repeated() -> None:
    with pytest.raises(TypeError, match="give the function and its arguments"):
        Link("a").call(fetch())  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [classmethod, staticmethod])
def test_a_link_above_a_classmethod_or_staticmethod_is_refused_with_the_right_order(kind: Any) -> None:
    with pytest.raises(TypeError, match=f"put @{kind.__name__} above the link"):
        Link("a")(kind(lambda: 1))


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(TypeError, match="is not callable"):
        Link("a").call(42)  # type: ignore[arg-type]


@pytest.mark.parametrize("field", ["timeout_s", "total_s"])
@pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan")])
def test_a_time_limit_that_is_no_positive_number_is_refused(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"a: {field}: .* is not a positive number of seconds"):
        Link("a", **{field: value})
