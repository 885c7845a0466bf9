"""What can be guarded, and what is refused because nothing of it would be."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast import Backoff, Link, Retry
from holdfast.testing import instant

ONCE_MORE = Retry(attempts=2, backoff=Backoff.constant(1))


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


class Bank:
    link = Link("a", retry=ONCE_MORE)

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
    link = Link("a", retry=ONCE_MORE)
    with instant():
        assert link.call(functools.partial(Script(ConnectionRefusedError(), 7), "x")) == 7
        assert link(Script(ConnectionRefusedError(), 8))() == 8
        assert link.call(len, [1, 2]) == 2
        assert link.call(Bank().balance, 3) == 15


def test_arguments_are_passed_on_to_every_attempt() -> None:
    seen: list[Any] = []

    @Link("a", retry=ONCE_MORE)
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


@pytest.mark.parametrize("options", [{}, {"timeout_s": 60}], ids=["plain", "in a thread"])
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
