"""The same edge around WSGI applications: Flask, Django and a bare callable, behind a real server."""

from __future__ import annotations

import io
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.base import REAL
from holdfast.catalog import current_context
from holdfast.guard import Keys
from holdfast.http.access import Access
from holdfast.http.body import BodyRule
from holdfast.http.health import Health, store_check
from holdfast.http.idempotent import Idempotency
from holdfast.http.keys import ApiKeys
from holdfast.http.limits import RateLimits, RateRule, by_client
from holdfast.http.wsgi import WsgiEdge
from holdfast.policy import RateLimit
from holdfast.store import Store

from .edge_servers import TIMEOUT_S, call, raw, read, wsgi_served
from .edge_wsgi_apps import TEXT, django_app, errors, flask_app

PATIENT = BodyRule(bytes_max=1_000)
HURRIED = BodyRule(bytes_max=1_000, wait_s=0.4, bytes_per_s_min=1_000)


def chosen(scope: Any) -> BodyRule:
    return HURRIED if scope["query_string"] == b"hurry" else PATIENT


@pytest.fixture(scope="module")
def ports() -> Iterator[dict[str, int]]:
    apps = {"flask": flask_app(), "django": django_app()}
    servers = {name: wsgi_served(WsgiEdge(app, catalog=errors, body=chosen)) for name, app in apps.items()}
    yield {name: server.__enter__() for name, server in servers.items()}
    for server in servers.values():
        server.__exit__(None, None, None)


both = pytest.mark.parametrize("where", ["flask", "django"])


@pytest.mark.parametrize("length", ["²", "-1", "1_0", "x", "+5"])
def test_a_length_that_is_no_number_is_no_length(length: str) -> None:
    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [environ["wsgi.input"].read()]

    environ = {"REQUEST_METHOD": "POST", "PATH_INFO": "/", "CONTENT_LENGTH": length, "wsgi.input": io.BytesIO(b"body")}
    told: list[str] = []
    body = b"".join(WsgiEdge(app)(environ, lambda status, headers: told.append(status)))
    assert (told, body) == (["200 OK"], b"")


@both
@pytest.mark.parametrize(
    ("asked", "status", "code"),
    [
        (("GET", "/sold-out"), 409, "SOLD_OUT"),
        (("GET", "/broken"), 500, "INTERNAL_ERROR"),
        (("GET", "/nowhere"), 404, "NOT_FOUND"),
        (("DELETE", "/sold-out"), 405, "METHOD_NOT_ALLOWED"),
    ],
)
def test_what_goes_wrong_is_told_in_the_dialect(
    ports: dict[str, int], where: str, asked: tuple[str, str], status: int, code: str
) -> None:
    reply = call(ports[where], *asked, x_request_id="r-1")
    assert (reply.status, reply.json()["error"]["code"]) == (status, code)
    assert reply.headers["x-request-id"] == "r-1"
    assert TEXT.encode() not in reply.body
    assert status != 405 or "GET" in reply.headers["allow"]


@both
def test_the_context_and_the_deadline_are_those_of_the_request(ports: dict[str, int], where: str) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    headers = {"x_request_id": "r-2", "traceparent": f"00-{trace}-00f067aa0ba902b7-01", "x_deadline_ms": "60000"}
    known = call(ports[where], "GET", "/context", **headers).json()
    assert (known["request_id"], known["trace_id"], known["endpoint"]) == ("r-2", trace, "GET /context")
    assert 0 < known["left_s"] <= 60
    assert call(ports[where], "GET", "/context").json()["left_s"] == 1e9


@both
def test_a_body_within_bounds_arrives_whole(ports: dict[str, int], where: str) -> None:
    assert call(ports[where], "POST", "/size", b"x" * 1_000).body == b"1000"
    assert call(ports[where], "POST", "/size", b"").body == b"0"


@both
def test_a_body_that_announces_too_much_is_refused(ports: dict[str, int], where: str) -> None:
    reply = call(ports[where], "POST", "/size", b"x" * 1_001)
    assert (reply.status, reply.json()["error"]["code"]) == (413, "PAYLOAD_TOO_LARGE")


@both
def test_a_body_that_drips_is_cut(ports: dict[str, int], where: str) -> None:
    begun_s = REAL.monotonic_s()
    with socket.create_connection(("127.0.0.1", ports[where]), timeout=TIMEOUT_S) as connection:
        connection.sendall(b"POST /size?hurry HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n")
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
    assert reply is not None
    assert (reply.status, reply.json()["error"]["code"]) == (408, "REQUEST_TIMEOUT")


@both
def test_hostile_json_never_reaches_the_application(ports: dict[str, int], where: str) -> None:
    reply = call(ports[where], "POST", "/size", b'{"a":1,"a":2}', content_type="application/json")
    assert (reply.status, reply.json()["error"]["details"]["reason"]) == (400, "duplicate_key")


def test_an_aborted_request_is_told_in_the_dialect(ports: dict[str, int]) -> None:
    assert call(ports["flask"], "GET", "/forbidden").json()["error"]["code"] == "FORBIDDEN"


def test_a_streamed_reply_is_streamed(ports: dict[str, int]) -> None:
    assert call(ports["flask"], "GET", "/stream").body == b"one,two,three"


def test_head_gets_no_body(ports: dict[str, int]) -> None:
    reply = call(ports["flask"], "HEAD", "/nowhere")
    assert (reply.status, reply.body) == (404, b"")


def test_a_client_that_leaves_in_the_middle_harms_nobody(ports: dict[str, int]) -> None:
    begun = b"POST /orders HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    reply = raw(ports["flask"], begun, half_close=True)
    assert reply is not None
    assert (reply.status, reply.body) == (400, b"")
    assert call(ports["flask"], "GET", "/context").status == 200


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(f"sqlite:///{tmp_path / 'edge.db'}")
    opened.migrate()
    yield opened
    opened.close()


def test_keys_limits_health_and_idempotency_work_without_an_event_loop(store: Store) -> None:
    keys = ApiKeys(store)
    limits = RateLimits(RateRule(name="client", rate=RateLimit(count=4, per_s=3_600), by=by_client), store=store)
    health = Health({"store": store_check(store)})
    access = Access(keys)
    edge = WsgiEdge(
        flask_app(),
        catalog=errors,
        access=access,
        limits=limits,
        health=health,
        idempotency=Idempotency(keys=Keys(store), access=access),
    )
    with wsgi_served(edge) as port:
        assert call(port, "GET", "/health").json()["status"] == "ok"
        assert call(port, "POST", "/orders", {}).status == 401
        bearer = f"Bearer {keys.issue('ci', tenant='acme').secret.reveal()}"
        first, again, last, refused = (
            call(port, "POST", "/orders", {"a": 1}, authorization=bearer, idempotency_key="k") for _ in range(4)
        )
    assert (first.status, first.json()) == (201, {"order": 1, "given": 1})
    assert again.body == last.body == first.body
    assert again.headers["idempotent-replayed"] == "true"
    assert (refused.status, refused.json()["error"]["code"]) == (429, "RATE_LIMIT_EXCEEDED")
    known = Keys(store).show(tenant="acme", operation="POST /orders", key="k")
    assert known is not None
    assert known["resources"] == '{"orderId":"1"}'


def environ(**changed: Any) -> dict[str, Any]:
    known = {
        "REQUEST_METHOD": "GET",
        "PATH_INFO": "/",
        "QUERY_STRING": "",
        "wsgi.input": io.BytesIO(),
        "SERVER_PORT": "80",
    }
    return {**known, **changed}


def test_a_server_that_stops_asking_ends_the_application() -> None:
    closed: list[bool] = []

    class Parts:
        def __iter__(self) -> Iterator[bytes]:
            yield b"one"
            yield b"two"

        def close(self) -> None:
            closed.append(True)

    def app(environ: Any, start_response: Any) -> Any:
        start_response("200 OK", [])
        return Parts()

    before = current_context()
    reply = WsgiEdge(app)(environ(), lambda status, headers: None)
    assert next(iter(reply)) == b"one"
    reply.close()  # type: ignore[attr-defined]
    assert closed == [True]
    assert current_context() is before


def test_the_old_write_is_understood() -> None:
    def app(environ: Any, start_response: Any) -> Any:
        write = start_response("200 OK", [])
        write(b"one,")
        return [b"two"]

    assert b"".join(WsgiEdge(app)(environ(), lambda status, headers: None)) == b"one,two"


def test_a_reply_without_parts_is_a_reply() -> None:
    told: list[str] = []

    def app(environ: Any, start_response: Any) -> Any:
        start_response("204 No Content", [])
        return []

    assert b"".join(WsgiEdge(app)(environ(), lambda status, headers: told.append(status))) == b""
    assert told == ["204 No Content"]


def test_the_path_is_read_as_utf_8_under_its_root() -> None:
    seen: list[Any] = []

    def app(environ: Any, start_response: Any) -> Any:
        seen.append(environ["holdfast.scope"])
        start_response("200 OK", [])
        return []

    path_info = "/über".encode().decode("latin-1")
    list(WsgiEdge(app)(environ(SCRIPT_NAME="/shop", PATH_INFO=path_info), lambda status, headers: None))
    assert (seen[0]["path"], seen[0]["raw_path"], seen[0]["root_path"]) == ("/shop/über", b"/shop/%C3%BCber", "/shop")
