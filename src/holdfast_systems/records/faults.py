"""What can go wrong with records: the codes of the error model, their retry class and their rules.

Always true: every code belongs to one retry class, and its page says which.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from importlib.resources import as_file, files
from typing import Any

from holdfast.artifact import ARTIFACT_FAULTS
from holdfast.catalog import Blame, Catalog, Failure, Fault, Severity
from holdfast.http import EDGE_FAULTS
from holdfast.policy import Backoff, Extra, Retry
from holdfast.policy.overlay import apply_overlay

NAME = "records"
RECORDS = Catalog(NAME, docs="/errors/", extends=(EDGE_FAULTS, ARTIFACT_FAULTS))

BACKOFF = Backoff.exponential(1.0, factor=2.0, cap_s=300.0, jitter=Extra(0.1))
"""The formula of codes without a policy of their own: 1 s × 2^(attempt − 1), up to 10 % more, at most 300 s."""
RETRY = Retry(attempts=3, backoff=BACKOFF)


class RetryClass(StrEnum):
    """When trying again may help."""

    IMMEDIATE = "immediate"
    SHORT = "short"
    LONG = "long"
    FATAL = "fatal"
    CONDITIONAL = "conditional"

    @property
    def sentence(self) -> str:
        """What the page of a code says."""
        return _SENTENCES[self]


_SENTENCES = {
    RetryClass.IMMEDIATE: "Retry class: immediate; the next attempt may follow at once.",
    RetryClass.SHORT: "Retry class: short delay; come back after 1 to 5 minutes.",
    RetryClass.LONG: "Retry class: long delay; come back after 15 minutes or later.",
    RetryClass.FATAL: "Retry class: fatal; the same request fails again until it is changed.",
    RetryClass.CONDITIONAL: "Retry class: conditional; the details of the occurrence decide.",
}


def _retry_recommended(failure: Failure) -> bool:
    return failure.details.get("retryable") is True


CONDITIONAL = Retry(attempts=3, backoff=BACKOFF, when=_retry_recommended)
"""Tried again only where the occurrence itself says so."""

RETRY_CLASSES: dict[str, RetryClass] = {}
"""The retry class of each code that this catalog declares or refines."""

_RULES: Mapping[RetryClass, Retry | bool] = {
    RetryClass.IMMEDIATE: RETRY,
    RetryClass.SHORT: RETRY,
    RetryClass.LONG: RETRY,
    RetryClass.FATAL: False,
    RetryClass.CONDITIONAL: CONDITIONAL,
}


def _told(code: str, retries: RetryClass, remedy: str) -> dict[str, Any]:
    RETRY_CLASSES[code] = retries
    return {"retry": _RULES[retries], "remedy": f"{remedy} {retries.sentence}"}


def _fault(code: str, retries: RetryClass, *, remedy: str, **said: Any) -> Fault:
    return RECORDS.fault(code, **{**_told(code, retries, remedy), **said})


def _refined(code: str, retries: RetryClass, *, remedy: str, **said: Any) -> Fault:
    return RECORDS.refine(code, **{**_told(code, retries, remedy), **said})


# -- who may come in -----------------------------------------------------------------------------------------------

KEY_FORMAT = "Expected format: rdb_[32_chars]"
EXPIRATION_POLICY = "Keys expire after 90 days"
INVALID_API_KEY = _refined(
    "INVALID_API_KEY",
    RetryClass.FATAL,
    says="This API key is not known here, or it was revoked.",
    causes=("no key was sent", "a misspelt key", "a key that was revoked"),
    remedy="Send a key that is in force as `Authorization: Bearer …` or `X-API-Key`.",
    examples=({"key_format": KEY_FORMAT, "expiration_policy": EXPIRATION_POLICY},),
)
API_KEY_EXPIRED = _refined(
    "API_KEY_EXPIRED",
    RetryClass.FATAL,
    says="This API key has expired; a new one is needed.",
    causes=("a key is older than 90 days", "the key was issued with an earlier end"),
    remedy="Ask an operator for a new key at the address in the details.",
    examples=({"expired_at": "2024-08-01T00:00:00Z", "renewal_url": "https://records.example/records/"},),
)
INSUFFICIENT_PERMISSIONS = _fault(
    "INSUFFICIENT_PERMISSIONS",
    RetryClass.FATAL,
    status=403,
    says="This API key lacks the scope {required_scope}.",
    causes=("the key was issued for something else",),
    remedy="Use a key that has the scope, or ask an operator for one.",
    examples=({"required_scope": "write", "granted_scopes": ["read"]},),
    related=("INVALID_API_KEY",),
)

# -- requests ------------------------------------------------------------------------------------------------------

VALIDATION_ERROR = _refined(
    "VALIDATION_ERROR",
    RetryClass.FATAL,
    remedy="Correct every field that the details list, then send the request again.",
    examples=(
        {
            "errors": [
                {"field": "name", "value": "", "constraint": "required", "message": "Company name is required"},
                {
                    "field": "website",
                    "value": "not-a-url",
                    "constraint": "format",
                    "message": "Website must be an http or https address",
                },
            ],
            "total_errors": 2,
        },
    ),
    related=("MALFORMED_JSON",),
)
MALFORMED_JSON = _fault(
    "MALFORMED_JSON",
    RetryClass.FATAL,
    status=400,
    says="The body is not JSON that we accept.",
    causes=("a syntax error", "a key that stands twice in one object", "nesting that is too deep", "bad UTF-8"),
    remedy="The details name the reason; correct the body.",
    examples=({"reason": "syntax", "explanation": "Expecting value: line 1 column 1 (char 0)"},),
    related=("VALIDATION_ERROR", "UNSUPPORTED_CONTENT_TYPE"),
)
UNSUPPORTED_CONTENT_TYPE = _fault(
    "UNSUPPORTED_CONTENT_TYPE",
    RetryClass.FATAL,
    status=415,
    says="This route does not take that type of content.",
    causes=("the Content-Type header is missing or wrong",),
    remedy="Send one of the types that the details list.",
    examples=({"supported": ["application/json"]},),
    related=("MALFORMED_JSON",),
)

# -- what is not there ---------------------------------------------------------------------------------------------

COMPANY_NOT_FOUND = _fault(
    "COMPANY_NOT_FOUND",
    RetryClass.FATAL,
    status=404,
    says="There is no such company.",
    causes=("a wrong company_uid", "the company was removed"),
    remedy="Verify the company_uid, or create the company first.",
    examples=({"company_uid": "CO-20240828-999999", "suggestion": "Verify company_uid or create company first"},),
)


def _missing(code: str, thing: str, remedy: str) -> Fault:
    return _fault(
        code,
        RetryClass.FATAL,
        status=404,
        says=f"There is no such {thing}.",
        causes=("a wrong id", f"the {thing} was removed"),
        remedy=remedy,
        related=("COMPANY_NOT_FOUND",),
    )


PERSON_NOT_FOUND = _missing("PERSON_NOT_FOUND", "person", "Verify the person_uid.")
SLOT_NOT_FOUND = _missing("SLOT_NOT_FOUND", "slot", "A slot is named SL-, its company's uid, and CEO, CFO or HR.")
REVIEW_NOT_FOUND = _missing("REVIEW_NOT_FOUND", "review", "List the reviews.")
IMPORT_NOT_FOUND = _missing("IMPORT_NOT_FOUND", "import", "Verify the import_id.")
VERIFICATION_NOT_FOUND = _missing("VERIFICATION_NOT_FOUND", "verification", "Verify the verification_id.")
ENRICHMENT_NOT_FOUND = _missing("ENRICHMENT_NOT_FOUND", "enrichment", "Verify the enrichment_id.")
KEY_NOT_FOUND = _missing("KEY_NOT_FOUND", "API key", "List the keys of the account.")

# -- what contradicts ----------------------------------------------------------------------------------------------

DUPLICATE_RECORD = _refined(
    "DUPLICATE_RECORD",
    RetryClass.FATAL,
    says="A record with this {field} exists already.",
    causes=("the record was created before, under another idempotency key",),
    remedy="Read the existing record, or change the value that has to be unique.",
    examples=({"field": "website", "value": "https://acme.example", "existing": "CO-20240828-000001"},),
)
BUSINESS_RULE_VIOLATION = _fault(
    "BUSINESS_RULE_VIOLATION",
    RetryClass.FATAL,
    status=422,
    says="A rule of the business forbids this: {explanation}",
    causes=("a person is put into a slot of another company", "a company that has people is removed"),
    remedy="The details name the rule; change what contradicts it.",
    examples=(
        {"rule": "person_of_another_company", "explanation": "The person belongs to another company than the slot."},
    ),
)
SLOT_CONFLICT = _fault(
    "SLOT_CONFLICT",
    RetryClass.CONDITIONAL,
    status=409,
    says="Somebody else sits in this slot.",
    causes=("another request was faster", "the slot was taken long ago"),
    remedy="Choose one of the ways out that the details list.",
    examples=(
        {
            "slot_uid": "SL-CO-20240828-000001-CEO",
            "current_occupant": "PE-20240801-000123",
            "resolution_options": ["force_reassign", "assign_to_different_slot", "manual_review"],
        },
    ),
    # A slot may be free by the time the same request comes again.
    replayed=False,
)
IDEMPOTENCY_CONFLICT = _fault(
    "IDEMPOTENCY_CONFLICT",
    RetryClass.CONDITIONAL,
    status=409,
    says="This idempotency key is in use.",
    causes=("the same request is being worked on right now", "the key was used for a different request"),
    remedy="Where the details say retryable, ask again after the time given; else use a new key.",
    examples=({"retryable": True, "reason": "in_flight"}, {"retryable": False, "reason": "payload_differs"}),
    related=("DUPLICATE_RECORD",),
)

# -- not now -------------------------------------------------------------------------------------------------------

TEMPORARY_UNAVAILABLE = _fault(
    "TEMPORARY_UNAVAILABLE",
    RetryClass.SHORT,
    status=503,
    says="The service is closed for maintenance.",
    blame=Blame.SERVER,
    causes=("an operator announced a maintenance window",),
    remedy="Come back after the end of the window.",
    examples=(
        {
            "maintenance_window": "2024-08-28T02:00:00Z to 2024-08-28T04:00:00Z",
            "expected_resolution": "2024-08-28T04:00:00Z",
        },
    ),
)
RATE_LIMIT_EXCEEDED = _refined(
    "RATE_LIMIT_EXCEEDED",
    RetryClass.LONG,
    says="This account sends requests faster than it may.",
    remedy="Wait for the time in Retry-After and send more slowly.",
    examples=({"retry_after_seconds": 60, "limit": 600, "window_seconds": 60},),
    related=("QUOTA_EXCEEDED",),
)
QUOTA_EXCEEDED = _fault(
    "QUOTA_EXCEEDED",
    RetryClass.LONG,
    status=429,
    says="The {quota} quota of this account is used up.",
    blame=Blame.CLIENT,
    causes=("more requests than the account may send in a day or a month",),
    remedy="Wait until the quota resets, or ask an operator for a larger one.",
    examples=({"quota": "daily", "limit": 10_000, "used": 10_000, "resets_at": "2024-08-29T00:00:00Z"},),
    related=("RATE_LIMIT_EXCEEDED",),
)
SERVICE_OVERLOADED = _fault(
    "SERVICE_OVERLOADED",
    RetryClass.LONG,
    status=503,
    says="The service has more to do than it can. Nothing was done.",
    blame=Blame.SERVER,
    causes=("requests wait too long for their turn", "the database has no connection free"),
    remedy="Come back after the time in Retry-After; operators look at the queueing delay and the pool.",
    examples=({"queueing_delay_ms": 850, "target_ms": 250},),
    severity=Severity.WARNING,
)
VALIDATION_QUEUE_FULL = _fault(
    "VALIDATION_QUEUE_FULL",
    RetryClass.CONDITIONAL,
    status=429,
    says="Too many verifications wait already.",
    blame=Blame.SERVER,
    causes=("providers are slower than requests come",),
    remedy="Come back after the time given; nothing was enqueued.",
    examples=({"queued": 1_000, "queue_max": 1_000, "retryable": True},),
)

# -- the database --------------------------------------------------------------------------------------------------

DATABASE_CONNECTION_ERROR = _refined(
    "DATABASE_CONNECTION_ERROR",
    RetryClass.SHORT,
    says="The database cannot be reached at the moment.",
    remedy="Wait; the connection is made again by itself.",
    examples=({"database": "primary", "error_type": "connection_refused", "retry_recommended": True},),
)

# -- the world outside ---------------------------------------------------------------------------------------------

NETWORK_TIMEOUT = _refined(
    "NETWORK_TIMEOUT", RetryClass.IMMEDIATE, remedy="Try again; what was asked for may have happened."
)
CONNECTION_RESET = _refined(
    "CONNECTION_RESET", RetryClass.IMMEDIATE, remedy="Try again; what was asked for may have happened."
)
EXTERNAL_SERVICE_TIMEOUT = _fault(
    "EXTERNAL_SERVICE_TIMEOUT",
    RetryClass.SHORT,
    status=504,
    says="An outside service did not answer in time.",
    causes=("the service is slow or gone",),
    remedy="Come back later; we have tried the fallback where there is one.",
    examples=({"external_service": "millionverifier", "retry_recommended": True},),
    related=("EXTERNAL_SERVICE_ERROR", "NETWORK_TIMEOUT"),
)
EXTERNAL_SERVICE_ERROR = _fault(
    "EXTERNAL_SERVICE_ERROR",
    RetryClass.SHORT,
    status=502,
    says="An outside service has an issue.",
    causes=("the service is down", "the service limits our rate", "its answer cannot be read"),
    remedy="The details name the service and the reason, and whether to come back.",
    examples=({"external_service": "acme.example", "reason": "rate_limited", "retry_recommended": True},),
    related=("EXTERNAL_SERVICE_TIMEOUT", "VALIDATION_SERVICE_ERROR"),
)
VALIDATION_SERVICE_ERROR = _fault(
    "VALIDATION_SERVICE_ERROR",
    RetryClass.SHORT,
    status=503,
    says="No provider could verify this e-mail address.",
    causes=("the provider and its fallback are down", "they refuse our key, or our credits are used up"),
    remedy="Come back later; operators look at the providers' status pages, keys and credits.",
    examples=(
        {
            "provider": "millionverifier",
            "provider_error": "service_maintenance",
            "fallback_available": True,
            "fallback_provider": "zerobounce",
        },
    ),
    severity=Severity.WARNING,
    related=("EXTERNAL_SERVICE_ERROR",),
)
PROVIDER_REFUSES_US = _fault(
    "PROVIDER_REFUSES_US",
    RetryClass.FATAL,
    status=502,
    says="A provider does not serve this installation.",
    technical="{provider} refuses our requests: {provider_error}",
    blame=Blame.SERVER,
    causes=("its API key is wrong or was revoked", "the credits are used up", "it blocks our address"),
    remedy="Correct the provider's key in the settings, or buy credits; meanwhile the fallback answers.",
    examples=({"provider": "millionverifier", "provider_error": "no_credits"},),
    severity=Severity.CRITICAL,
)


def with_policies(catalog: Catalog) -> Catalog:
    """Let the rules of `policies.yml` win over those that the catalog declares."""
    with as_file(files("holdfast_systems.records").joinpath("policies.yml")) as path:
        apply_overlay(path, catalog)
    return catalog


def catalog_at(root: str) -> Catalog:
    """The same catalog with addresses of its pages that can be opened from anywhere; `root` has no slash at the end."""
    return with_policies(Catalog(NAME, docs=f"{root}/errors/", extends=(RECORDS,)))


with_policies(RECORDS)
