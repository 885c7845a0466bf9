"""Settings: the defaults are the seed's numbers, and what cannot be meant is refused at the start."""

from __future__ import annotations

import pytest

from holdfast.lifecycle import GiveUp, RetryAfter, Stop
from holdfast.policy import decide
from holdfast_systems.conversion.faults import CONVERSION_FAULTS, IO_ERROR
from holdfast_systems.conversion.settings import BreakerMode, SettingInvalid, Settings, read_settings

FAR_S = 1e9


def test_the_default_schedule_is_5_15_45_give_or_take_a_fifth() -> None:
    backoff = Settings(retry_max_attempts=4).retry.backoff
    ranges = [backoff.range_s(attempt) for attempt in (1, 2, 3)]
    assert ranges == [pytest.approx((4, 6)), pytest.approx((12, 18)), pytest.approx((36, 54))]


def test_three_attempts_are_the_default() -> None:
    assert Settings().retry.attempts == 3


@pytest.mark.parametrize("code", ["GW_5XX", "GW_TIMEOUT"])
def test_transient_codes_are_tried_until_the_attempts_are_used(code: str) -> None:
    decisions = [
        decide(Settings().retry, CONVERSION_FAULTS[code](), attempt, 0, FAR_S, lambda: 0.5) for attempt in (1, 2, 3)
    ]
    assert decisions == [RetryAfter(5), RetryAfter(15), GiveUp(Stop.ATTEMPTS_USED)]


@pytest.mark.parametrize("code", ["GW_4XX", "NOT_PDF", "TOO_LARGE", "EXPIRED", "FORBIDDEN"])
def test_terminal_codes_are_not_tried_again(code: str) -> None:
    assert decide(Settings().retry, CONVERSION_FAULTS[code](), 1, 0, FAR_S, lambda: 0.5) == GiveUp(Stop.NOT_RETRYABLE)


def test_a_storage_failure_is_tried_once_more_and_not_when_the_disk_is_full() -> None:
    rule, failure = Settings().retry, IO_ERROR(full=False)
    assert decide(rule, failure, 1, 0, FAR_S, lambda: 0.5, code_attempt=1) == RetryAfter(5)
    assert decide(rule, failure, 2, 0, FAR_S, lambda: 0.5, code_attempt=2) == GiveUp(Stop.CODE_ATTEMPTS_USED)
    assert decide(rule, IO_ERROR(full=True), 1, 0, FAR_S, lambda: 0.5, code_attempt=1) == GiveUp(Stop.CONDITION_UNMET)


def test_the_breaker_opens_at_half_of_the_attempts_of_two_to_five_minutes_and_holds() -> None:
    settings = Settings()
    assert settings.breaker.failure_ratio == 0.5
    assert 120 <= settings.breaker.window_s <= 300
    assert settings.breaker_mode is BreakerMode.HOLD


def test_settings_come_from_the_environment_that_is_given() -> None:
    given = {
        "HOLDFAST_CONVERSION_RETRY_DELAYS_S": "0.1,0.2",
        "HOLDFAST_CONVERSION_RETRY_MAX_ATTEMPTS": "5",
        "HOLDFAST_CONVERSION_BREAKER_MODE": "fail_fast",
        "HOLDFAST_CONVERSION_GATEWAY": "http://gateway.internal:9000",
        "HOLDFAST_PORT": "1",
    }
    read = read_settings(given)
    assert (read.retry_delays_s, read.retry_max_attempts) == ((0.1, 0.2), 5)
    assert (read.breaker_mode, read.gateway) == (BreakerMode.FAIL_FAST, "http://gateway.internal:9000")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("RETRY_MAX_ATTEMPTS", "many"),
        ("RETRY_MAX_ATTEMPTS", "0"),
        ("RETRY_MAX_ATTEMPTS", "1000"),
        ("RETRY_DELAYS_S", ""),
        ("RETRY_DELAYS_S", "-5"),
        ("BREAKER_MODE", "sometimes"),
        ("BREAKER_RATIO", "2"),
        ("GATEWAY", "gateway:9000"),
        ("GATEWAY_TIMEOUT_S", "nan"),
        ("BYTES_MAX", "-1"),
        ("NO_SUCH_THING", "1"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(name: str, text: str) -> None:
    with pytest.raises(SettingInvalid, match="HOLDFAST_CONVERSION_"):
        read_settings({f"HOLDFAST_CONVERSION_{name}": text})
