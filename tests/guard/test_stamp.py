"""What the stamp tells the caller, and what it tells the links around."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import Backoff, Catalog, Failure, Link, Retry, stamp_of
from holdfast.base import limits
from holdfast.guard.stamp import put_stamp, retried_inside
from holdfast.lifecycle import Stop
from holdfast.testing import instant

errors = Catalog("stamp tests")
BANK_SILENT = errors.fault("BANK_SILENT", status=503, says="The bank is silent.", retry=True)


def rule(attempts: int) -> Retry:
    return Retry(attempts=attempts, backoff=Backoff.constant(1))


class Callee:
    def __init__(self, make: Callable[[], Exception] = ConnectionRefusedError) -> None:
        self.calls = 0
        self.make = make

    def __call__(self) -> None:
        self.calls += 1
        raise self.make()


def test_an_exception_without_a_stamp_has_none() -> None:
    assert stamp_of(ValueError()) is None


def test_the_stamp_tells_who_gave_up_on_what_after_how_many_attempts_and_why() -> None:
    with instant(), pytest.raises(ConnectionRefusedError) as caught:
        Link("shop → bank", retry=rule(3)).call(Callee())
    stamp = stamp_of(caught.value)
    assert (stamp.link, stamp.code, stamp.attempts, stamp.reason) == (
        "shop → bank",
        "CONNECTION_REFUSED",
        3,
        Stop.ATTEMPTS_USED,
    )


@pytest.mark.parametrize(("attempts", "times"), [(1, "1 attempt"), (3, "3 attempts")])
def test_the_note_is_a_line_for_the_log(attempts: int, times: str) -> None:
    with instant(), pytest.raises(ConnectionRefusedError) as caught:
        Link("a → b", retry=rule(attempts)).call(Callee())
    assert caught.value.__notes__ == [f"holdfast: a → b gave up after {times}: attempts_used (CONNECTION_REFUSED)"]


def test_an_exception_object_that_is_raised_again_and_again_gathers_one_note() -> None:
    error = ConnectionRefusedError()
    for _ in range(5):
        with instant(), pytest.raises(ConnectionRefusedError):
            Link("a", retry=rule(2)).call(Callee(lambda: error))
    assert len(error.__notes__) == 1


class Sealed(ConnectionRefusedError):
    def __setattr__(self, name: str, value: object) -> None:
        raise RuntimeError("sealed")


def test_an_exception_that_takes_no_attributes_passes_unmarked() -> None:
    with instant(), pytest.raises(Sealed) as caught:
        Link("a", retry=rule(2)).call(Callee(Sealed))
    assert stamp_of(caught.value) is None


@pytest.mark.parametrize("layers", [2, 3, 5])
def test_only_the_innermost_link_retries_however_many_stand_around_it(layers: int) -> None:
    callee = Callee()
    call: Callable[[], Any] = callee
    for number in range(layers):
        call = Link(f"layer {number}", retry=rule(3))(call)
    with instant() as time, pytest.raises(ConnectionRefusedError) as caught:
        call()
    assert callee.calls == 3
    assert time.waits_s == [1, 1]
    assert stamp_of(caught.value).reason is Stop.RETRIED_INSIDE
    assert stamp_of(caught.value).link == f"layer {layers - 1}"
    assert len(caught.value.__notes__) == layers


def test_only_the_innermost_loop_retries() -> None:
    calls = 0
    with instant(), pytest.raises(ConnectionRefusedError):  # noqa: PT012 - the loop or block is what is tested
        for outer in Link("outer", retry=rule(3)).attempts():
            with outer:
                for inner in Link("inner", retry=rule(3)).attempts():
                    with inner:
                        calls += 1
                        raise ConnectionRefusedError
    assert calls == 3


@pytest.mark.parametrize("wrapping", ["from", "while handling", "twice"])
def test_wrapping_the_exception_does_not_wash_the_stamp_off(wrapping: str) -> None:
    callee = Callee()
    inner = Link("inner", retry=rule(3))(callee)

    def outer() -> None:
        try:
            inner()
        except ConnectionRefusedError as lost:
            if wrapping == "from":
                raise BANK_SILENT() from lost
            if wrapping == "while handling":
                raise BANK_SILENT()  # noqa: B904
            raise BANK_SILENT() from _wrapped(lost)

    with instant(), pytest.raises(Failure) as caught:
        Link("outer", retry=rule(3)).call(outer)
    assert callee.calls == 3
    assert stamp_of(caught.value).reason is Stop.RETRIED_INSIDE


def _wrapped(lost: Exception) -> Exception:
    middle = RuntimeError("middle")
    middle.__cause__ = lost
    return middle


def test_a_context_that_was_cut_off_on_purpose_says_nothing() -> None:
    callee = Callee()
    inner = Link("inner", retry=rule(2))(callee)

    def outer() -> None:
        try:
            inner()
        except ConnectionRefusedError:
            raise BANK_SILENT() from None

    with instant(), pytest.raises(Failure):
        Link("outer", retry=rule(3)).call(outer)
    assert callee.calls == 6


def test_a_ring_of_causes_ends_the_search() -> None:
    one, two = ValueError(), KeyError()
    one.__cause__, two.__cause__ = two, one
    assert not retried_inside(one, since=0)


def test_causes_are_searched_as_deep_as_the_limit_says() -> None:
    deep: Exception = ValueError()
    put_stamp(deep, link="a", code="X", attempts=2, reason=Stop.ATTEMPTS_USED)
    for _ in range(limits().cause_depth_max - 1):
        around = ValueError()
        around.__cause__, deep = deep, around
    assert retried_inside(deep, since=0)
    around = ValueError()
    around.__cause__ = deep
    assert not retried_inside(around, since=0)


def test_an_inner_link_that_made_one_attempt_leaves_the_retrying_to_the_outer_one() -> None:
    callee = Callee()
    inner = Link("inner", retry=rule(1))(callee)
    with instant(), pytest.raises(ConnectionRefusedError) as caught:
        Link("outer", retry=rule(3)).call(inner)
    assert callee.calls == 3
    assert stamp_of(caught.value).reason is Stop.ATTEMPTS_USED


def test_a_stale_stamp_on_a_reused_exception_object_does_not_stop_retries() -> None:
    error = ConnectionRefusedError()
    link = Link("a", retry=rule(3))
    for _ in range(3):
        callee = Callee(lambda: error)
        with instant(), pytest.raises(ConnectionRefusedError):
            link.call(callee)
        assert callee.calls == 3
        assert stamp_of(error).reason is Stop.ATTEMPTS_USED


def test_a_stamped_exception_that_is_being_handled_does_not_stop_the_fallback() -> None:
    fallback = Callee(ConnectionResetError)
    with instant(), pytest.raises(ConnectionResetError):  # noqa: PT012 - the loop or block is what is tested
        try:
            Link("primary", retry=rule(2)).call(Callee())
        except ConnectionRefusedError:
            Link("fallback", retry=rule(3)).call(fallback)
    assert fallback.calls == 3


def test_stamps_are_numbered_in_order_also_across_threads() -> None:
    numbers: list[int] = []
    barrier = threading.Barrier(8)

    def give_up() -> None:
        barrier.wait()
        for _ in range(100):
            stamp = put_stamp(ValueError(), link="a", code="X", attempts=1, reason=Stop.ATTEMPTS_USED)
            numbers.append(stamp.number)

    threads = [threading.Thread(target=give_up) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(numbers)) == 800
    last = put_stamp(ValueError(), link="a", code="X", attempts=1, reason=Stop.ATTEMPTS_USED)
    assert last.number > max(numbers)


def test_a_stamped_failure_can_still_be_pickled() -> None:
    with instant(), pytest.raises(Failure) as caught:
        Link("a", retry=rule(2)).call(Callee(BANK_SILENT))
    arrived = pickle.loads(pickle.dumps(caught.value))
    assert arrived.code == "BANK_SILENT"
    assert stamp_of(arrived) == stamp_of(caught.value)
