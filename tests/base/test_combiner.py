"""Concurrent callers share a flush; a lone one is not delayed."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from holdfast.base import World, replaced, world
from holdfast.base.combiner import Combiner
from holdfast.catalog import Failure
from holdfast.catalog.core import STORAGE_FULL
from holdfast.testing.processes import wait_until

CALLERS = 100
PATIENCE_S = 30.0


class Slow:
    """A flush that is under way until the test lets it go, and counts."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.begun = threading.Event()
        self.go_on = threading.Event()
        self.error: BaseException | None = None

    def flush(self, items: Sequence[int]) -> Sequence[str]:
        self.batches.append(list(items))
        self.begun.set()
        assert self.go_on.wait(PATIENCE_S)
        if self.error is not None and len(self.batches) > 1:
            raise self.error
        return [f"done {item}" for item in items]


def together(combiner: Combiner[int, str], slow: Slow, count: int) -> dict[int, str | BaseException]:
    """The first caller's flush is held up until all the others wait; then everything goes on."""
    answers: dict[int, str | BaseException] = {}

    def call(number: int) -> None:
        try:
            answers[number] = combiner.submit(number)
        except BaseException as error:
            answers[number] = error

    threads = [threading.Thread(target=call, args=(number,)) for number in range(count)]
    threads[0].start()
    assert slow.begun.wait(PATIENCE_S)
    for thread in threads[1:]:
        thread.start()
    wait_until(lambda: len(combiner._pending) == count - 1, within_s=PATIENCE_S, what="all others wait")
    slow.go_on.set()
    for thread in threads:
        thread.join(PATIENCE_S)
    return answers


def test_who_comes_while_a_flush_is_under_way_goes_with_the_next_one() -> None:
    slow = Slow()
    answers = together(Combiner(slow.flush, most=1_000), slow, CALLERS)
    assert answers == {number: f"done {number}" for number in range(CALLERS)}
    assert [len(batch) for batch in slow.batches] == [1, CALLERS - 1]


def test_a_flush_takes_no_more_than_it_may() -> None:
    slow = Slow()
    answers = together(Combiner(slow.flush, most=30), slow, CALLERS)
    assert answers == {number: f"done {number}" for number in range(CALLERS)}
    assert [len(batch) for batch in slow.batches] == [1, 30, 30, 30, 9]


def test_an_error_reaches_everyone_in_its_batch_and_nobody_else() -> None:
    slow = Slow()
    slow.error = STORAGE_FULL()
    answers = together(Combiner(slow.flush, most=1_000), slow, 20)
    assert answers.pop(0) == "done 0"
    assert {type(answer) for answer in answers.values()} == {Failure}
    assert {answer.code for answer in answers.values() if isinstance(answer, Failure)} == {"STORAGE_FULL"}
    assert len({id(answer) for answer in answers.values()}) == 19, "each has one of its own"


def test_even_an_error_that_cannot_be_copied_reaches_everyone() -> None:
    class Odd(BaseException):
        def __init__(self, one: str, *, two: str) -> None:
            super().__init__(one + two)

    slow = Slow()
    slow.error = Odd("a", two="b")
    answers = together(Combiner(slow.flush, most=1_000), slow, 5)
    assert [type(answers[number]) for number in range(1, 5)] == [Odd] * 4


def test_after_an_error_the_next_caller_is_served() -> None:
    fails = [True]

    def flush(items: Sequence[int]) -> Sequence[str]:
        if fails.pop():
            raise ValueError("broken")
        return ["well"]

    combiner = Combiner(flush, most=10)
    with pytest.raises(ValueError, match="broken"):
        combiner.submit(1)
    fails.append(False)
    assert combiner.submit(2) == "well"


def test_a_lone_caller_is_flushed_in_its_own_thread_at_once() -> None:
    flushed_by: list[threading.Thread] = []

    def flush(items: Sequence[int]) -> Sequence[int]:
        flushed_by.append(threading.current_thread())
        return items

    combiner = Combiner(flush, most=10)
    for number in range(3):
        assert combiner.submit(number) == number
    assert flushed_by == [threading.current_thread()] * 3


def test_the_flush_for_the_others_lives_in_the_callers_world() -> None:
    worlds: list[World] = []
    slow = Slow()

    def flush(items: Sequence[int]) -> Sequence[str]:
        worlds.append(world())
        return slow.flush(items)

    combiner = Combiner(flush, most=10)
    mine = World(dice=lambda: 0.25)

    def first() -> None:
        with replaced(mine):
            combiner.submit(0)

    leader = threading.Thread(target=first)
    leader.start()
    assert slow.begun.wait(PATIENCE_S)
    follower = threading.Thread(target=combiner.submit, args=(1,))
    follower.start()
    wait_until(lambda: len(combiner._pending) == 1, within_s=PATIENCE_S, what="the follower waits")
    slow.go_on.set()
    leader.join(PATIENCE_S)
    follower.join(PATIENCE_S)
    assert worlds == [mine, mine]
