"""What a callee wrote is read back, whatever it wrote."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.base import REAL, Limits, Private, limits, plain, replaced, utc_text
from holdfast.catalog import CORE, Catalog, Context, Failure, enriched
from holdfast.catalog.dialect import Dialect, render
from holdfast.catalog.parsing import ID_CHARS_MAX, dialect_of, parse

NESTED = {"error": {"code": "INSTANCE_PAUSED", "message": "It sleeps.", "details": {"id": 1}, "traceId": "t1"}}
FLAT = {"error": "It sleeps.", "code": "INSTANCE_PAUSED", "details": {"id": 1}}
FULL = {"error_code": "INSTANCE_PAUSED", "message": "It sleeps.", "details": {"id": 1}, "request_id": "r1"}
PROBLEM = {"type": "about:blank", "title": "Conflict", "status": 409, "detail": "It sleeps."} | {
    "code": "INSTANCE_PAUSED",
    "details": {"id": 1},
}
SHAPES = [
    (Dialect.NESTED, NESTED),
    (Dialect.FLAT, FLAT),
    (Dialect.FULL, FULL),
    (Dialect.PROBLEM, PROBLEM),
]


@pytest.mark.parametrize(("dialect", "body"), SHAPES)
def test_each_dialect_is_recognised_by_its_shape(dialect, body):
    assert dialect_of(body) is dialect
    failure = parse(json.dumps(body).encode())
    assert (failure.code, failure.message, failure.details) == ("INSTANCE_PAUSED", "It sleeps.", {"id": 1})


@pytest.mark.parametrize("give", [json.dumps, lambda body: json.dumps(body).encode(), lambda body: body])
def test_a_body_may_be_text_bytes_or_a_dict(give):
    assert parse(give(FULL)).context.request_id == "r1"


@pytest.mark.parametrize(
    "body", [{}, [], "text", 5, None, {"error_code": 5}, {"error": 5}, {"company_uid": "CO-1", "status": "created"}]
)
def test_other_bodies_have_no_dialect(body):
    assert dialect_of(body) is None


# -- whether it is retried ---------------------------------------------------------------------------------------


def test_the_rule_of_the_catalog_decides_against_the_status():
    catalog = Catalog("shop")
    never = catalog.fault("INSTANCE_PAUSED", status=503, says="Paused.")
    failure = parse(FLAT, status=503, headers={"Retry-After": "5"}, catalog=catalog)
    assert failure.fault is never
    assert not failure.retryable
    assert failure.retry_after_s == 5.0


@pytest.mark.parametrize(
    ("status", "retried"),
    [(400, False), (401, False), (403, False), (404, False), (413, False), (422, False), (501, False)]
    + [(status, True) for status in (408, 425, 429, 500, 502, 503, 504)],
)
@pytest.mark.parametrize("catalog", [None, Catalog("empty")])
def test_the_status_decides_for_an_unknown_code(status, retried, catalog):
    failure = parse(FLAT, status=status, catalog=catalog)
    assert (failure.retryable, failure.status, failure.code) == (retried, status, "INSTANCE_PAUSED")


def test_an_unknown_code_without_a_status_is_not_retried():
    failure = parse(FLAT)
    assert (failure.retryable, failure.status) == (False, 500)


def test_a_time_to_wait_makes_an_unknown_code_retryable():
    assert parse(FULL | {"retry_after": 300}).retryable
    assert parse(FULL, status=409, headers={"retry-after": "0"}).retryable


def test_an_unknown_code_is_not_added_to_the_catalog():
    catalog = Catalog("shop")
    parse(FLAT, catalog=catalog)
    assert len(catalog) == 0
    assert "INSTANCE_PAUSED" not in CORE


@pytest.mark.parametrize(
    "code",
    [
        "NETWORK_TIMEOUT",
        "CONNECTION_RESET",
        "DATABASE_CONNECTION_ERROR",
        "EXTERNAL_SERVICE_TIMEOUT",
        "TEMPORARY_UNAVAILABLE",
        "RATE_LIMIT_EXCEEDED",
        "QUOTA_EXCEEDED",
        "SERVICE_OVERLOADED",
    ],
)
@pytest.mark.parametrize("catalog", [None, Catalog("empty")])
def test_a_code_that_is_retryable_everywhere_needs_no_status(code, catalog):
    assert parse({"error_code": code, "message": "m", "request_id": "r"}, catalog=catalog).retryable


@pytest.mark.parametrize(
    "code",
    [
        "INVALID_API_KEY",
        "API_KEY_EXPIRED",
        "INSUFFICIENT_PERMISSIONS",
        "VALIDATION_ERROR",
        "MALFORMED_JSON",
        "UNSUPPORTED_CONTENT_TYPE",
        "COMPANY_NOT_FOUND",
        "DUPLICATE_RECORD",
        "BUSINESS_RULE_VIOLATION",
    ],
)
def test_a_fatal_code_is_not_retried(code):
    assert not parse({"error_code": code, "message": "m", "request_id": "r"}).retryable


def test_a_callee_with_an_internal_error_is_tried_again_though_our_own_is_not():
    assert parse({"error": "Unexpected", "code": "INTERNAL_ERROR"}, status=500).retryable
    assert not parse({"error": "Unexpected", "code": "INTERNAL_ERROR"}).retryable


def test_without_a_catalog_the_core_knows_its_codes():
    assert parse({"error": "Down", "code": "SERVICE_UNAVAILABLE"}).fault is CORE["SERVICE_UNAVAILABLE"]


# -- what it carries ---------------------------------------------------------------------------------------------


def test_the_message_is_shown_as_it_was_received():
    words = "{id} {id.__class__} {{x}} } {"
    assert parse(FLAT | {"error": words}).message == words


def test_a_long_message_is_cut():
    assert len(parse(FLAT | {"error": "x" * 50_000}).message) == limits().message_chars_max


def test_a_reply_without_words_gets_those_of_the_fault():
    assert parse({"error_code": "NOT_FOUND"}).message == CORE["NOT_FOUND"].says


def test_large_details_are_cut_on_arrival():
    with replaced(replace(REAL, limits=Limits(details_bytes_max=40))):
        assert parse(FLAT | {"details": {"a": 1, "b": "x" * 99}}).details == {"truncated": True, "a": 1}


@pytest.mark.parametrize(
    ("body", "headers", "wait_s"),
    [
        (FULL | {"retry_after": 30}, {"Retry-After": "60"}, 30.0),
        (FULL | {"retry_after": "soon"}, {"Retry-After": "60"}, 60.0),
        (PROBLEM | {"retry_after": 2.5}, None, 2.5),
        (FLAT | {"details": {"retry_after_seconds": 60}}, {"RETRY-AFTER": "5"}, 60.0),
        (FLAT, {"RETRY-AFTER": "5"}, 5.0),
        (NESTED, {b"retry-after": b"5"}, 5.0),
        (NESTED, {"Retry-After": "-1"}, None),
        (FULL | {"retry_after": 10**400}, None, 86_400.0),
        (FULL | {"retry_after": True}, None, None),
    ],
)
def test_the_time_to_wait_is_in_the_body_or_else_in_the_header(body, headers, wait_s):
    assert parse(body, headers=headers).retry_after_s == wait_s


def test_ids_of_the_callee_stand_in_the_context_beside_our_own_facts():
    with enriched(request_id="ours", trace_id="ours", span_id="ours", endpoint="/charge"):
        assert parse(FULL).context == Context(request_id="r1", trace_id="ours", span_id="ours", endpoint="/charge")
        assert parse(NESTED).context == Context(request_id="ours", trace_id="t1", endpoint="/charge")


def test_the_request_id_may_come_in_a_header():
    assert parse(FLAT, headers={"X-Request-Id": "h1"}).context.request_id == "h1"
    assert parse(FULL, headers={"X-Request-Id": "h1"}).context.request_id == "r1"


@pytest.mark.parametrize("bad", ["a\nb", "\x00", "x" * (ID_CHARS_MAX + 1), 5, None, ["r"]])
def test_an_id_that_would_break_a_log_line_is_none(bad):
    assert parse(FULL | {"request_id": bad}).context.request_id == ""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2024-08-28T15:30:00Z", "2024-08-28T15:30:00Z"),
        ("2024-08-28T17:30:00.000001+02:00", "2024-08-28T15:30:00.000001Z"),
        ("2024-08-28T15:30:00", "2024-08-28T15:30:00Z"),
    ],
)
def test_the_time_is_that_of_the_callee(text, shown):
    assert utc_text(parse(FULL | {"timestamp": text}).at_us) == shown


@pytest.mark.parametrize("text", ["yesterday", "", 5, None, "0001-01-01T00:00:00+23:00", "1969-12-31T23:59:59Z"])
def test_an_unreadable_time_is_now(text):
    with replaced(replace(REAL, wall_us=lambda: 42)):
        assert parse(FULL | {"timestamp": text}).at_us == 42


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("https://docs.example.com/X", "https://docs.example.com/X"),
        ("javascript:alert(1)", ""),
        ("https://" + "x" * 5_000, ""),
        (5, ""),
    ],
)
def test_only_a_web_address_is_kept_as_documentation(url, kept):
    assert parse(FULL | {"documentation_url": url}).fault.documentation_url == kept
    assert parse(PROBLEM | {"type": url}).fault.documentation_url == kept


@pytest.mark.parametrize(("given", "status"), [(None, 409), (502, 502), (0, 409), (True, 409), (99_999, 409)])
def test_the_status_of_the_response_counts_for_more_than_that_in_the_body(given, status):
    assert parse(PROBLEM, status=given).status == status


# -- what cannot be read -----------------------------------------------------------------------------------------

UNREADABLE = [
    b"",
    b"<html>502 Bad Gateway</html>",
    b"\xff\xfe",
    b"null",
    b"[]",
    b'"text"',
    b"{}",
    b'{"error": 5}',
    b'{"error_code": "A", "error_code": "B"}',
    b'{"error_code": NaN}',
    b"[" * 100_000,
    b'{"a":' * 5_000,
    b"9" * 5_000,
    b'{"error_code": "X", "message": "' + b"x" * 2_000_000 + b'"}',
    {"error_code": {1, 2}},
    {"error_code": object()},
    {"error_code": "X", "details": {"n": 10**5_000}},
]


@pytest.mark.parametrize("body", UNREADABLE, ids=range(len(UNREADABLE)))
def test_what_cannot_be_read_is_an_invalid_response(body):
    failure = parse(body)
    assert failure.fault is CORE["INVALID_RESPONSE"]
    assert failure.message == CORE["INVALID_RESPONSE"].says


@pytest.mark.parametrize(
    ("status", "code", "retried"),
    [
        (200, "INVALID_RESPONSE", True),
        (400, "BAD_REQUEST", False),
        (401, "UNAUTHORIZED", False),
        (404, "NOT_FOUND", False),
        (418, "BAD_REQUEST", False),
        (429, "RATE_LIMIT_EXCEEDED", True),
        (500, "UPSTREAM_ERROR", True),
        (502, "BAD_GATEWAY", True),
        (503, "SERVICE_UNAVAILABLE", True),
        (504, "GATEWAY_TIMEOUT", True),
    ],
)
def test_an_unreadable_body_with_a_status_is_the_fault_of_that_status(status, code, retried):
    failure = parse(b"<html>", status=status)
    assert (failure.code, failure.retryable) == (code, retried)


def test_the_catalogs_own_words_for_a_status_win():
    catalog = Catalog("shop", extends=(CORE,))
    assert parse(b"<html>", status=503, catalog=catalog).fault is catalog["SERVICE_UNAVAILABLE"]


def test_an_unreadable_body_is_kept_for_the_log_alone():
    failure = parse(b"<html>" + b"x" * 1_000)
    assert isinstance(failure.details["received"], Private)
    assert len(failure.details["received"].value) == 200
    assert plain(failure.details) == {"reason": "syntax"}


@pytest.mark.parametrize("code", ["", "not_found", "A-B", "A\n", "A" * 65, "_A", "ÄÖ", 5, None])
def test_a_code_that_is_no_code_leaves_the_status_to_speak(code):
    failure = parse(FLAT | {"code": code}, status=404)
    assert (failure.code, failure.message, failure.details) == ("NOT_FOUND", "It sleeps.", {"id": 1})
    assert parse(FLAT | {"code": code}).code == "INVALID_RESPONSE"


def test_a_foreign_problem_without_a_code_is_the_fault_of_its_status():
    failure = parse({"title": "Out of stock", "status": 503})
    assert (failure.code, failure.message) == ("SERVICE_UNAVAILABLE", "Out of stock")


# -- properties --------------------------------------------------------------------------------------------------

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
ID = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=ID_CHARS_MAX)
CODE = st.from_regex(r"\A[A-Z][A-Z0-9]{0,8}(_[A-Z0-9]{1,8}){0,3}\Z")
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
DETAILS = st.dictionaries(TEXT.filter(lambda name: name != "retry_after_seconds"), VALUE, max_size=5)


@given(
    st.sampled_from(Dialect),
    CODE,
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200).filter(lambda words: "{" not in words),
    DETAILS,
    st.builds(Context, request_id=ID, trace_id=ID),
    st.none() | st.floats(0, 86_400),
    st.integers(0, 4_000_000_000_000_000),
)
def test_a_failure_survives_the_way_there_and_back(dialect, code, message, details, context, wait_s, at_us):
    catalog = Catalog("shop")
    fault = catalog.fault(code, status=503, says="Words.")
    sent = Failure(fault, message, details=details, retry_after_s=wait_s, context=context)
    sent.at_us = at_us
    rendered = render(sent, dialect)

    got = parse(rendered.body, status=rendered.status, headers=dict(rendered.headers), catalog=catalog)

    assert (got.fault, got.message, got.details) == (fault, message, details)
    assert got.retry_after_s == (None if wait_s is None else math.ceil(wait_s))
    if dialect in {Dialect.FULL, Dialect.PROBLEM}:
        assert got.context.request_id == context.request_id
    if dialect in {Dialect.NESTED, Dialect.PROBLEM}:
        assert got.context.trace_id == context.trace_id
    if dialect is Dialect.FULL:
        assert got.at_us == at_us


@pytest.mark.parametrize("dialect", Dialect)
def test_details_as_deep_as_they_are_shown_can_be_read_back(dialect):
    deep: object = "end"
    for _ in range(200):
        deep = [deep]
    failure = parse(render(Failure(CORE["CONFLICT"], details={"deep": deep}), dialect).body)
    assert failure.code == "CONFLICT"
    assert "deep" in failure.details


NAMES = ["error", "code", "message", "details", "traceId", "error_code", "request_id", "timestamp", "retry_after"]
NAMES += ["documentation_url", "type", "title", "status", "detail", "instance", "trace_id", "retry_after_seconds"]
ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | CODE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=5), inner),
    max_leaves=15,
)
HEADERS = st.none() | st.dictionaries(st.sampled_from(["Retry-After", "x-request-id", "Date", b"retry-after"]), ODD)


@given(
    st.binary() | st.text() | st.dictionaries(st.sampled_from(NAMES), ODD) | ODD.map(lambda odd: json.dumps(odd)),
    st.none() | st.integers(-1, 1_000),
    HEADERS,
    st.sampled_from([None, CORE]),
)
def test_nothing_makes_it_raise(body, status, headers, catalog):
    failure = parse(body, status=status, headers=headers, catalog=catalog)
    assert isinstance(failure, Failure)
    assert failure.retryable in {True, False}
    assert len(failure.message) <= limits().message_chars_max
    for dialect in Dialect:
        assert json.loads(render(failure, dialect).body)
