"""Errors worth another attempt only under a condition (004), and what a policy file makes of a decision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.catalog import CORE, Catalog
from holdfast.catalog.failure import Failure
from holdfast.lifecycle import Decision, GiveUp, RetryAfter, Stop
from holdfast.policy.backoff import Backoff
from holdfast.policy.decide import decide
from holdfast.policy.overlay import apply_overlay
from holdfast.policy.retry import Retry


def same_payload(failure: Failure) -> bool:
    return failure.details.get("stored_hash") == failure.details.get("request_hash") is not None


def slot_may_become_free(failure: Failure) -> bool:
    return failure.details.get("being_released", False) is True


def queue_moves(failure: Failure) -> bool:
    return failure.details.get("processed_per_minute", 0) > 0


@pytest.fixture
def errors() -> Catalog:
    catalog = Catalog("records", extends=(CORE,))
    conditions = {
        "IDEMPOTENCY_CONFLICT": (409, same_payload),
        "SLOT_CONFLICT": (409, slot_may_become_free),
        "VALIDATION_QUEUE_FULL": (503, queue_moves),
    }
    for code, (status, when) in conditions.items():
        rule = Retry(attempts=3, backoff=Backoff.constant(1.0), when=when)
        catalog.fault(code, status=status, says="Conflict.", retry=rule)
    return catalog


def after_the_first_attempt(failure: Failure, retry: Retry | None = None) -> Decision:
    return decide(retry, failure, 1, 0.0, 1e9, lambda: 0.0)


CASES = [
    ("IDEMPOTENCY_CONFLICT", {"stored_hash": "a1", "request_hash": "a1"}, True),
    ("IDEMPOTENCY_CONFLICT", {"stored_hash": "a1", "request_hash": "b2"}, False),
    ("IDEMPOTENCY_CONFLICT", {}, False),
    ("SLOT_CONFLICT", {"slot_uid": "SL-CO-20240828-000001-CEO", "being_released": True}, True),
    ("SLOT_CONFLICT", {"slot_uid": "SL-CO-20240828-000001-CEO"}, False),
    ("VALIDATION_QUEUE_FULL", {"processed_per_minute": 40}, True),
    ("VALIDATION_QUEUE_FULL", {"processed_per_minute": 0}, False),
]


@pytest.mark.parametrize(("code", "details", "again"), CASES)
@pytest.mark.parametrize("operation", [None, Retry(attempts=5)])
def test_a_conditional_error_is_retried_only_when_its_condition_holds(
    errors: Catalog, code: str, details: dict[str, Any], again: bool, operation: Retry | None
):
    failure = errors[code](**details)
    assert failure.retryable is again
    expected = RetryAfter(1.0) if again else GiveUp(Stop.CONDITION_UNMET)
    assert after_the_first_attempt(failure, operation) == expected


@pytest.mark.parametrize(("code", "details", "again"), CASES)
def test_an_overlay_changes_the_numbers_and_keeps_the_condition(
    errors: Catalog, tmp_path: Path, code: str, details: dict[str, Any], again: bool
):
    path = tmp_path / "policies.toml"
    path.write_text(f"[retry_policies.{code}]\nmax_attempts = 7\ndelays_ms = [250]\njitter = 0\n")
    apply_overlay(path, errors)
    failure = errors[code](**details)
    assert failure.retryable is again
    expected = RetryAfter(0.25) if again else GiveUp(Stop.CONDITION_UNMET)
    assert after_the_first_attempt(failure) == expected
    if again:
        assert decide(None, failure, 6, 0.0, 1e9, lambda: 0.0) == RetryAfter(0.25)
        assert decide(None, failure, 7, 0.0, 1e9, lambda: 0.0) == GiveUp(Stop.ATTEMPTS_USED)


def test_an_overlay_can_still_forbid_what_the_condition_would_allow(errors: Catalog, tmp_path: Path):
    path = tmp_path / "policies.toml"
    path.write_text("[retry_policies.IDEMPOTENCY_CONFLICT]\nfatal = true\n")
    apply_overlay(path, errors)
    failure = errors["IDEMPOTENCY_CONFLICT"](stored_hash="a1", request_hash="a1")
    assert not failure.retryable
    assert after_the_first_attempt(failure) == GiveUp(Stop.NOT_RETRYABLE)


def test_a_condition_that_holds_still_uses_attempts_up(errors: Catalog):
    failure = errors["SLOT_CONFLICT"](being_released=True)
    assert decide(None, failure, 3, 0.0, 1e9, lambda: 0.0) == GiveUp(Stop.ATTEMPTS_USED)
    assert decide(Retry(attempts=9), failure, 5, 0.0, 1e9, lambda: 0.0) == GiveUp(Stop.CODE_ATTEMPTS_USED)


def test_a_condition_returns_when_a_later_file_no_longer_forbids_the_code(errors: Catalog, tmp_path: Path):
    path = tmp_path / "policies.toml"
    for rule in ("fatal = true", "max_attempts = 9"):
        path.write_text(f"[retry_policies.SLOT_CONFLICT]\n{rule}\n")
        apply_overlay(path, errors)
    assert errors["SLOT_CONFLICT"](being_released=True).retryable
    assert not errors["SLOT_CONFLICT"]().retryable


def test_the_condition_of_a_rule_that_is_no_retry_is_kept_too(errors: Catalog, tmp_path: Path):
    class Own:
        def allows(self, failure: Failure) -> bool:
            return "blue" in failure.details

    errors.fault("MOON", status=503, says="The moon is wrong.", retry=Own())
    path = tmp_path / "policies.toml"
    path.write_text("[retry_policies.MOON]\nmax_attempts = 9\n")
    apply_overlay(path, errors)
    assert errors["MOON"](blue=1).retryable
    assert not errors["MOON"]().retryable


@pytest.mark.parametrize(("attempt", "low_s", "high_s"), [(1, 0.1, 0.11), (2, 0.15, 0.165), (4, 0.3375, 0.37125)])
def test_the_backoff_of_an_overlay_is_what_a_retry_waits(
    errors: Catalog, tmp_path: Path, attempt: int, low_s: float, high_s: float
):
    path = tmp_path / "policies.toml"
    path.write_text(
        "[retry_policies.NETWORK_TIMEOUT]\nmax_attempts = 5\nbase_delay_ms = 100\nbackoff_multiplier = 1.5\n"
    )
    apply_overlay(path, errors)
    failure = errors["NETWORK_TIMEOUT"]()
    for dice, delay_s in ((0.0, low_s), (1.0, high_s)):
        decision = decide(None, failure, attempt, 0.0, 1e9, lambda dice=dice: dice)
        assert isinstance(decision, RetryAfter)
        assert decision.delay_s == pytest.approx(delay_s)
    assert decide(None, failure, 5, 0.0, 1e9, lambda: 0.0) == GiveUp(Stop.ATTEMPTS_USED)
