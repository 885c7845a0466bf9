"""Retry rules in plain sentences."""

from __future__ import annotations

import pytest

from holdfast.catalog import Blame, Failure, Severity
from holdfast.http.wording import BLAME, SEVERITY, retry_words, status_words
from holdfast.policy import NEVER, Backoff, Retry, Spread


@pytest.mark.parametrize(
    ("backoff", "attempts", "waits"),
    [
        (Backoff.exponential(1), 2, "1 s"),
        (Backoff.exponential(1), 5, "1 s, 2 s, 4 s and 8 s"),
        (Backoff.listed(5, 15, 45, jitter=Spread(0.2)), 4, "4 to 6 s, 12 to 18 s and 36 to 54 s"),
        (Backoff.uniform(low_s=0.5, high_s=2), 2, "500 ms to 2 s"),
        (Backoff.constant(1), 20, "1 s, 1 s, 1 s, 1 s, 1 s, 1 s, 1 s, 1 s and so on, at most 1 s"),
    ],
)
def test_the_waits_of_a_rule_are_listed(backoff: Backoff, attempts: int, waits: str) -> None:
    first = retry_words(Retry(attempts=attempts, backoff=backoff))[0]
    assert first == f"Retried: up to {attempts} attempts in all, waiting {waits}."


def test_every_bound_of_a_rule_is_a_sentence() -> None:
    rule = Retry(within_s=60, when=lambda _: True, retry_after_max_s=120)
    assert retry_words(rule)[1:] == [
        "Only when the occurrence meets the rule's condition.",
        "No attempt starts later than 60 s after the first.",
        "A longer Retry-After is waited for, up to 2 min.",
    ]
    assert retry_words(Retry(retry_after_max_s=120))[-1] == (
        "A call without a time limit ends instead where it is above 60 s."
    )
    assert retry_words(Retry(retry_after_max_s=60))[-1] == "A longer Retry-After is waited for, up to 60 s."


@pytest.mark.parametrize("rule", [False, NEVER])
def test_what_is_not_retried_says_so(rule: Retry | bool) -> None:
    assert retry_words(rule) == ["Not retried: the same request would fail the same way."]


def test_what_the_caller_decides_says_so_and_shows_the_default() -> None:
    words = retry_words(True)
    assert words[0] == "Retried as the caller's own rule says."
    assert words[1] == "Without one: up to 3 attempts in all, waiting up to 100 ms and up to 200 ms."


def test_a_rule_of_another_kind_is_not_described_wrongly() -> None:
    class Always:
        def allows(self, failure: Failure) -> bool:
            return True

    assert retry_words(Always()) == ["Retried by a rule of its own."]


@pytest.mark.parametrize(("status", "words"), [(503, "503 Service Unavailable"), (599, "599")])
def test_a_status_is_shown_with_its_name_where_it_has_one(status: int, words: str) -> None:
    assert status_words(status) == words


def test_every_blame_and_severity_has_its_words() -> None:
    assert set(BLAME) == set(Blame)
    assert set(SEVERITY) == set(Severity)
