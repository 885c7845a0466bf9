"""What providers say about an e-mail address, in one vocabulary. Pure.

Both providers answer 200 when they refuse: the body decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from holdfast_systems.records.faults import EXTERNAL_SERVICE_ERROR, PROVIDER_REFUSES_US

WORDS_CHARS_MAX = 100


class Result(StrEnum):
    """Whether the address receives mail."""

    VALID = "valid"
    INVALID = "invalid"
    CATCH_ALL = "catch_all"
    """The server takes mail for any address."""
    DISPOSABLE = "disposable"
    RISKY = "risky"
    """A spam trap, an address that complains, or one that should not be written to."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a provider says."""

    provider: str
    result: Result
    details: Mapping[str, Any] = field(default_factory=dict)
    again: bool = False
    """Whether the same question may be answered better a little later."""


_MILLIONVERIFIER = {
    "ok": Result.VALID,
    "catch_all": Result.CATCH_ALL,
    "unknown": Result.UNKNOWN,
    "disposable": Result.DISPOSABLE,
    "invalid": Result.INVALID,
}
_REFUSALS = {
    "apikey not found": "bad_key",
    "no api specified": "bad_key",
    "insufficient credits": "no_credits",
    "ip address blocked": "address_blocked",
}
_ZEROBOUNCE = {
    "valid": Result.VALID,
    "invalid": Result.INVALID,
    "catch-all": Result.CATCH_ALL,
    "unknown": Result.UNKNOWN,
    "spamtrap": Result.RISKY,
    "abuse": Result.RISKY,
    "do_not_mail": Result.RISKY,
}
_ZEROBOUNCE_AGAIN = frozenset(
    {
        "timeout_exceeded",
        "mail_server_temporary_error",
        "mail_server_did_not_respond",
        "greylisted",
        "exception_occurred",
    }
)
"""Sub-statuses of `unknown` that a little time may cure."""


def millionverifier_verdict(answer: Mapping[str, Any]) -> Verdict:
    """What an answer of MillionVerifier says.

    Raises:
        Failure: PROVIDER_REFUSES_US for our key, credits or address; EXTERNAL_SERVICE_ERROR for anything else.
    """
    provider, result, error = "millionverifier", _text(answer, "result"), _text(answer, "error")
    if result == "error" or (error and result not in _MILLIONVERIFIER):
        reason = next((name for words, name in _REFUSALS.items() if words in error.lower()), "")
        if reason:
            raise PROVIDER_REFUSES_US(provider=provider, provider_error=reason)
        raise EXTERNAL_SERVICE_ERROR(external_service=provider, reason="provider_error", retry_recommended=True)
    if result not in _MILLIONVERIFIER:
        raise EXTERNAL_SERVICE_ERROR(external_service=provider, reason="unreadable_answer", retry_recommended=True)
    details = {name: answer[name] for name in ("quality", "subresult", "free", "role") if name in answer}
    found = _MILLIONVERIFIER[result]
    return Verdict(provider=provider, result=found, details=details)


def zerobounce_verdict(answer: Mapping[str, Any]) -> Verdict:
    """What an answer of ZeroBounce says.

    Raises:
        Failure: PROVIDER_REFUSES_US for our key or credits; EXTERNAL_SERVICE_ERROR for anything else.
    """
    provider, status, error = "zerobounce", _text(answer, "status"), _text(answer, "error")
    if error:
        # It has one sentence for both.
        reason = "no_credits" if "credit" in error.lower() and "api key" not in error.lower() else "bad_key"
        if "api key" in error.lower() or "credit" in error.lower():
            raise PROVIDER_REFUSES_US(provider=provider, provider_error=reason)
        raise EXTERNAL_SERVICE_ERROR(external_service=provider, reason="provider_error", retry_recommended=True)
    if status not in _ZEROBOUNCE:
        raise EXTERNAL_SERVICE_ERROR(external_service=provider, reason="unreadable_answer", retry_recommended=True)
    details = {name: answer[name] for name in ("sub_status", "free_email", "mx_found") if name in answer}
    again = status == "unknown" and _text(answer, "sub_status") in _ZEROBOUNCE_AGAIN
    return Verdict(provider=provider, result=_ZEROBOUNCE[status], details=details, again=again)


def _text(answer: Mapping[str, Any], name: str) -> str:
    value = answer.get(name)
    return value[:WORDS_CHARS_MAX] if isinstance(value, str) else ""
