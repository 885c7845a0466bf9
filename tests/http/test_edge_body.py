"""Bodies that are too large, too slow, too deep or not what they say are refused, and cost little."""

from __future__ import annotations

import gzip
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI, Request
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from holdfast.base import REAL
from holdfast.http.body import BodyRule
from holdfast.http.edge import Edge

from .edge_servers import TIMEOUT_S, Reply, call, raw, read, served

MOST = 10_000
PATIENT = BodyRule(bytes_max=MOST, json_depth_max=8)
HURRIED = BodyRule(bytes_max=MOST, wait_s=0.4, bytes_per_s_min=1_000)


def fastapi_app() -> FastAPI:
    app = FastAPI()

    @app.post("/json")
    async def parsed(request: Request) -> Any:
        return await request.json()

    @app.post("/typed")
    async def typed(values: dict[str, Any]) -> Any:
        return values

    @app.post("/size")
    async def size(request: Request) -> int:
        return len(await request.body())

    return app


async def size(request: Any) -> PlainTextResponse:
    total = 0
    async for part in request.stream():
        total += len(part)
    return PlainTextResponse(str(total))


async def forgiving(scope: Any, receive: Any, send: Any) -> None:
    """An application that takes any trouble with the body for its end, and is content."""
    total = 0
    more = True
    while more:
        try:
            message = await receive()
        except Exception:
            break
        total += len(message.get("body", b""))
        more = message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": str(total).encode()})


APPS: dict[str, Any] = {
    "fastapi": fastapi_app(),
    "starlette": Starlette(routes=[Route("/size", size, methods=["POST"])]),
    "forgiving": forgiving,
}


def chosen(scope: Any) -> BodyRule:
    return HURRIED if scope["query_string"] == b"hurry" else PATIENT


@pytest.fixture(scope="module")
def ports() -> Iterator[dict[str, int]]:
    servers = {name: served(Edge(app, body=chosen)) for name, app in APPS.items()}
    yield {name: server.__enter__() for name, server in servers.items()}
    for server in servers.values():
        server.__exit__(None, None, None)


everywhere = pytest.mark.parametrize("where", list(APPS))


def code(reply: Reply | None) -> tuple[int, str]:
    assert reply is not None
    return reply.status, reply.json()["error"]["code"]


def chunked(*parts: bytes) -> bytes:
    written = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
    return b"POST /size HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + written


@everywhere
def test_a_body_of_the_allowed_size_passes(ports: dict[str, int], where: str) -> None:
    reply = call(ports[where], "POST", "/size", b"x" * MOST)
    assert (reply.status, reply.body) == (200, str(MOST).encode())


@everywhere
def test_a_body_that_announces_too_much_is_refused_before_it_comes(ports: dict[str, int], where: str) -> None:
    reply = raw(ports[where], b"POST /size HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (MOST + 1))
    assert code(reply) == (413, "PAYLOAD_TOO_LARGE")
    assert reply is not None
    assert reply.headers["connection"] == "close"


@everywhere
def test_a_chunked_body_is_counted_as_it_comes(ports: dict[str, int], where: str) -> None:
    reply = raw(ports[where], chunked(*[b"x" * 1_000] * 11))
    assert code(reply) == (413, "PAYLOAD_TOO_LARGE")


@everywhere
def test_a_chunked_body_within_bounds_passes(ports: dict[str, int], where: str) -> None:
    reply = raw(ports[where], chunked(*[b"x" * 1_000] * 9) + b"0\r\n\r\n")
    assert reply is not None
    assert (reply.status, reply.body) == (200, b"9000")


@everywhere
def test_a_body_that_drips_is_cut_when_its_time_is_up(ports: dict[str, int], where: str) -> None:
    begun_s = REAL.monotonic_s()
    with socket.create_connection(("127.0.0.1", ports[where]), timeout=TIMEOUT_S) as connection:
        connection.sendall(b"POST /size?hurry HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
        connection.settimeout(0.05)
        while REAL.monotonic_s() - begun_s < TIMEOUT_S:
            try:
                connection.sendall(b"x")
                if connection.recv(1, socket.MSG_PEEK):
                    break
            except TimeoutError:
                continue
            except ConnectionError:
                break  # it was cut while we went on; what it said before can still be read
        connection.settimeout(TIMEOUT_S)
        reply = read(connection)
    assert code(reply) == (408, "REQUEST_TIMEOUT")
    assert REAL.monotonic_s() - begun_s < 40  # the machine may be busy; a drip alone would take 50 s


@everywhere
def test_a_body_that_never_comes_is_cut_too(ports: dict[str, int], where: str) -> None:
    reply = raw(ports[where], b"POST /size?hurry HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nshort")
    assert code(reply) == (408, "REQUEST_TIMEOUT")


def test_a_client_that_leaves_in_the_middle_harms_nobody(ports: dict[str, int]) -> None:
    begun = b"POST /json HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", ports["fastapi"]), timeout=TIMEOUT_S) as connection:
            connection.sendall(begun)
    assert call(ports["fastapi"], "POST", "/json", {"a": 1}).json() == {"a": 1}


HOSTILE = {
    "deep": (b"[" * 9 + b"]" * 9, "too_deep"),
    "very deep": (b"[" * 9_000, "too_deep"),
    "twice": (b'{"amount":1,"amount":2}', "duplicate_key"),
    "twice further in": (b'{"a":[{"b":1,"b":1}]}', "duplicate_key"),
    "bad UTF-8": (b'{"a":"\xff\xfe"}', "not_utf8"),
    "half a pair": (b'{"a":"\\ud800"}', "not_utf8"),
    "another charset": ('{"a":"ü"}'.encode("latin-1"), "not_utf8"),
    "not a number": (b'{"a":NaN}', "not_a_number"),
    "endless": (b'{"a":1e999}', "number_too_large"),
    "many digits": (b'{"a":' + b"9" * 5_000 + b"}", "number_too_large"),
    "cut": (b'{"a":', "syntax"),
    "words": (b"hello", "syntax"),
}


@pytest.mark.parametrize("path", ["/json", "/typed"])
@pytest.mark.parametrize("name", list(HOSTILE))
def test_json_that_is_not_accepted_never_reaches_the_application(ports: dict[str, int], name: str, path: str) -> None:
    body, reason = HOSTILE[name]
    reply = call(ports["fastapi"], "POST", path, body, content_type="application/json")
    assert code(reply) == (400, "INVALID_JSON")
    assert reply.json()["error"]["details"]["reason"] == reason
    assert len(reply.body) < 1_000


@pytest.mark.parametrize(
    "kind", ["application/json; charset=utf-8", "application/merge-patch+json", "APPLICATION/JSON"]
)
def test_json_is_read_under_every_name_it_has(ports: dict[str, int], kind: str) -> None:
    reply = call(ports["fastapi"], "POST", "/size", b'{"a":1,"a":2}', content_type=kind)
    assert code(reply) == (400, "INVALID_JSON")
    assert call(ports["fastapi"], "POST", "/size", b'{"a":1}', content_type=kind).body == b"7"


@pytest.mark.parametrize("kind", ["text/plain", "application/octet-stream", "application/jsonlines"])
def test_what_is_not_json_is_not_read_as_json(ports: dict[str, int], kind: str) -> None:
    assert call(ports["fastapi"], "POST", "/size", b'{"a":1,"a":2}', content_type=kind).body == b"13"


@pytest.mark.parametrize("encoding", ["gzip", "br", "identity, identity"])
@pytest.mark.parametrize("name", ["deep", "very deep", "twice", "not a number", "another encoding"])
def test_json_that_only_says_it_is_compressed_is_read_all_the_same(
    ports: dict[str, int], encoding: str, name: str
) -> None:
    hostile = {**HOSTILE, "another encoding": ('{"a":1,"a":2}'.encode("utf-16"), "not_utf8")}
    body, reason = hostile[name]
    reply = call(ports["fastapi"], "POST", "/json", body, content_type="application/json", content_encoding=encoding)
    assert code(reply) == (400, "INVALID_JSON")
    assert reply.json()["error"]["details"]["reason"] == reason


PACKED = {"gzip": gzip.compress(b'{"a":1,"a":2}'), "br": b"[\xff\xaf\x02"}


@pytest.mark.parametrize("encoding", PACKED)
def test_json_that_is_compressed_is_handed_on_as_it_came(ports: dict[str, int], encoding: str) -> None:
    body = PACKED[encoding]
    reply = call(ports["fastapi"], "POST", "/size", body, content_type="application/json", content_encoding=encoding)
    assert reply.body == b"%d" % len(body)


def test_the_application_reads_the_same_bytes(ports: dict[str, int]) -> None:
    body = b' {"b" : [1,\n2.50, "\xc3\xbc"] }'
    assert call(ports["fastapi"], "POST", "/size", body, content_type="application/json").body == b"%d" % len(body)
    assert call(ports["fastapi"], "POST", "/json", body, content_type="application/json").json() == {"b": [1, 2.5, "ü"]}


async def test_a_rule_may_differ_from_request_to_request() -> None:
    edge = Edge(forgiving, body=lambda scope: BodyRule(bytes_max=5 if scope["path"] == "/small" else 50))
    for path, status in (("/small", 413), ("/large", 200)):
        assert (await ask(edge, path, b"x" * 20))[0]["status"] == status


async def test_without_a_rule_nothing_is_bounded() -> None:
    assert (await ask(Edge(forgiving, body=None), "/", b"x" * 2_000_000))[0]["status"] == 200


async def test_a_body_that_http_2_did_not_announce_is_counted_too() -> None:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"x" * 20, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "http_version": "2", "method": "POST", "path": "/", "headers": []}
    await Edge(forgiving, body=BodyRule(bytes_max=10))(scope, receive, send)
    assert sent[0]["status"] == 413
    assert b"connection" not in dict(sent[0]["headers"])  # which HTTP/2 forbids


async def ask(edge: Edge, path: str, body: bytes) -> list[Any]:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"content-length", b"%d" % len(body))]
    await edge({"type": "http", "method": "POST", "path": path, "headers": headers}, receive, send)
    return sent


@pytest.mark.parametrize("wrong", [{"bytes_max": -1}, {"wait_s": 0.0}, {"bytes_per_s_min": 0}])
def test_a_rule_that_cannot_be_meant_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="body rule"):
        BodyRule(**wrong)
