"""What the gateway answers, and what it means."""

from __future__ import annotations

import json
import socket

import pytest

from holdfast.catalog import Failure
from holdfast.http import Reply
from holdfast.http.client import Headers
from holdfast_systems.conversion.links import Busy, Gateway, answered, busy_of, safe_sentence

XML = b'<?xml version="1.0"?><document><p>Hello</p></document>'
REFUSED = "Couldn’t convert this file with the selected mapping."


def reply(status: int, body: bytes = b"", kind: str = "application/xml", **headers: str) -> Reply:
    given = [("content-type", kind), *((name.replace("_", "-"), value) for name, value in headers.items())]
    return Reply(status=status, headers=Headers(given), body=body)


def refusal(given: Reply) -> Failure:
    with pytest.raises(Failure) as caught:
        answered(given)
    return caught.value


@pytest.mark.parametrize(
    ("status", "code"),
    [
        *((status, "GW_4XX") for status in (400, 406, 413, 415, 422)),
        *((status, "GW_5XX") for status in (401, 403, 404, 405, 418)),
        *((status, "GW_5XX") for status in (500, 501, 502, 503, 504, 507, 599)),
        *((status, "GW_5XX") for status in (408, 425, 429)),
        *((status, "GW_5XX") for status in (301, 302, 304)),
    ],
)
def test_each_status_is_one_code_and_is_kept_for_the_journal(status: int, code: str) -> None:
    failure = refusal(reply(status))
    assert (failure.code, failure.details["upstream_status"]) == (code, status)


@pytest.mark.parametrize("status", [401, 403, 404])
def test_what_the_gateway_says_about_our_own_request_is_not_told_to_the_person(status: int) -> None:
    body = json.dumps({"error": {"code": "UNAUTHORIZED", "message": "You are not signed in."}}).encode()
    failure = refusal(reply(status, body, "application/json"))
    assert failure.message == "Converter service is having an issue. Try again later."
    assert failure.details["reason"] == f"HTTP {status}"


@pytest.mark.parametrize(
    ("given", "busy"),
    [
        (reply(429), Busy(429, 5.0)),
        (reply(429, retry_after="2"), Busy(429, 2.0)),
        (reply(503, retry_after="2"), Busy(503, 2.0)),
        (reply(503, retry_after="4000"), Busy(503, 60.0)),
        (reply(503, retry_after="0"), Busy(503, 0.5)),
        (reply(503), None),
        (reply(500, retry_after="2"), None),
        (reply(200, XML), None),
    ],
)
def test_a_busy_gateway_names_a_time(given: Reply, busy: Busy | None) -> None:
    assert busy_of(given) == busy


def test_good_xml_is_the_result() -> None:
    assert answered(reply(200, XML)) == XML
    assert answered(reply(200, XML, "text/xml; charset=utf-8")) == XML


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", "application/xml"),
        (XML[:-5], "application/xml"),
        (b"\x00\xff<<garbage", "application/xml"),
        (XML, "text/html"),
        (b'{"ok": true}', "application/json"),
        (b'<!DOCTYPE x [<!ENTITY a "aaaa">]><x>&a;</x>', "application/xml"),
        (XML + XML, "application/xml"),
    ],
)
def test_what_is_no_xml_never_becomes_a_result(body: bytes, kind: str) -> None:
    assert refusal(reply(200, body, kind)).code == "GW_5XX"


def test_the_time_that_the_gateway_asks_for_is_kept() -> None:
    assert refusal(reply(503, retry_after="300")).retry_after_s == 300


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("Unsupported mapping.", "Unsupported mapping."),
        ("Unsupported mapping", "Unsupported mapping."),
        ("This PDF is locked with a password.", "This PDF is locked with a password."),
        ("Cannot open /var/lib/gateway/x.pdf", ""),
        ("<script>alert(1)</script>", ""),
        ('Traceback (most recent call last): File "x"', ""),
        ("x" * 121, ""),
        ("Two\nlines", ""),
        ("{mapping} is unknown", ""),
        (None, ""),
        (7, ""),
    ],
)
def test_only_a_short_plain_sentence_of_the_gateway_is_shown(message: object, shown: str) -> None:
    body = json.dumps({"error": {"code": "X", "message": message}}).encode()
    assert safe_sentence(body) == shown
    failure = refusal(reply(406, body, "application/json"))
    assert failure.message == (f"{REFUSED} {shown}" if shown else REFUSED)


@pytest.mark.parametrize("body", [b"", b"[]", b"not json", b'"text"', b'{"error": "x"}', b"\xff", b"{" * 100_000])
def test_a_refusal_that_cannot_be_read_is_still_a_refusal(body: bytes) -> None:
    assert refusal(reply(415, body, "application/json")).message == REFUSED


def test_a_gateway_that_is_not_there_is_5xx_and_not_healthy() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # taken, and nobody listens
        address = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        gateway = Gateway(lambda: address, timeout_s=30, result_bytes_max=1_000)
        try:
            with pytest.raises(Failure) as caught:
                gateway.convert(b"%PDF-", "text")
            assert (caught.value.code, caught.value.details["reason"]) == ("GW_5XX", "CONNECTION_REFUSED")
            with pytest.raises(Failure):
                gateway.healthy()
        finally:
            gateway.close()
