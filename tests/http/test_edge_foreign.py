"""Replies that frameworks make by themselves are recognised from outside; replies of applications are left alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.base import encode
from holdfast.catalog import Dialect
from holdfast.http.edge import Edge
from holdfast.http.exchange import HELD_BYTES_MAX
from holdfast.http.foreign import Foreign, read_reply
from holdfast.http.validation import ENTRIES_BYTES_MAX, entry, told

JSON, TEXT, HTML = b"application/json", b"text/plain; charset=utf-8", b"text/html; charset=utf-8"
WERKZEUG = b"<!doctype html>\n<html lang=en>\n<title>404 Not Found</title>\n<h1>Not Found</h1>\n<p>Gone.</p>\n"
DJANGO = (
    b'\n<!doctype html>\n<html lang="en">\n<head>\n  <title>Server Error (500)</title>\n</head>\n<body>\n'
    b"  <h1>Server Error (500)</h1><p></p>\n</body>\n</html>\n"
)


@pytest.mark.parametrize(
    ("status", "kind", "body", "found"),
    [
        (404, JSON, b'{"detail":"Not Found"}', Foreign("Not Found")),
        (403, JSON, b'{"detail":{"any":"thing"}}', Foreign()),
        (404, JSON, b'{"status_code":404,"detail":"Not Found"}', Foreign("Not Found")),
        (404, TEXT, b"Not Found", Foreign()),
        (403, TEXT, b"Not yours.", Foreign("Not yours.")),
        (405, b"", b"", Foreign()),
        (404, HTML, WERKZEUG, Foreign()),
        (500, HTML, DJANGO, Foreign()),
        (404, JSON, b'{"detail":"x","mine":1}', None),
        (404, JSON, b'["detail"]', None),
        (404, JSON, b"{", None),
        (404, JSON, b'{"error":{"code":"NOT_FOUND"}}', None),
        (404, b"application/problem+json", b'{"detail":"x"}', None),
        (403, HTML, WERKZEUG, None),
        (404, HTML, b"<!doctype html><title>404 Not Found</title><h1>We looked everywhere</h1>", None),
        (404, HTML, WERKZEUG + b" " * 5_000, None),
        (404, b"image/png", b"\x89PNG", None),
    ],
)
def test_a_reply_is_recognised_or_left_alone(status: int, kind: bytes, body: bytes, found: Foreign | None) -> None:
    assert read_reply(status, [(b"Content-Type", kind)], body) == found


def test_a_compressed_reply_is_left_alone() -> None:
    assert read_reply(404, [(b"content-type", JSON), (b"content-encoding", b"gzip")], b'{"detail":"x"}') is None


@given(st.integers(400, 599), st.sampled_from([JSON, TEXT, HTML, b""]), st.binary(max_size=200))
def test_no_reply_breaks_the_reader(status: int, kind: bytes, body: bytes) -> None:
    read_reply(status, [(b"content-type", kind)], body)


def test_a_value_is_shown_only_where_it_says_nothing_else() -> None:
    error: dict[str, Any] = {"type": "int_parsing", "loc": ["body", "age"], "msg": "No number", "input": "x" * 500}
    assert entry(error)["value"] == "x" * 200
    assert "value" not in entry({**error, "input": {"password": "hunter2"}})
    assert "value" not in entry({**error, "type": "missing"})
    assert "value" not in entry({**error, "loc": ["header", "x-token"]})
    own = {
        "type": "value_error",
        "loc": ["body", "password"],
        "msg": "Value error, hunter2 is weak",
        "input": "hunter2",
    }
    assert "hunter2" not in str(entry(own))


def test_so_many_fields_as_fit_are_listed_and_all_are_counted() -> None:
    error = {"type": "int_type", "loc": ["body", "x" * 150], "msg": "m" * 150, "input": "v" * 150}
    _, details = told([entry(error)] * 500, Dialect.FULL)
    assert details["total_errors"] == 500
    assert 10 < len(details["errors"]) < 50
    assert len(encode(details["errors"])) < ENTRIES_BYTES_MAX + 200


@given(st.dictionaries(st.sampled_from(["type", "loc", "msg", "input"]), st.text() | st.lists(st.text()) | st.floats()))
def test_no_error_breaks_the_list(error: dict[str, Any]) -> None:
    if isinstance(error.get("loc", ()), float):
        del error["loc"]
    for dialect in Dialect:
        encode(told([entry(error)], dialect)[1])


async def replied(status: int, headers: list[tuple[bytes, bytes]], *parts: bytes) -> list[Any]:
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for number, part in enumerate(parts, 1):
            await send({"type": "http.response.body", "body": part, "more_body": number < len(parts)})

    async def send(message: Any) -> None:
        sent.append(message)

    await Edge(app)({"type": "http", "method": "GET", "path": "/", "headers": []}, send, send)  # type: ignore[arg-type]
    return sent


async def test_an_error_reply_in_pieces_is_read_as_one() -> None:
    start, body = await replied(404, [(b"content-type", JSON), (b"allow", b"GET")], b'{"detail":', b'"Not ', b'Found"}')
    assert b'"NOT_FOUND"' in body["body"]
    names = [name for name, _ in start["headers"]]
    assert names.count(b"content-type") == names.count(b"content-length") == 1
    assert (b"allow", b"GET") in start["headers"]


async def test_a_long_error_reply_of_the_application_is_passed_on_whole() -> None:
    part = b"x" * 100_000
    start, *rest = await replied(400, [(b"content-type", b"text/csv")], *[part] * 15)
    assert start["status"] == 400
    assert b"".join(message["body"] for message in rest) == part * 15
    assert [message["more_body"] for message in rest][-1] is False


async def test_a_long_list_of_validation_errors_is_not_passed_on_because_it_may_quote_secrets() -> None:
    secret = b'{"detail":[{"type":"x","loc":["body"],"msg":"m","input":"hunter2' + b"x" * HELD_BYTES_MAX
    start, body = await replied(422, [(b"content-type", JSON)], secret, secret, b'"}]}')
    assert (start["status"], b"hunter2" in body["body"]) == (400, False)
    assert b"VALIDATION_ERROR" in body["body"]


async def test_an_error_reply_that_names_its_vary_keeps_it() -> None:
    start, _ = await replied(404, [(b"content-type", TEXT), (b"vary", b"origin")], b"Not Found")
    assert [value for name, value in start["headers"] if name == b"vary"] == [b"accept", b"origin"]
