"""A retry rule that cannot be meant is refused; one that can is a value."""

from __future__ import annotations

import pickle
from math import inf, nan
from typing import Any

import pytest

from holdfast.base import Limits, World, replaced
from holdfast.catalog.core import NETWORK_TIMEOUT
from holdfast.policy import NEVER, Backoff, Full, PolicyInvalid, Retry


def test_the_defaults_are_three_attempts_soon_after_each_other() -> None:
    rule = Retry()
    assert (rule.attempts, rule.attempts_unknown, rule.honour_retry_after) == (3, 2, True)
    assert rule.backoff == Backoff.exponential(0.1, cap_s=5.0, jitter=Full())
    assert rule.within_s is None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"attempts": 0}, "attempts: 0 is not between 1 and 100"),
        ({"attempts": -1}, "attempts: -1 is not"),
        ({"attempts": 101}, "attempts: 101 is not"),
        ({"attempts": nan}, "attempts: nan is not"),
        ({"attempts": inf}, "attempts: inf is not"),
        ({"attempts_unknown": 0}, "attempts_unknown: 0 is not"),
        ({"attempts_per_code": {"IO_ERROR": 0}}, r"attempts_per_code\[IO_ERROR\]: 0 is not"),
        ({"attempts_per_code": {"A": 1, "IO_ERROR": 1_000}}, r"attempts_per_code\[IO_ERROR\]: 1000 is not"),
        ({"within_s": 0}, "within_s: 0 is not a positive number of seconds"),
        ({"within_s": -1}, "within_s: -1 is not"),
        ({"within_s": nan}, "within_s: nan is not"),
        ({"retry_after_max_s": -1}, "retry_after_max_s: -1 is not a number of seconds"),
        ({"retry_after_max_s": nan}, "retry_after_max_s: nan is not"),
        ({"backoff": 2}, r"backoff: 2 is not a Backoff; write Backoff.constant"),
    ],
)
def test_values_that_cannot_be_meant_are_refused_by_name(values: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyInvalid, match=message):
        Retry(**values)


def test_how_many_attempts_are_too_many_is_a_limit() -> None:
    with replaced(World(limits=Limits(attempts_max=5))), pytest.raises(PolicyInvalid, match="between 1 and 5"):
        Retry(attempts=6)
    with replaced(World(limits=Limits(attempts_max=500))):
        assert Retry(attempts=500).attempts == 500


@pytest.mark.parametrize(
    ("rule", "allowed"),
    [
        (Retry(), True),
        (NEVER, False),
        (Retry(attempts=1, when=lambda failure: True), False),
        (Retry(when=lambda failure: failure.details["n"] == 1), True),
        (Retry(when=lambda failure: failure.details["n"] == 2), False),
    ],
)
def test_a_rule_allows_an_occurrence_when_attempts_and_condition_do(rule: Retry, allowed: bool) -> None:
    assert rule.allows(NETWORK_TIMEOUT(n=1)) is allowed


def test_rules_are_values_that_can_be_compared_gathered_and_sent() -> None:
    one, same = Retry(attempts_per_code={"A": 1}), Retry(attempts_per_code={"A": 1})
    assert one == same
    assert {one, same} == {one}
    assert one != Retry(attempts_per_code={"A": 2})
    assert pickle.loads(pickle.dumps(one)) == one
