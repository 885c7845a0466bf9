"""The error model: every example of its document, every retry class, every policy, and the context of each failure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.base import bus, now_us, utc_text
from holdfast.http.site import site
from holdfast.policy import Retry
from holdfast.watch.traces import trace_events
from holdfast_systems.records.faults import RECORDS, RETRY_CLASSES, RetryClass

from .live import Live, Straight

EXAMPLES: dict[str, dict[str, Any]] = {
    "INVALID_API_KEY": {
        "key_format": "Expected format: rdb_[32_chars]",
        "expiration_policy": "Keys expire after 90 days",
    },
    "API_KEY_EXPIRED": {"expired_at": "2024-08-01T00:00:00Z", "renewal_url": "https://dashboard/api-keys"},
    "VALIDATION_ERROR": {
        "errors": [{"field": "name", "value": "", "constraint": "required", "message": "Company name is required"}],
        "total_errors": 2,
    },
    "COMPANY_NOT_FOUND": {"company_uid": "CO-20240828-999999", "suggestion": "Verify company_uid"},
    "SLOT_CONFLICT": {
        "slot_uid": "SL-CO-20240828-000001-CEO",
        "current_occupant": "PE-20240801-000123",
        "resolution_options": ["force_reassign", "assign_to_different_slot", "manual_review"],
    },
    "TEMPORARY_UNAVAILABLE": {
        "maintenance_window": "2024-08-28T02:00:00Z to 2024-08-28T04:00:00Z",
        "expected_resolution": "2024-08-28T04:00:00Z",
    },
    "DATABASE_CONNECTION_ERROR": {
        "database": "neon_primary",
        "error_type": "connection_timeout",
        "retry_recommended": True,
    },
    "VALIDATION_SERVICE_ERROR": {
        "provider": "millionverifier",
        "provider_error": "service_maintenance",
        "fallback_available": True,
        "fallback_provider": "zerobounce",
    },
}
"""The details of the document's examples; those about the database and the providers are produced where those are."""
RETRY_CLASSES_OF_THE_DOCUMENT = {
    RetryClass.IMMEDIATE: ("NETWORK_TIMEOUT", "CONNECTION_RESET"),
    RetryClass.SHORT: ("DATABASE_CONNECTION_ERROR", "EXTERNAL_SERVICE_TIMEOUT", "TEMPORARY_UNAVAILABLE"),
    RetryClass.LONG: ("RATE_LIMIT_EXCEEDED", "QUOTA_EXCEEDED", "SERVICE_OVERLOADED"),
    RetryClass.FATAL: (
        "INVALID_API_KEY", "API_KEY_EXPIRED", "INSUFFICIENT_PERMISSIONS", "VALIDATION_ERROR", "MALFORMED_JSON",
        "UNSUPPORTED_CONTENT_TYPE", "COMPANY_NOT_FOUND", "DUPLICATE_RECORD", "BUSINESS_RULE_VIOLATION",
    ),
    RetryClass.CONDITIONAL: ("SLOT_CONFLICT", "VALIDATION_QUEUE_FULL", "IDEMPOTENCY_CONFLICT"),
}  # fmt: skip


def kinds(value: object) -> object:
    """What an example and an occurrence have in common."""
    if isinstance(value, dict):
        return {name: kinds(inner) for name, inner in value.items()}
    return [kinds(value[0])] if isinstance(value, list) else type(value)


def expired(live: Live) -> Any:
    account = live.account(expires_at=utc_text(now_us() + 500_000))
    account.seen("/companies", lambda body: "error_code" in body)
    return account.get("/companies")


def conflict(live: Live) -> Any:
    account = live.account()
    uid = account.company()
    account.put_slot(f"SL-{uid}-CEO", account.person(uid))
    return account.put_slot(f"SL-{uid}-CEO", account.person(uid, "Bob"))


def closed(live: Live) -> Any:
    account = live.account()
    live.operate("PUT", "/maintenance", json={"until": utc_text(now_us() + 60_000_000)})
    return account.get("/companies")


PRODUCED: dict[str, Callable[[Live], Any]] = {
    "INVALID_API_KEY": lambda live: live.http.get("/records/v1/companies"),
    "API_KEY_EXPIRED": expired,
    "VALIDATION_ERROR": lambda live: live.account().post("/companies", {"name": "", "website": "not-a-url"}),
    "COMPANY_NOT_FOUND": lambda live: live.account().get("/companies/CO-20240828-999999"),
    "SLOT_CONFLICT": conflict,
    "TEMPORARY_UNAVAILABLE": closed,
}


@pytest.mark.parametrize("code", PRODUCED)
def test_an_example_of_the_document_is_reproduced(solo: Live, code: str) -> None:
    body = PRODUCED[code](solo).json()
    assert body["error_code"] == code
    assert kinds(body["details"]) == kinds(EXAMPLES[code])
    assert {"error_code", "message", "details", "request_id", "timestamp", "documentation_url"} <= body.keys()


def test_every_reply_is_traced_by_its_request_id(live: Live) -> None:
    account = live.account()
    good = account.get("/companies", headers={"X-Request-Id": "req_mine"})
    assert good.json()["request_id"] == good.headers["x-request-id"] == "req_mine"
    bad = account.get("/companies/CO-20240828-999999", headers={"X-Request-Id": "req_other"})
    assert bad.json()["request_id"] == bad.headers["x-request-id"] == "req_other"


def test_the_page_of_a_code_opens_and_names_its_retry_class(solo: Live) -> None:
    body = solo.account().get("/companies/CO-20240828-999999").json()
    assert body["documentation_url"] == f"{solo.url}/errors/COMPANY_NOT_FOUND"
    import httpx

    with httpx.Client(transport=Straight(site([RECORDS])), base_url=solo.url) as pages:
        for code, retries in RETRY_CLASSES.items():
            page = pages.get(f"/errors/{code}", headers={"Accept": "text/html"})
            assert page.status_code == 200
            assert retries.sentence in page.text, code


def test_the_retry_classes_are_those_of_the_document() -> None:
    for retries, codes in RETRY_CLASSES_OF_THE_DOCUMENT.items():
        assert {RETRY_CLASSES[code] for code in codes} == {retries}
        for code in codes:
            assert RECORDS[code].retryable == (retries is not RetryClass.FATAL), code


def test_the_policies_are_loaded_from_their_file() -> None:
    def rule(code: str) -> Retry:
        found = RECORDS[code].rule
        assert isinstance(found, Retry)
        return found

    network, database, rate = (
        rule(code) for code in ("NETWORK_TIMEOUT", "DATABASE_CONNECTION_ERROR", "RATE_LIMIT_EXCEEDED")
    )
    assert (network.attempts, [round(network.backoff.raw_s(n), 4) for n in (1, 2, 3)]) == (5, [0.1, 0.15, 0.225])
    assert network.backoff.cap_s == 5.0
    assert (database.attempts, database.backoff.raw_s(2), database.backoff.cap_s) == (3, 2.0, 60.0)
    assert (rate.attempts, rate.backoff.raw_s(1), rate.honour_retry_after) == (3, 60.0, True)
    assert RECORDS["VALIDATION_ERROR"].rule is False
    # Codes without a policy of their own: 1 s × 2^(attempt − 1), up to 10 % more, at most 300 s.
    formula = rule("EXTERNAL_SERVICE_TIMEOUT").backoff
    assert [formula.range_s(n) for n in (1, 2, 5)] == [(1.0, 1.1), (2.0, 2.2), (16.0, 17.6)]
    assert formula.range_s(20) == (300.0, 300.0)


def test_json_and_content_types_that_are_not_ours_are_refused(solo: Live) -> None:
    account = solo.account()
    json_type = {"Content-Type": "application/json"}
    for body in (b"{", b'{"name": "a", "name": "b"}', b"\xff", b"[" * 100):
        reply = account.ask("POST", "/companies", content=body, headers=json_type)
        assert (reply.status_code, reply.json()["error_code"]) == (400, "MALFORMED_JSON"), body
    for kind in ("text/plain", "application/xml", ""):
        reply = account.ask("POST", "/companies", content=b"{}", headers={"Content-Type": kind} if kind else {})
        assert (reply.status_code, reply.json()["error_code"]) == (415, "UNSUPPORTED_CONTENT_TYPE")
        assert reply.json()["details"] == {"supported": ["application/json"]}
    large = account.post("/companies", {"name": "x" * 70_000})
    assert (large.status_code, large.json()["error_code"]) == (413, "PAYLOAD_TOO_LARGE")
    assert account.get("/nothing").json()["error_code"] == "NOT_FOUND"


def test_every_failure_is_told_with_its_context_and_shows_none_of_it(solo: Live) -> None:
    account = solo.account()
    headers = {
        "User-Agent": "curl/8",
        "X-Request-Source": "ingest-repo",
        "traceparent": f"00-{'a' * 32}-{'b' * 16}-01",
    }
    with bus.heard() as told:
        body = account.get("/companies/CO-20240828-999999", headers=headers).json()
    (facts,) = [facts for verb, facts in told if verb == "request.failed"]
    assert {name: facts[name] for name in ("trace_id", "user_agent", "api_version", "endpoint")} == {
        "trace_id": "a" * 32,
        "user_agent": "curl/8",
        "api_version": "v1",
        "endpoint": "GET /records/v1/companies/CO-20240828-999999",
    }
    assert facts["server_id"]
    assert facts["database_shard"] == "primary"
    assert (facts["account_id"], facts["request_source"]) == ("acct_acme", "ingest-repo")
    assert facts["api_key_id"].startswith("rdb_")
    assert account.key not in str(facts)
    assert facts["request_id"] == body["request_id"]
    for hidden in ("trace_id", "server_id", "api_key_id", "account_id", "user_agent"):
        assert hidden not in body


def test_a_request_is_traced_with_its_context(solo: Live) -> None:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    account = solo.account()
    end = trace_events(provider)
    try:
        account.get("/companies/CO-20240828-999999", headers={"X-Request-Source": "ingest-repo"})
    finally:
        end()
    (span,) = [one for one in exporter.get_finished_spans() if one.name.startswith("GET ")]
    told = dict(span.attributes or {})
    assert told["holdfast.code"] == "COMPANY_NOT_FOUND"
    assert (told["holdfast.account_id"], told["holdfast.request_source"]) == ("acct_acme", "ingest-repo")
    assert (told["holdfast.api_version"], told["holdfast.database_shard"]) == ("v1", "primary")
    assert account.key not in str(told)


def test_a_failure_that_comes_before_the_key_is_known_has_the_context_too(solo: Live) -> None:
    with bus.heard() as told:
        solo.http.get("/records/v1/companies", headers={"X-API-Key": "nonsense"})
    (facts,) = [facts for verb, facts in told if verb == "request.failed"]
    assert (facts["code"], facts["api_version"], facts["request_source"]) == ("INVALID_API_KEY", "v1", "direct")
