"""How long a call waits because its callee asked for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from holdfast import Backoff, Failure, Link, Retry, stamp_of, within
from holdfast.base import replaced, world
from holdfast.catalog.core import SERVICE_UNAVAILABLE
from holdfast.lifecycle import Stop
from holdfast.testing import instant

SECOND = Backoff.constant(1)
ONCE_MORE = Retry(attempts=2, backoff=SECOND)


def asking_for(wait_s: float) -> Callable[[], str]:
    """A callee that works the second time, and says when that is."""
    answers: list[Any] = ["fine", SERVICE_UNAVAILABLE(retry_after_s=wait_s)]

    def ask() -> str:
        answer = answers.pop()
        if isinstance(answer, Failure):
            raise answer
        return str(answer)

    return ask


def test_a_call_without_a_time_limit_does_not_stand_still_for_an_hour() -> None:
    with instant() as time, pytest.raises(Failure) as caught:
        Link("a", retry=ONCE_MORE).call(asking_for(3_600))
    assert time.waits_s == []
    assert stamp_of(caught.value).reason is Stop.WAIT_TOO_LONG
    assert caught.value.retry_after_s == 3_600, "the caller is told when to come back"


def test_a_minute_is_waited() -> None:
    with instant() as time:
        assert Link("a", retry=ONCE_MORE).call(asking_for(60)) == "fine"
    assert time.waits_s == [60]


@pytest.mark.parametrize(
    "options",
    [{"total_s": 9_000}, {"retry": Retry(attempts=2, backoff=SECOND, within_s=9_000)}],
    ids=["total_s", "within_s"],
)
def test_a_call_with_a_time_limit_of_its_own_waits_as_long_as_that_allows(options: dict[str, Any]) -> None:
    with instant() as time:
        assert Link("a", **{"retry": ONCE_MORE, **options}).call(asking_for(3_000)) == "fine"
    assert time.waits_s == [3_000]


def test_a_deadline_around_it_is_such_a_limit_too() -> None:
    with instant() as time, within(9_000):
        assert Link("a", retry=ONCE_MORE).call(asking_for(3_000)) == "fine"
    assert time.waits_s == [3_000]


def test_the_longest_wait_is_a_setting() -> None:
    with instant() as time, replaced(replace(world(), limits=replace(world().limits, call_wait_s_max=100.0))):
        assert Link("a", retry=ONCE_MORE).call(asking_for(100)) == "fine"
        with pytest.raises(Failure):
            Link("a", retry=ONCE_MORE).call(asking_for(101))
    assert time.waits_s == [100]


def test_a_schedule_with_longer_waits_is_kept() -> None:
    patient = Retry(attempts=2, backoff=Backoff.constant(600))
    with instant() as time:
        assert Link("a", retry=patient).call(asking_for(300)) == "fine"
    assert time.waits_s == [600]


def test_a_rule_that_cuts_what_was_asked_for_keeps_to_it() -> None:
    impatient = Retry(attempts=2, backoff=SECOND, retry_after_max_s=5)
    with instant() as time:
        assert Link("a", retry=impatient).call(asking_for(3_600)) == "fine"
    assert time.waits_s == [5]
