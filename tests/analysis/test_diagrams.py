"""What the pictures promise: they show what the code does."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Backoff, Budget, Catalog, Link, Retry, stamp_of, within
from holdfast.analysis import DECISION_ORDER, breaker_states, decision_order, schedule
from holdfast.catalog.core import SERVICE_UNAVAILABLE
from holdfast.lifecycle import BREAKER, Stop
from holdfast.policy import Spread
from holdfast.testing import instant


def test_the_breaker_diagram_has_every_move() -> None:
    lines = breaker_states().splitlines()
    assert lines[:2] == ["stateDiagram-v2", "    [*] --> closed"]
    assert len(lines) == 2 + len(BREAKER)


def test_a_schedule_without_chance_shows_each_start() -> None:
    assert schedule(Backoff.exponential(1), 4, columns=8).splitlines() == [
        "attempt  1  0 s  █",
        "attempt  2  1 s  ─█",
        "attempt  3  3 s  ───█",
        "attempt  4  7 s  ───────█",
    ]


def test_a_schedule_with_chance_shows_the_earliest_and_the_latest_start() -> None:
    assert schedule(Backoff.listed(5, 15, jitter=Spread(0.2)), 3, columns=13).splitlines() == [
        "attempt  1  0 s        █",
        "attempt  2  4 – 6 s    ──██",
        "attempt  3  16 – 24 s  ────────█████",
    ]


def test_a_schedule_without_waits_can_be_drawn() -> None:
    assert schedule(Backoff.constant(0), 2).splitlines() == ["attempt  1  0 s  █", "attempt  2  0 s  █"]


def test_the_flowchart_asks_every_question_and_ends_in_another_attempt() -> None:
    drawn = decision_order()
    for step in DECISION_ORDER:
        assert step.asks in drawn
        assert f'["{step.reason}"]' in drawn
    assert drawn.splitlines()[-1].endswith("again([wait, then try again])")


def test_every_reason_but_a_refusal_at_the_gate_has_its_question() -> None:
    assert {step.reason for step in DECISION_ORDER} == set(Stop) - {Stop.BREAKER_OPEN, Stop.LIMIT_REACHED}


errors = Catalog("order tests")
NEVER = errors.fault("NEVER", status=503, says="Never.")


def _reason(first: Stop, second: Stop) -> Stop:
    """What a call stops for that meets both reasons at once."""
    both = {first, second}
    options: dict[str, Any] = {"attempts": 1 if Stop.ATTEMPTS_USED in both else 9, "backoff": Backoff.constant(5)}
    asked_s = 3_000.0 if Stop.WAIT_TOO_LONG in both else None
    error: Exception = (NEVER if Stop.NOT_RETRYABLE in both else SERVICE_UNAVAILABLE)(retry_after_s=asked_s)
    if Stop.UNKNOWN_FAILURE in both:
        error, options["attempts_unknown"] = LookupError(), 1
    if Stop.CODE_ATTEMPTS_USED in both:
        options["attempts_per_code"] = {"UNKNOWN": 1, "SERVICE_UNAVAILABLE": 1, "NEVER": 1}
    if Stop.CONDITION_UNMET in both:
        options["when"] = lambda failure: False
    if Stop.TIME_USED in both:
        options["within_s"] = 1
    link = Link(
        "a",
        retry=Retry(**options),
        writes=Stop.WRITE_WITHOUT_KEY in both,
        budget=Budget(share=0, reserve_per_s=0) if Stop.BUDGET_SPENT in both else None,
    )
    with instant(), within(1 if Stop.DEADLINE_TOO_NEAR in both else None), pytest.raises(type(error)) as caught:
        link.call(_inside(error, retried=Stop.RETRIED_INSIDE in both))
    return stamp_of(caught.value).reason


def _inside(error: Exception, *, retried: bool) -> Any:
    def fail() -> None:
        if retried:
            from holdfast.guard.stamp import put_stamp

            put_stamp(error, link="inner", code="X", attempts=2, reason=Stop.ATTEMPTS_USED)
        raise error

    return fail


# Some cannot be met at once: what is declared never to be retried is not unknown, what is unknown has no Retry-After,
# and a call with a time limit waits for any.
EXCLUSIVE = [
    {Stop.NOT_RETRYABLE, Stop.UNKNOWN_FAILURE},
    *({Stop.WAIT_TOO_LONG, other} for other in (Stop.UNKNOWN_FAILURE, Stop.DEADLINE_TOO_NEAR, Stop.TIME_USED)),
]
PAIRS = [
    (first.reason, second.reason)
    for place, first in enumerate(DECISION_ORDER)
    for second in DECISION_ORDER[place + 1 :]
    if {first.reason, second.reason} not in EXCLUSIVE
]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_of_two_reasons_the_one_that_is_drawn_first_counts(first: Stop, second: Stop) -> None:
    assert _reason(first, second) is first
