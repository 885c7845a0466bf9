"""A part of the wrong type is refused when the link is made, with how it is written."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.catalog import Classifier
from holdfast.catalog.core import NOT_FOUND
from holdfast.guard import Link
from holdfast.policy import Breaker, Budget, Concurrency, PolicyInvalid, RateLimit, Retry


@pytest.mark.parametrize(
    ("part", "told"),
    [
        ({"retry": 5}, "shop → bank: retry: 5 is not a Retry; write Retry(attempts=5)"),
        ({"retry": True}, "shop → bank: retry: True is not a Retry; write Retry(attempts=3)"),
        ({"retry": Retry}, "shop → bank: retry: the class Retry is not a Retry; write Retry(attempts=3)"),
        ({"breaker": Breaker}, "shop → bank: breaker: the class Breaker is not a Breaker; write Breaker()"),
        ({"rate": 100}, "shop → bank: rate: 100 is not a RateLimit; write RateLimit(count=100, per_s=1)"),
        ({"concurrency": 10}, "shop → bank: concurrency: 10 is not a Concurrency; write Concurrency(count=10)"),
        ({"budget": 0.1}, "shop → bank: budget: 0.1 is not a Budget; write Budget()"),
        (
            {"classifier": {"a": 1}},
            "shop → bank: classifier: {'a': 1} is not a Classifier; write Classifier({BankClosed: BANK_SILENT})",
        ),
    ],
)
def test_a_part_of_the_wrong_type_is_refused_with_how_it_is_written(part: dict[str, Any], told: str) -> None:
    with pytest.raises(PolicyInvalid) as refused:
        Link("shop → bank", **part)
    assert str(refused.value) == told


def test_what_is_shown_of_a_wrong_part_is_short() -> None:
    with pytest.raises(PolicyInvalid) as refused:
        Link("a", retry="x" * 10_000)  # type: ignore[arg-type]
    assert len(str(refused.value)) < 150


def test_what_the_messages_say_can_be_written() -> None:
    class BankClosed(Exception):
        """Of the example."""

    Link(
        "shop → bank",
        retry=Retry(attempts=3),
        breaker=Breaker(),
        rate=RateLimit(count=100, per_s=1),
        concurrency=Concurrency(count=10),
        budget=Budget(),
        classifier=Classifier({BankClosed: NOT_FOUND}),
    )


def test_a_part_may_be_of_a_type_of_ones_own() -> None:
    class Patient(Retry):
        """A kind of its own."""

    assert Link("a", retry=Patient(attempts=7)).retry == Patient(attempts=7)
