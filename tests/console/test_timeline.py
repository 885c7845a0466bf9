"""The attempt timeline: who named the wait before the next attempt, and for how long."""

from __future__ import annotations

import re
from typing import Any

import pytest

from holdfast.console.timeline import timeline
from holdfast.console.visit import Visit

AT_US = 1_800_000_000_000_000


def told(**facts: Any) -> str:
    """One attempt that failed and is tried again, as text."""
    wait_s = facts.pop("wait_s", None)
    event = {
        "verb": "retried",
        "at_us": AT_US,
        "attempt": 1,
        "worker": "w-1",
        "code": None,
        "upstream_status": None,
        "remote_code": None,
        "remote_message": None,
        "traceback": None,
        "duration_us": None,
        "due_us": None if wait_s is None else AT_US + int(wait_s * 1_000_000),
        "reason": None,
        **facts,
    }
    return re.sub(r"<[^>]+>", "|", timeline(Visit(), [event], AT_US))


def test_a_wait_that_the_other_side_named_is_said_to_be_so() -> None:
    said = told(upstream_status=429, wait_s=30, reason="Retry-After 30 s: too many")
    assert "429, Retry-After 30 → next at" in said
    assert said.count("Retry-After") == 1, "not again in the reason"
    assert "too many" in said


def test_a_wait_that_is_shorter_than_asked_says_both() -> None:
    said = told(upstream_status=503, wait_s=900, reason="Retry-After 86400 s: closed for today")
    assert "503, Retry-After 86400, waits 15 min → next at" in said


def test_a_wait_of_our_own_is_not_put_on_the_other_side() -> None:
    assert "503, waits 5 s → next at" in told(upstream_status=503, wait_s=5, reason="the other side is away")


@pytest.mark.parametrize(
    "reason", ["Retry-After 1.2.3 s: x", "Retry-After  s: x", "Retry-After -5 s: x", "Retry-After 1e999 s: x"]
)
def test_what_only_resembles_one_breaks_nothing(reason: str) -> None:
    assert "next at" in told(upstream_status=429, wait_s=5, reason=reason)


def test_a_reason_is_shown_without_the_secrets_in_it() -> None:
    said = told(wait_s=5, reason="503 from https://ada:hunter22@gateway/convert")
    assert "hunter22" not in said
    assert "https://ada:***@gateway" in said
