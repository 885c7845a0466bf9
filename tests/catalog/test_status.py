"""HTTP statuses: the default table, the tables of the five systems' links, and errors that carry a status."""

from __future__ import annotations

import email.message
import io
import types
import urllib.error
from dataclasses import FrozenInstanceError
from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.base import plain
from holdfast.catalog import CORE, Catalog, Remote
from holdfast.catalog import core as c
from holdfast.catalog.answered import classify_status
from holdfast.catalog.classify import DEFAULT_CLASSIFIER, Classifier
from holdfast.catalog.network import NETWORK_CODES
from holdfast.catalog.status import DEFAULT_STATUSES, HTTP_STATUSES, StatusTable
from holdfast.policy import Breaker


def foreign(name: str, **parts: object) -> BaseException:
    module, _, short = name.rpartition(".")
    error = type(short, (Exception,), {"__module__": module})("text of the client")
    vars(error).update(parts)
    return error


def retried(table: StatusTable, statuses: range = range(400, 600)) -> set[int]:
    return {status for status in statuses if (fault := table.fault(status)) and fault.retryable}


# -- the table -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [100, 200, 202, 204, 301, 304, 399])
def test_a_status_below_400_is_no_failure(status: int) -> None:
    assert DEFAULT_STATUSES.fault(status) is None
    assert classify_status(status) is None


def test_a_table_may_say_that_a_redirect_is_a_failure() -> None:
    assert DEFAULT_STATUSES.but(ranges={3: c.INVALID_RESPONSE}).fault(302) is c.INVALID_RESPONSE


@given(st.integers(min_value=400, max_value=599))
def test_every_failed_status_of_an_upstream_is_our_502_503_or_504(status: int) -> None:
    fault = DEFAULT_STATUSES.fault(status)
    assert fault is not None
    assert fault.status in {502, 503, 504}


@given(st.integers(min_value=400, max_value=499))
def test_no_4xx_of_an_upstream_opens_a_breaker(status: int) -> None:
    fault = DEFAULT_STATUSES.fault(status)
    assert fault is not None
    assert not Breaker.blames_kind(fault)


@given(st.integers(min_value=400, max_value=599).filter(lambda status: status != 500))
def test_what_is_said_in_our_own_name_keeps_its_hundred(status: int) -> None:
    fault = HTTP_STATUSES.fault(status)
    assert fault is not None
    assert fault.status // 100 == status // 100


@given(st.one_of(st.integers(max_value=99), st.integers(min_value=400)))
def test_a_failed_status_that_a_table_does_not_name_is_the_upstreams(status: int) -> None:
    fault = StatusTable().fault(status)
    assert fault is {4: c.UPSTREAM_REJECTED, 5: c.UPSTREAM_ERROR}.get(status // 100, c.INVALID_RESPONSE)


def test_the_exact_status_wins_over_its_hundred() -> None:
    table = StatusTable({404: c.GONE}, {4: c.BAD_REQUEST})
    assert (table.fault(404), table.fault(418)) == (c.GONE, c.BAD_REQUEST)


def test_a_new_range_replaces_all_that_was_said_about_its_statuses_and_leaves_the_old_table_alone() -> None:
    changed = DEFAULT_STATUSES.but({503: c.SERVICE_UNAVAILABLE}, {5: c.INTERNAL_ERROR})
    assert [changed.fault(status) for status in (500, 502, 503, 404)] == [
        c.INTERNAL_ERROR,
        c.INTERNAL_ERROR,
        c.SERVICE_UNAVAILABLE,
        c.UPSTREAM_REJECTED,
    ]
    assert DEFAULT_STATUSES.fault(502) is c.BAD_GATEWAY


def test_a_table_is_frozen_and_does_not_follow_the_dict_it_was_made_of() -> None:
    given_to_it = {500: c.INTERNAL_ERROR}
    table = StatusTable(given_to_it)
    given_to_it[500] = c.GONE
    assert table.fault(500) is c.INTERNAL_ERROR
    with pytest.raises(TypeError):
        table.exact[500] = c.GONE  # type: ignore[index]
    with pytest.raises(FrozenInstanceError):
        table.exact = {}  # type: ignore[misc]


@pytest.mark.parametrize(("exact", "ranges"), [({5: c.GONE}, {}), ({}, {500: c.GONE}), ({}, {0: c.GONE})])
def test_a_hundred_and_a_status_are_not_mistaken_for_each_other(exact: dict, ranges: dict) -> None:
    with pytest.raises(ValueError):
        StatusTable(exact, ranges)


def test_by_default_408_425_429_and_every_5xx_but_three_are_retried() -> None:
    """What a callee cannot do, in a version it does not speak, or without room, it cannot do the next time either."""
    assert retried(DEFAULT_STATUSES) == {408, 425, 429} | (set(range(500, 600)) - {501, 505, 507})


# -- what an answer becomes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Retry-After", "retry-after", "RETRY-AFTER"])
def test_a_rate_limit_carries_its_retry_after_whatever_the_case_of_the_header(name: str) -> None:
    failure = classify_status(429, {"Content-Type": "text/plain", name: "60"})
    assert failure is not None
    assert (failure.code, failure.retry_after_s) == ("UPSTREAM_BUSY", 60.0)
    assert (failure.remote, plain(failure.details)) == (Remote(429), {})


@pytest.mark.parametrize("headers", [None, {}, {"Retry-After": "soon"}])
def test_without_a_readable_retry_after_there_is_none(headers: dict[str, str] | None) -> None:
    failure = classify_status(503, headers)
    assert failure is not None
    assert failure.retry_after_s is None


# -- each seed's table -----------------------------------------------------------------------------------------

CONTROL_PLANE = HTTP_STATUSES.but(
    {408: c.BAD_REQUEST, 425: c.BAD_REQUEST, 502: c.BAD_GATEWAY, 503: c.SERVICE_UNAVAILABLE, 504: c.GATEWAY_TIMEOUT},
    {5: c.INTERNAL_ERROR},
)
"""000 §1.2 and §3.2."""


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "BAD_REQUEST"),
        (401, "UNAUTHORIZED"),
        (403, "FORBIDDEN"),
        (404, "NOT_FOUND"),
        (409, "CONFLICT"),
        (422, "UNPROCESSABLE"),
        (429, "RATE_LIMIT_EXCEEDED"),
        (500, "INTERNAL_ERROR"),
        (502, "BAD_GATEWAY"),
        (503, "SERVICE_UNAVAILABLE"),
        (504, "GATEWAY_TIMEOUT"),
    ],
)
def test_the_standard_mapping_of_000_can_be_said(status: int, code: str) -> None:
    fault = CONTROL_PLANE.fault(status)
    assert fault is not None
    assert (fault.code, fault.status) == (code, status)


def test_000_retries_only_502_503_504_and_429() -> None:
    assert retried(CONTROL_PLANE) == {429, 502, 503, 504}


def test_000_reads_of_the_vault_retry_only_503_and_504() -> None:
    vault = DEFAULT_STATUSES.but(
        {503: c.SERVICE_UNAVAILABLE, 504: c.GATEWAY_TIMEOUT}, {4: c.BAD_REQUEST, 5: c.INTERNAL_ERROR}
    )
    assert retried(vault) == {503, 504}


conversion = Catalog("conversion", extends=(CORE,))
GW_4XX = conversion.fault("GW_4XX", status=422, says="Couldn’t convert this file with the selected mapping.")
GW_5XX = conversion.fault("GW_5XX", status=502, says="Converter service is having an issue.", retry=True)
GW_TIMEOUT = conversion.fault("GW_TIMEOUT", status=504, says="Conversion is taking too long.", retry=True)

GATEWAY = Classifier(
    statuses=StatusTable(dict.fromkeys((400, 406, 413, 415), GW_4XX), {5: GW_5XX}),
    remap={**dict.fromkeys(NETWORK_CODES, GW_5XX), "NETWORK_TIMEOUT": GW_TIMEOUT},
    catalog=conversion,
)
"""002 §2B."""


@pytest.mark.parametrize(
    ("error", "code", "retryable"),
    [
        *((foreign("httpx.HTTPStatusError", status=status), "GW_4XX", False) for status in (400, 406, 413, 415)),
        *((foreign("httpx.HTTPStatusError", status=status), "GW_5XX", True) for status in (500, 502, 503, 504, 599)),
        (foreign("httpx.HTTPStatusError", status=404), "UPSTREAM_REJECTED", False),
        (ConnectionRefusedError(), "GW_5XX", True),
        (ConnectionResetError(), "GW_5XX", True),
        (foreign("socket.gaierror"), "GW_5XX", True),
        (OSError(113, "no route to host"), "GW_5XX", True),
        (TimeoutError(), "GW_TIMEOUT", True),
        (foreign("httpx.TimeoutException"), "GW_TIMEOUT", True),
        (foreign("ssl.SSLError"), "TLS_ERROR", False),
    ],
    ids=lambda value: getattr(value, "status", None) or repr(value),
)
def test_the_gateway_mapping_of_002_can_be_said(error: BaseException, code: str, retryable: bool) -> None:
    failure = GATEWAY.classify(error)
    assert (failure.code, failure.retryable) == (code, retryable)


WEBHOOK = DEFAULT_STATUSES.but({408: c.BAD_REQUEST, 425: c.BAD_REQUEST})
"""003, status table: a 4xx other than 429 is permanent."""


@pytest.mark.parametrize(
    ("status", "retryable"),
    [
        *((status, False) for status in (400, 401, 403, 404, 413)),
        *((status, True) for status in (429, 500, 502, 503, 504)),
    ],
)
def test_the_status_tables_of_003_can_be_said(status: int, retryable: bool) -> None:
    failure = classify_status(status, table=WEBHOOK)
    assert failure is not None
    assert failure.retryable is retryable
    assert {code for code in retried(WEBHOOK) if code < 500} == {429}


@pytest.mark.parametrize("status", [200, 202])
def test_003_takes_200_and_202_for_done(status: int) -> None:
    assert classify_status(status, table=WEBHOOK) is None


@pytest.mark.parametrize(
    ("error", "retryable"),
    [
        (ConnectionRefusedError(), True),
        (foreign("socket.gaierror"), True),
        (TimeoutError(), True),
        (foreign("ssl.SSLError"), False),
    ],
)
def test_the_network_table_of_003_is_the_default(error: BaseException, retryable: bool) -> None:
    assert DEFAULT_CLASSIFIER.classify(error).retryable is retryable


# -- errors that carry a status --------------------------------------------------------------------------------

HEADERS = {"retry-after": "7"}


@pytest.mark.parametrize(
    "error",
    [
        foreign("aiohttp.client_exceptions.ClientResponseError", status=503, headers=HEADERS),
        foreign("httpx.HTTPStatusError", response=types.SimpleNamespace(status_code=503, headers=HEADERS)),
        foreign("requests.exceptions.HTTPError", response=types.SimpleNamespace(status_code=503, headers=HEADERS)),
        foreign("google.genai.errors.APIError", code=503, response=types.SimpleNamespace(headers=HEADERS)),
        foreign("google.api_core.exceptions.GoogleAPICallError", code=HTTPStatus(503), headers=HEADERS),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_clients_error_is_read_by_the_status_and_retry_after_it_carries(error: BaseException) -> None:
    failure = DEFAULT_CLASSIFIER.classify(error)
    assert (failure.code, failure.retry_after_s, failure.__cause__) == ("SERVICE_UNAVAILABLE", 7.0, error)
    assert (failure.remote, plain(failure.details)) == (Remote(503), {})
    assert failure.technical.endswith("text of the client)")


def test_urllibs_http_error_is_read_by_its_status_and_not_as_a_network_error() -> None:
    headers = email.message.Message()
    headers["Retry-After"] = "7"
    with urllib.error.HTTPError("http://localhost/", 429, "Slow down", headers, io.BytesIO()) as error:
        failure = DEFAULT_CLASSIFIER.classify(error)
    assert (failure.code, failure.retry_after_s) == ("UPSTREAM_BUSY", 7.0)


def test_a_client_that_raises_on_a_good_status_got_an_unreadable_answer() -> None:
    wrong_type = foreign("aiohttp.client_exceptions.ClientResponseError", status=200, headers={})
    assert DEFAULT_CLASSIFIER.classify(wrong_type).code == "INVALID_RESPONSE"


def test_a_status_that_aiohttp_made_up_for_an_unreadable_answer_is_not_believed() -> None:
    error = foreign("aiohttp.client_exceptions.ClientResponseError", status=400, headers=None)
    error.__cause__ = foreign("aiohttp.http_exceptions.BadStatusLine")
    assert DEFAULT_CLASSIFIER.classify(error).code == "INVALID_RESPONSE"


@pytest.mark.parametrize(
    "parts",
    [{}, {"response": None}, {"status": "503"}, {"status": True}, {"status": 0}, {"response": {"status": 503}}],
)
def test_an_error_without_a_usable_status_is_unknown(parts: dict[str, object]) -> None:
    assert DEFAULT_CLASSIFIER.classify(foreign("httpx.HTTPStatusError", **parts)).code == "UNKNOWN"
