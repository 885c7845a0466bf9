"""`Retry(on=…)` and `Retry(on_result=…)`: one line says what is tried again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.catalog import Catalog, Failure
from holdfast.guard import Link, stamp_of
from holdfast.policy import Backoff, Breaker, PolicyInvalid, Retry
from holdfast.testing import instant
from holdfast.worker import Handlers

errors = Catalog("on")
NEVER_AGAIN = errors.fault("NEVER_AGAIN", status=422, says="No.")
SECOND = Backoff.constant(1)


class Flaky(Exception):
    pass


class Bug(Exception):
    pass


class Function:
    """Raises or returns what it is given, and counts."""

    def __init__(self, *outcomes: Any) -> None:
        self.outcomes = list(outcomes)
        self.calls = 0

    def __call__(self) -> Any:
        self.calls += 1
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def awaited(self) -> Any:
        return self()


def link(**rule: Any) -> Link:
    return Link("shop → bank", retry=Retry(backoff=SECOND, **rule))


@pytest.mark.parametrize(
    ("raised", "calls", "reason"),
    [
        (Flaky(), 5, "attempts_used"),  # nobody classifies it
        (PermissionError(), 5, "attempts_used"),  # a subclass
        (NEVER_AGAIN(), 5, "attempts_used"),  # the catalog says never
        (Bug(), 1, "condition_unmet"),
        (ConnectionResetError(), 5, "attempts_used"),
        (KeyError("x"), 1, "condition_unmet"),
    ],
    ids=repr,
)
def test_exactly_the_exceptions_that_are_named_get_all_attempts(raised: Exception, calls: int, reason: str) -> None:
    function = Function(raised)
    with instant(), pytest.raises(type(raised)) as caught:
        link(on=(Flaky, OSError, Failure), attempts=5).call(function)
    assert (function.calls, stamp_of(caught.value).reason) == (calls, reason)  # type: ignore[union-attr]


def test_one_class_and_a_function_say_it_too() -> None:
    for on in (Flaky, lambda error: isinstance(error, Flaky)):
        function = Function(Flaky(), Flaky(), Flaky(), 7)
        with instant() as time:
            assert link(on=on, attempts=5).call(function) == 7
        assert time.waits_s == [1, 1, 1]


def test_without_it_an_unknown_exception_is_tried_twice_and_no_more() -> None:
    function = Function(Flaky())
    with instant(), pytest.raises(Flaky) as caught:
        link(attempts=5).call(function)
    assert (function.calls, stamp_of(caught.value).reason) == (2, "unknown_failure")  # type: ignore[union-attr]


def test_a_write_without_a_key_is_not_repeated_however_it_is_named() -> None:
    function = Function(Flaky())
    with instant(), pytest.raises(Flaky):
        Link("a", writes=True, retry=Retry(on=Flaky, attempts=5, backoff=SECOND)).call(function)
    assert function.calls == 1
    with instant(), pytest.raises(Flaky):
        Link("a", writes=True, retry=Retry(on=Flaky, attempts=5, backoff=SECOND)).keyed("k").call(function)
    assert function.calls == 6


def test_a_result_that_is_not_wanted_is_tried_again_and_the_last_one_returned() -> None:
    function = Function(None, None, 7)
    with instant() as time:
        assert link(on_result=lambda result: result is None, attempts=5).call(function) == 7
        assert time.waits_s == [1, 1]
        never = Function(None)
        assert link(on_result=lambda result: result is None, attempts=3).call(never) is None
        assert asyncio.run(_awaited(never)) is None
    assert never.calls == 6


async def _awaited(function: Function) -> Any:
    return await link(on_result=lambda result: result is None, attempts=3).call(function.awaited)


def test_an_unwanted_result_does_not_open_the_breaker_and_goes_together_with_on() -> None:
    rule = Retry(on=Flaky, on_result=lambda result: result is None, attempts=9, backoff=SECOND)
    both = Link("a", retry=rule, breaker=Breaker(calls_min=1))
    with instant():
        assert both.call(Function(None, None, None, 7)) == 7


def test_the_loop_has_no_result_to_look_at() -> None:
    with pytest.raises(TypeError, match="guard a function"):
        link(on_result=bool).attempts()
    with pytest.raises(TypeError, match="guard a function"):
        link(on_result=bool).keyed("k").attempts()


@pytest.mark.parametrize("on", [(), 5, "OSError", (OSError, 5), int])
def test_what_is_no_exception_is_refused_with_how_it_is_written(on: Any) -> None:
    with pytest.raises(PolicyInvalid, match="write on=OSError"):
        Retry(on=on)


def test_a_rule_for_results_is_refused_where_there_is_no_call() -> None:
    with pytest.raises(PolicyInvalid, match="RetryIn"):
        Handlers().handle("a", retry=Retry(on_result=bool))
    with pytest.raises(PolicyInvalid, match="lambda"):
        Retry(on_result=True)  # type: ignore[arg-type]
