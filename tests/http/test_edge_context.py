"""Every request has an id, a trace and, where it asks for one, a deadline; failures and handlers see them."""

from __future__ import annotations

import asyncio
import copy
import pickle
import threading
from collections.abc import Iterator
from dataclasses import replace
from math import inf
from typing import Any

import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st

from holdfast.base import World, replaced
from holdfast.catalog import Context, current_context
from holdfast.catalog.core import CONFLICT
from holdfast.http.arrival import Arrived, enter, leave, request_id
from holdfast.http.edge import Edge
from holdfast.policy import left_s, within

from .edge_servers import call, served

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    app = FastAPI()

    @app.get("/context")
    async def context() -> dict[str, str]:
        return current_context().known()

    @app.get("/thread")
    def thread() -> dict[str, str]:
        return current_context().known()

    @app.get("/left")
    async def left() -> float | None:
        return None if left_s() == float("inf") else left_s()

    @app.get("/fails")
    async def fails() -> None:
        raise CONFLICT()

    with served(Edge(app)) as found:
        yield found


@pytest.mark.parametrize("status", [200, 404, 418, 500])
async def test_an_id_that_the_application_shows_by_itself_gives_way_to_the_requests_own(status: int) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"x-request-id", b"mine"), (b"X-Request-ID", b"mine"), (b"x-other", b"stays")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"what the application says"})

    start, _ = await ask(Edge(app), headers=[(b"x-request-id", b"theirs")])
    shown = [value for name, value in start["headers"] if name.lower() == b"x-request-id"]
    assert shown == [b"theirs"]
    assert (b"x-other", b"stays") in start["headers"]


@pytest.mark.parametrize("identifier", ["r-1", "a" * 128, "0190b5f2-7c1e-7cc3", "a.b_c~d:e@f/g+h="])
def test_the_callers_request_id_is_taken_and_returned(port: int, identifier: str) -> None:
    for path in ("/context", "/fails", "/nowhere"):
        assert call(port, "GET", path, x_request_id=identifier).headers["x-request-id"] == identifier
    assert call(port, "GET", "/context", x_request_id=identifier).json()["request_id"] == identifier


@pytest.mark.parametrize("identifier", ["", " ", "a" * 129, "a b", 'a"b', "<script>", "a,b", "ü"])
def test_an_id_that_cannot_be_shown_is_replaced(port: int, identifier: str) -> None:
    made = call(port, "GET", "/context", x_request_id=identifier).headers["x-request-id"]
    assert made.startswith("req_")
    assert len(made) == 28


def test_no_two_requests_get_the_same_id(port: int) -> None:
    assert len({call(port, "GET", "/context").headers["x-request-id"] for _ in range(300)}) == 300


@pytest.mark.parametrize("path", ["/context", "/thread"])
def test_the_trace_goes_on_under_a_new_span(port: int, path: str) -> None:
    known = call(port, "GET", path, traceparent=PARENT, user_agent="tests/1", origin="https://shop.example").json()
    assert known["trace_id"] == TRACE
    assert known["span_id"] != "00f067aa0ba902b7"
    assert (known["user_agent"], known["endpoint"]) == ("tests/1", f"GET {path}")
    assert known["request_source"] == "https://shop.example"


@pytest.mark.parametrize(
    "parent", ["", "garbage", f"ff-{TRACE}-00f067aa0ba902b7-01", f"00-{'0' * 32}-00f067aa0ba902b7-01"]
)
def test_a_broken_trace_is_begun_anew(port: int, parent: str) -> None:
    trace = call(port, "GET", "/context", traceparent=parent).json()["trace_id"]
    assert trace != TRACE
    assert len(trace) == 32


def test_a_failure_tells_the_callers_trace(port: int) -> None:
    assert call(port, "GET", "/fails", traceparent=PARENT).json()["error"]["traceId"] == TRACE


def test_the_deadline_is_handed_down(port: int) -> None:
    assert 0 < call(port, "GET", "/left", x_deadline_ms="30000").json() <= 30
    assert call(port, "GET", "/left").json() is None
    assert call(port, "GET", "/left", x_deadline_ms="soon").json() is None


async def test_a_request_inherits_no_deadline_from_the_one_before_on_its_connection() -> None:
    seen: list[float] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(left_s())
        await constant(scope, receive, send)

    with within(500):
        await ask(Edge(app))
        await ask(Edge(Edge(app)), headers=[(b"x-deadline-ms", b"200000")])
        assert left_s() <= 500
    assert seen[0] == inf
    assert seen[1] <= 200


@pytest.mark.parametrize("spent", ["0", "-5"])
def test_a_deadline_that_has_passed_is_refused_at_the_door(port: int, spent: str) -> None:
    reply = call(port, "GET", "/left", x_deadline_ms=spent)
    assert (reply.status, reply.json()["error"]["code"]) == (504, "DEADLINE_EXCEEDED")


async def nobody() -> Any:
    raise AssertionError("nobody asked for a body")


async def ask(app: Any, **scope: Any) -> list[Any]:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await app({"type": "http", "method": "GET", "path": "/", "headers": [], **scope}, nobody, send)
    return sent


START = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]}


async def constant(scope: Any, receive: Any, send: Any) -> None:
    await send(START)
    await send({"type": "http.response.body", "body": current_context().request_id.encode()})


async def test_the_applications_own_messages_are_not_changed() -> None:
    edge = Edge(constant)
    for _ in range(3):
        start, _ = await ask(edge)
        assert [name for name, _ in start["headers"]] == [b"content-type", b"x-request-id"]
    assert START["headers"] == [(b"content-type", b"text/plain")]


async def test_an_edge_inside_an_edge_shares_its_id_and_adds_no_second_header() -> None:
    start, body = await ask(Edge(Edge(constant)))
    (shown,) = [value for name, value in start["headers"] if name == b"x-request-id"]
    assert body["body"] == shown


async def test_the_context_ends_with_the_request() -> None:
    before = current_context()
    await ask(Edge(constant))
    assert current_context() is before


async def test_requests_at_the_same_time_do_not_mix() -> None:
    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(0)
        await constant(scope, receive, send)

    edge = Edge(slow)
    answers = await asyncio.gather(*(ask(edge, headers=[(b"x-request-id", b"r%d" % n)]) for n in range(20)))
    assert [body["body"] for _, body in answers] == [b"r%d" % n for n in range(20)]


async def test_other_protocols_pass_untouched() -> None:
    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    for kind in ("lifespan", "websocket"):
        await Edge(app)({"type": kind}, nobody, nobody)
    assert seen == ["lifespan", "websocket"]


def arrived(**headers: str) -> Context:
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"method": "GET", "path": "/x", "headers": pairs, "holdfast.request_id": "r-9"}
    token = enter(scope)
    try:
        return current_context()
    finally:
        leave(token)


def test_a_context_read_late_behaves_like_any_other() -> None:
    context = arrived(traceparent=PARENT)
    assert isinstance(context, Arrived)
    assert context.traceparent.split("-")[1] == TRACE
    assert replace(context, account_id="a").account_id == "a"
    assert copy.copy(context) == context
    assert pickle.loads(pickle.dumps(context)) == context
    assert "r-9" in repr(context)
    with pytest.raises(AttributeError):
        context.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_threads_that_look_first_together_see_one_trace() -> None:
    for _ in range(20):
        context = arrived()
        gate = threading.Barrier(4)
        seen: list[str] = []

        def look(context: Context = context, gate: threading.Barrier = gate, seen: list[str] = seen) -> None:
            gate.wait()
            seen.append(context.span_id)

        threads = [threading.Thread(target=look) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(seen)) == 1


def test_a_replaced_world_makes_the_ids() -> None:
    with replaced(World(token_bytes=lambda count: b"\x07" * count)):
        assert request_id(None) == "req_" + "07" * 12


@given(st.binary(max_size=200))
def test_whatever_a_caller_sends_an_id_can_stand_in_a_header(sent: bytes) -> None:
    identifier = request_id(sent)
    assert identifier.isascii()
    assert identifier.isprintable()
    assert 1 <= len(identifier) <= 128
