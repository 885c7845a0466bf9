"""What a key does for a write."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import Backoff, Link, Retry
from holdfast.guard import current_key, under_key
from holdfast.testing import instant

ORDERS = Link("shop → orders", retry=Retry(attempts=3, backoff=Backoff.constant(1)), writes=True)


def test_every_attempt_sees_the_same_key() -> None:
    seen: list[str | None] = []

    def place() -> str:
        seen.append(current_key())
        if len(seen) < 3:
            raise ConnectionResetError
        return "placed"

    with instant():
        assert ORDERS.keyed("order:7").call(place) == "placed"
    assert seen == ["order:7"] * 3
    assert current_key() is None


async def test_every_attempt_of_a_coroutine_sees_the_same_key() -> None:
    seen: list[str | None] = []

    async def place() -> str:
        await asyncio.sleep(0)
        seen.append(current_key())
        if len(seen) < 3:
            raise ConnectionResetError
        return "placed"

    with instant():
        assert await ORDERS.keyed("order:7").call(place) == "placed"
    assert seen == ["order:7"] * 3
    assert current_key() is None


def test_a_key_can_be_made_from_the_arguments() -> None:
    seen: list[str | None] = []

    @ORDERS.keyed(lambda order, *, part=0: f"order:{order}:{part}")
    def place(order: int, *, part: int = 0) -> None:
        """Place an order."""
        seen.append(current_key())
        if len(seen) == 1:
            raise ConnectionResetError

    with instant():
        place(7, part=2)
        place(8)
    assert seen == ["order:7:2", "order:7:2", "order:8:0"]
    assert place.__doc__ == "Place an order."


async def test_a_key_can_be_made_from_the_arguments_of_a_coroutine() -> None:
    seen: list[str | None] = []

    @ORDERS.keyed(lambda order: f"order:{order}")
    async def place(order: int) -> None:
        seen.append(current_key())

    await asyncio.gather(place(1), place(2))
    assert sorted(filter(None, seen)) == ["order:1", "order:2"]


def test_the_key_is_seen_in_the_thread_of_a_timed_call() -> None:
    link = Link("a", writes=True, timeout_s=30)
    assert link.keyed("order:7").call(current_key) == "order:7"


def test_the_loop_form_sees_the_key_inside_each_attempt_only() -> None:
    seen: list[str | None] = []
    with instant():
        for attempt in ORDERS.keyed("order:7").attempts():
            seen.append(current_key())
            with attempt:
                seen.append(current_key())
                if attempt.number == 1:
                    raise ConnectionResetError
    assert seen == [None, "order:7", None, "order:7"]


def test_the_loop_form_cannot_make_a_key_from_arguments() -> None:
    with pytest.raises(TypeError, match="has no arguments to make a key from"):
        ORDERS.keyed(lambda: "order").attempts()


def test_an_inner_key_hides_the_outer_one_and_gives_it_back() -> None:
    with under_key("outer"):
        with under_key("inner"):
            assert current_key() == "inner"
        assert current_key() == "outer"


def test_an_outer_key_does_not_make_an_inner_write_repeatable() -> None:
    calls: list[int] = []

    def place() -> None:
        calls.append(1)
        raise ConnectionResetError

    with instant(), under_key("outer"), pytest.raises(ConnectionResetError):
        ORDERS.call(place)
    assert len(calls) == 1


@pytest.mark.parametrize("length", [1, 255])
def test_a_key_of_one_to_255_characters_is_taken(length: int) -> None:
    assert ORDERS.keyed("k" * length).call(current_key) == "k" * length


@pytest.mark.parametrize("length", [0, 256])
def test_an_empty_or_overlong_key_is_refused_where_it_is_given(length: int) -> None:
    with pytest.raises(ValueError, match=f"a key has 1 to 255 characters, this one has {length}"):
        ORDERS.keyed("k" * length)


def test_a_key_function_that_makes_an_empty_key_fails_before_anything_is_called() -> None:
    calls: list[int] = []
    with pytest.raises(ValueError, match="a key has 1 to 255 characters"):
        ORDERS.keyed(lambda: "").call(lambda: calls.append(1))
    assert calls == []


@pytest.mark.parametrize("key", [None, 7, b"order"])
def test_a_key_that_is_not_text_is_refused(key: Any) -> None:
    with pytest.raises(TypeError, match="a key is text, this one is of type"):
        ORDERS.keyed(key)
    with pytest.raises(TypeError, match="a key is text, this one is of type"):
        ORDERS.keyed(lambda: key).call(print)
