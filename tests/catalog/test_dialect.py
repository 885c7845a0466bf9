"""The four dialects are exactly what their readers expect, and show nothing they should not."""

from __future__ import annotations

import json

import pytest

from holdfast.catalog import Catalog, Context, Failure, enriched
from holdfast.catalog.dialect import Dialect, Rendered, document, render

shop = Catalog("shop")
INSUFFICIENT_CREDITS = shop.fault("INSUFFICIENT_CREDITS", status=403, says="Not enough credits to run this instance.")
INVALID_PAYLOAD = shop.fault("INVALID_PAYLOAD", status=400, says="The payload is not valid: {field}.")
UNAUTHORIZED = shop.fault("UNAUTHORIZED", status=401, says="Signature verification failed")
RATE_LIMIT_EXCEEDED = shop.fault("RATE_LIMIT_EXCEEDED", status=429, says="Rate limit exceeded", retry=True)

documented = Catalog("documented", docs="https://docs.render-for-db.com/errors")
AT_US = 1_724_859_000_000_000
"""2024-08-28T15:30:00Z"""


def body_of(rendered: Rendered) -> dict:
    return json.loads(rendered.body)


def test_nested_is_the_canonical_error_response():
    with enriched(trace_id="..."):
        failure = INSUFFICIENT_CREDITS(instanceId="inst_...", balance=12, requiredBudget=25)
    assert body_of(render(failure, Dialect.NESTED)) == {
        "error": {
            "code": "INSUFFICIENT_CREDITS",
            "message": "Not enough credits to run this instance.",
            "details": {"instanceId": "inst_...", "balance": 12, "requiredBudget": 25},
            "traceId": "...",
        }
    }


@pytest.mark.parametrize(
    ("context", "trace_id"),
    [
        (Context(trace_id="t1", request_id="r1"), "t1"),
        (Context(request_id="r1"), "r1"),
        (Context(), ""),
    ],
)
def test_nested_always_has_details_and_a_trace_id(context, trace_id):
    error = document(Failure(INSUFFICIENT_CREDITS, context=context), Dialect.NESTED)["error"]
    assert list(error) == ["code", "message", "details", "traceId"]
    assert error["details"] == {}
    assert error["traceId"] == trace_id


FLAT_EXAMPLES = [
    (
        INVALID_PAYLOAD("Missing required field: actor.username", field="actor.username", reason="required"),
        400,
        {
            "error": "Missing required field: actor.username",
            "code": "INVALID_PAYLOAD",
            "details": {"field": "actor.username", "reason": "required"},
        },
    ),
    (UNAUTHORIZED(), 401, {"error": "Signature verification failed", "code": "UNAUTHORIZED"}),
    (
        RATE_LIMIT_EXCEEDED(retry_after_s=60, retry_after_seconds=60, limit=1000, window_seconds=60),
        429,
        {
            "error": "Rate limit exceeded",
            "code": "RATE_LIMIT_EXCEEDED",
            "details": {"retry_after_seconds": 60, "limit": 1000, "window_seconds": 60},
        },
    ),
    (
        INVALID_PAYLOAD(
            "Timestamp is too old: 40 days",
            field="proof.timestamp",
            reason="exceeds_max_age",
            max_age_days=30,
            actual_age_days=40,
        ),
        400,
        {
            "error": "Timestamp is too old: 40 days",
            "code": "INVALID_PAYLOAD",
            "details": {
                "field": "proof.timestamp",
                "reason": "exceeds_max_age",
                "max_age_days": 30,
                "actual_age_days": 40,
            },
        },
    ),
]


@pytest.mark.parametrize(("failure", "status", "body"), FLAT_EXAMPLES)
def test_flat_is_each_example_of_its_document(failure, status, body):
    rendered = render(failure, Dialect.FLAT)
    assert rendered.status == status
    assert rendered.body == json.dumps(body, separators=(",", ":")).encode()


FULL_EXAMPLES = [
    {
        "error_code": "MACHINE_READABLE_CODE",
        "message": "Human-readable description",
        "details": {"field": "problematic_field", "value": "invalid_value", "constraint": "validation_rule"},
        "request_id": "req_unique_identifier",
        "timestamp": "2024-08-28T15:30:00Z",
        "retry_after": 60,
        "documentation_url": "https://docs.render-for-db.com/errors/MACHINE_READABLE_CODE",
    },
    {
        "error_code": "INVALID_API_KEY",
        "message": "The provided API key is invalid or expired",
        "details": {
            "key_format": "Expected format: rdb_[32_chars]",
            "expiration_policy": "Keys expire after 90 days",
        },
        "request_id": "req_auth_001",
    },
    {
        "error_code": "API_KEY_EXPIRED",
        "message": "API key has expired and needs renewal",
        "details": {
            "expired_at": "2024-08-01T00:00:00Z",
            "renewal_url": "https://dashboard.render-for-db.com/api-keys",
        },
        "request_id": "req_auth_002",
    },
    {
        "error_code": "VALIDATION_ERROR",
        "message": "Request validation failed",
        "details": {
            "errors": [
                {
                    "field": "email",
                    "value": "invalid-email",
                    "constraint": "format",
                    "message": "Must be valid email format",
                },
                {
                    "field": "company_uid",
                    "value": "INVALID-123",
                    "constraint": "pattern",
                    "message": "Must match pattern: CO-YYYYMMDD-######",
                },
            ]
        },
        "request_id": "req_val_001",
    },
    {
        "error_code": "COMPANY_NOT_FOUND",
        "message": "Referenced company does not exist",
        "details": {
            "company_uid": "CO-20240828-999999",
            "suggestion": "Verify company_uid or create company first",
        },
        "request_id": "req_biz_001",
    },
    {
        "error_code": "SLOT_CONFLICT",
        "message": "Target slot is already occupied by another person",
        "details": {
            "slot_uid": "SL-CO-20240828-000001-CEO",
            "current_occupant": "PE-20240801-000123",
            "resolution_options": ["force_reassign", "assign_to_different_slot", "manual_review"],
        },
        "request_id": "req_biz_002",
    },
    {
        "error_code": "TEMPORARY_UNAVAILABLE",
        "message": "Service temporarily unavailable due to maintenance",
        "details": {
            "maintenance_window": "2024-08-28T02:00:00Z to 2024-08-28T04:00:00Z",
            "expected_resolution": "2024-08-28T04:00:00Z",
        },
        "retry_after": 3600,
        "request_id": "req_temp_001",
    },
    {
        "error_code": "DATABASE_CONNECTION_ERROR",
        "message": "Unable to connect to database",
        "details": {"database": "neon_primary", "error_type": "connection_timeout", "retry_recommended": True},
        "retry_after": 30,
        "request_id": "req_db_001",
    },
    {
        "error_code": "VALIDATION_SERVICE_ERROR",
        "message": "Email validation service unavailable",
        "details": {
            "provider": "millionverifier",
            "provider_error": "service_maintenance",
            "fallback_available": True,
            "fallback_provider": "zerobounce",
        },
        "retry_after": 300,
        "request_id": "req_ext_001",
    },
    {
        "error_code": "VALIDATION_ERROR",
        "message": "Request validation failed on multiple fields",
        "details": {
            "errors": [
                {"field": "name", "value": "", "constraint": "required", "message": "Company name is required"},
                {
                    "field": "website",
                    "value": "not-a-url",
                    "constraint": "format",
                    "message": "Website must be valid URL",
                },
            ],
            "total_errors": 2,
        },
        "request_id": "req_val_error_001",
        "timestamp": "2024-08-28T15:30:00Z",
        "documentation_url": "https://docs.render-for-db.com/errors/VALIDATION_ERROR",
    },
]
FULL_KEYS = ["error_code", "message", "details", "request_id", "timestamp", "retry_after", "documentation_url"]


def occurrence(example: dict) -> Failure:
    """The failure that the example shows, in a catalog with documentation pages where the example links to one."""
    code, message = example["error_code"], example["message"]
    catalog = Catalog("records", docs=documented.docs if "documentation_url" in example else "")
    fault = catalog.fault(code, status=500, says=message)
    failure = Failure(
        fault,
        details=example["details"],
        retry_after_s=example.get("retry_after"),
        context=Context(request_id=example["request_id"]),
    )
    failure.at_us = AT_US
    return failure


@pytest.mark.parametrize("example", FULL_EXAMPLES, ids=lambda example: example["request_id"])
def test_full_is_each_example_of_its_document(example):
    body = body_of(render(occurrence(example), Dialect.FULL))
    # Most examples leave out the optional timestamp; we always send it.
    assert body == {"timestamp": "2024-08-28T15:30:00Z"} | example
    assert list(body) == [key for key in FULL_KEYS if key in body]


def test_full_leaves_optional_members_out_and_makes_up_a_request_id():
    body = body_of(render(Failure(UNAUTHORIZED, context=Context()), Dialect.FULL))
    assert list(body) == ["error_code", "message", "request_id", "timestamp"]
    assert body["request_id"].startswith("req_")


def test_problem_has_the_members_of_rfc_9457_and_ours_beside_them():
    fault = documented.fault("SLOT_TAKEN", status=409, says="The slot {slot} is taken.")
    context = Context(request_id="req_1", trace_id="abc")
    rendered = render(Failure(fault, details={"slot": "CEO"}, retry_after_s=1.2, context=context), Dialect.PROBLEM)
    assert rendered.status == 409
    assert rendered.headers == (("Content-Type", "application/problem+json"), ("Retry-After", "2"))
    assert body_of(rendered) == {
        "type": "https://docs.render-for-db.com/errors/SLOT_TAKEN",
        "title": "Slot taken",
        "status": 409,
        "detail": "The slot CEO is taken.",
        "instance": "urn:request:req_1",
        "code": "SLOT_TAKEN",
        "details": {"slot": "CEO"},
        "request_id": "req_1",
        "trace_id": "abc",
        "retry_after": 2,
    }


def test_problem_without_a_page_has_no_type_and_the_title_of_its_status():
    body = document(Failure(UNAUTHORIZED, "Wrong key", context=Context()), Dialect.PROBLEM)
    assert body == {
        "type": "about:blank",
        "title": "Unauthorized",
        "status": 401,
        "detail": "Wrong key",
        "code": "UNAUTHORIZED",
    }


@pytest.mark.parametrize(
    ("fault", "title"),
    [
        (documented.fault("PLAIN_WORDS", status=400, says="Plain words."), "Plain words."),
        (documented.fault("SOME_FACTS", status=400, says="Some {facts}."), "Some facts"),
        (shop.fault("ODD_STATUS", status=599, says="Odd."), "Odd."),
    ],
)
def test_a_title_is_the_same_for_every_occurrence(fault, title):
    first = document(fault("One sentence.", facts=1), Dialect.PROBLEM)
    second = document(fault("Another sentence.", facts=2), Dialect.PROBLEM)
    assert first["title"] == second["title"] == title


def test_an_instance_is_a_valid_urn_whatever_the_request_id():
    failure = Failure(UNAUTHORIZED, context=Context(request_id="a b/ü\ud800"))
    assert document(failure, Dialect.PROBLEM)["instance"] == "urn:request:a%20b%2F%C3%BC%3F"


@pytest.mark.parametrize("dialect", Dialect)
@pytest.mark.parametrize(
    ("wait_s", "header"),
    [
        (None, None),
        (0, "0"),
        (0.01, "1"),
        (60, "60"),
        (60.5, "61"),
        (1e12, "86400"),
        (-3.0, None),
        (float("nan"), None),
    ],
)
def test_retry_after_is_whole_seconds_rounded_up(dialect, wait_s, header):
    rendered = render(RATE_LIMIT_EXCEEDED(retry_after_s=wait_s), dialect)
    assert dict(rendered.headers).get("Retry-After") == header
    if dialect in {Dialect.FULL, Dialect.PROBLEM}:
        assert body_of(rendered).get("retry_after") == (None if header is None else int(header))


@pytest.mark.parametrize("dialect", Dialect)
@pytest.mark.parametrize(
    ("status", "retry", "asked_s", "header"),
    [
        (503, True, None, "1"),
        (503, True, 30.0, "30"),
        (503, False, None, None),
        (502, True, None, None),
        (429, True, None, None),
    ],
)
def test_a_503_that_may_be_tried_again_always_says_when(dialect, status, retry, asked_s, header):
    fault = Catalog("shop").fault("AWAY", status=status, retry=retry, says="The shop is away.")
    assert dict(render(fault(retry_after_s=asked_s), dialect).headers).get("Retry-After") == header
