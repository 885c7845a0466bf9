"""Whatever goes wrong behind the edge is told in one way, whichever framework it went wrong in."""

from __future__ import annotations

import http.client
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette

from holdfast.base import bus
from holdfast.catalog import DEFAULT_CLASSIFIER, Catalog, Dialect, parse
from holdfast.catalog.core import NOT_FOUND
from holdfast.http.edge import Edge
from holdfast.http.exchange import note
from holdfast.http.faults import EDGE_FAULTS
from holdfast.watch import log_events

from .edge_apps import INVALID_PAYLOAD, SOLD_OUT, TEXT, bare_app, errors, fastapi_app, litestar_app, starlette_app
from .edge_servers import call, served


@pytest.fixture(scope="module")
def ports() -> Iterator[dict[str, int]]:
    inside = FastAPI()
    inside.add_middleware(Edge, catalog=errors, dialect=Dialect.NESTED)

    @inside.get("/broken")
    async def broken() -> None:
        raise RuntimeError(TEXT)

    @inside.get("/sold-out")
    async def sold_out() -> None:
        raise SOLD_OUT(item="lamp", retry_after_s=7)

    edges = {
        "fastapi": Edge(fastapi_app(), catalog=errors),
        "inside": inside,
        "starlette": Edge(starlette_app(), catalog=errors),
        "debug": Edge(Starlette(debug=True, routes=starlette_app().routes), catalog=errors),
        "bare": Edge(bare_app, catalog=errors),
        "full": Edge(fastapi_app(), catalog=errors, dialect=Dialect.FULL),
        "flat": Edge(fastapi_app(), catalog=errors, dialect=Dialect.FLAT, remap={"VALIDATION_ERROR": INVALID_PAYLOAD}),
        "litestar": Edge(litestar_app(), catalog=errors),
    }
    with _all_served(edges) as found:
        yield found


class _all_served:
    def __init__(self, apps: dict[str, Any]) -> None:
        self._servers = {name: served(app) for name, app in apps.items()}

    def __enter__(self) -> dict[str, int]:
        return {name: server.__enter__() for name, server in self._servers.items()}

    def __exit__(self, *given: Any) -> None:
        for server in self._servers.values():
            server.__exit__(*given)


EVERYWHERE = ["fastapi", "inside", "starlette", "debug", "bare"]


@pytest.mark.parametrize("where", [*EVERYWHERE, "litestar"])
def test_a_failure_is_answered_in_the_dialect(ports: dict[str, int], where: str) -> None:
    reply = call(ports[where], "GET", "/sold-out", x_request_id="r-1")
    assert reply.status == 409
    told = reply.json()["error"]
    assert (told["code"], told["message"], told["details"]) == ("SOLD_OUT", "lamp is sold out.", {"item": "lamp"})
    assert len(told["traceId"]) == 32
    assert (reply.headers["x-request-id"], reply.headers["retry-after"]) == ("r-1", "7")
    assert reply.headers["content-type"] == "application/json"


@pytest.mark.parametrize("where", [*EVERYWHERE, "litestar"])
def test_an_exception_that_nobody_declared_shows_no_text_of_itself(ports: dict[str, int], where: str) -> None:
    reply = call(ports[where], "GET", "/broken")
    assert reply.status == 500
    assert reply.json()["error"]["code"] == "INTERNAL_ERROR"
    assert b"hunter2" not in reply.body
    assert b"Runtime" not in reply.body
    assert reply.headers["x-request-id"].startswith("req_")


@pytest.mark.parametrize("where", [*EVERYWHERE, "litestar"])
def test_a_path_that_nobody_serves_is_told_in_the_dialect(ports: dict[str, int], where: str) -> None:
    reply = call(ports[where], "GET", "/nowhere")
    assert (reply.status, reply.json()["error"]["code"]) == (404, "NOT_FOUND")
    assert reply.json()["error"]["message"] == NOT_FOUND.says


@pytest.mark.parametrize(
    ("where", "path"),
    [("fastapi", "/sold-out"), ("inside", "/broken"), ("starlette", "/fine"), ("litestar", "/broken")],
)
def test_a_wrong_method_is_told_in_the_dialect_and_keeps_allow(ports: dict[str, int], where: str, path: str) -> None:
    reply = call(ports[where], "DELETE", path)
    assert (reply.status, reply.json()["error"]["code"]) == (405, "METHOD_NOT_ALLOWED")
    assert "GET" in reply.headers["allow"]


def test_a_failure_in_a_handler_that_blocks_is_answered_too(ports: dict[str, int]) -> None:
    assert call(ports["fastapi"], "GET", "/sync-sold-out").json()["error"]["code"] == "SOLD_OUT"


def test_an_http_exception_keeps_its_status_its_words_and_its_headers(ports: dict[str, int]) -> None:
    reply = call(ports["full"], "GET", "/teapot")
    told = reply.json()
    assert (reply.status, told["error_code"], told["message"]) == (418, "IM_A_TEAPOT", "short and (stout)")
    assert (reply.headers["x-handle"], reply.headers["retry-after"], told["retry_after"]) == ("here", "3", 3)


@pytest.mark.parametrize("where", ["fastapi", "litestar"])
def test_the_words_of_a_refusal_reach_the_client(ports: dict[str, int], where: str) -> None:
    told = call(ports[where], "GET", "/forbidden").json()["error"]
    assert (told["code"], told["message"]) == ("FORBIDDEN", "Not yours.")


def test_an_error_body_of_the_application_stays_as_it_is(ports: dict[str, int]) -> None:
    reply = call(ports["fastapi"], "GET", "/own")
    assert (reply.status, reply.body) == (409, b'{"mine":true}')
    assert reply.headers["x-request-id"].startswith("req_")


BAD = {"actor": {"username": "al", "password": "hunter2", "age": -1}, "colour": "red"}


def test_every_bad_field_is_listed_as_the_full_dialect_shows_it(ports: dict[str, int]) -> None:
    reply = call(ports["full"], "POST", "/orders?page=x", BAD)
    told = reply.json()
    assert (reply.status, told["error_code"]) == (400, "VALIDATION_ERROR")
    assert told["message"] == "Request validation failed"
    assert told["request_id"] == reply.headers["x-request-id"]
    listed = {one["field"]: one for one in told["details"]["errors"]}
    assert told["details"]["total_errors"] == 6
    assert set(listed) == {"page", "actor.username", "actor.password", "actor.age", "quantity", "colour"}
    assert listed["actor.age"]["value"] == -1
    constraints = {field: one["constraint"] for field, one in listed.items()}
    assert constraints == {
        "page": "type",
        "actor.username": "min_length",
        "actor.password": "min_length",
        "actor.age": "minimum",
        "quantity": "required",
        "colour": "pattern",
    }
    assert all(set(one) <= {"field", "value", "constraint", "message"} and one["message"] for one in listed.values())


@pytest.mark.parametrize("where", ["fastapi", "full", "flat", "litestar"])
def test_no_secret_is_shown_when_validation_fails(ports: dict[str, int], where: str) -> None:
    reply = call(ports[where], "POST", "/orders", BAD)
    assert reply.status == 400
    assert b"hunter2" not in reply.body
    assert b"password" in reply.body


def test_the_flat_dialect_tells_the_first_field_and_its_reason(ports: dict[str, int]) -> None:
    order = {"actor": {"password": "p" * 12, "age": 1}, "quantity": 1, "colour": "#00ff00"}
    told = call(ports["flat"], "POST", "/orders", order).json()
    assert (told["error"], told["code"]) == ("Missing required field: actor.username", "INVALID_PAYLOAD")
    assert (told["details"]["field"], told["details"]["reason"]) == ("actor.username", "required")
    assert told["details"]["total_errors"] == 1


def test_litestars_validation_errors_are_listed_alike(ports: dict[str, int]) -> None:
    told = call(ports["litestar"], "POST", "/orders", BAD).json()["error"]
    assert told["code"] == "VALIDATION_ERROR"
    assert told["details"]["total_errors"] == 5
    assert all(one["message"] for one in told["details"]["errors"])


@pytest.mark.parametrize(
    ("accept", "problem"),
    [
        ("application/problem+json", True),
        ("application/json, application/problem+json", True),
        ("application/problem+json;q=0.5, application/json", False),
        ("application/problem+json;q=0", False),
        ("application/json", False),
        ("*/*", False),
        ("application/problem+json;q=x", False),
    ],
)
@pytest.mark.parametrize("path", ["/nowhere", "/sold-out", "/broken"])
def test_whoever_accepts_problems_by_name_gets_them(
    ports: dict[str, int], path: str, accept: str, problem: bool
) -> None:
    reply = call(ports["full"], "GET", path, accept=accept)
    assert (reply.headers["content-type"] == "application/problem+json") is problem
    assert reply.headers["vary"] == "accept"
    told = reply.json()
    assert (told["status"] == reply.status) if problem else told["error_code"]


@pytest.mark.parametrize("where", ["fastapi", "full", "flat"])
def test_what_the_edge_says_can_be_parsed_back(ports: dict[str, int], where: str) -> None:
    reply = call(ports[where], "GET", "/sold-out")
    received = parse(reply.body, status=reply.status, headers=reply.headers, catalog=errors)
    assert (received.code, received.retryable) == ("SOLD_OUT", True)


def test_head_gets_the_headers_of_the_failure_and_no_body(ports: dict[str, int]) -> None:
    reply = call(ports["fastapi"], "HEAD", "/nowhere")
    assert (reply.status, reply.body) == (404, b"")
    assert int(reply.headers["content-length"]) > 0


def test_a_reply_that_has_begun_is_cut_and_not_replaced(ports: dict[str, int]) -> None:
    with pytest.raises(http.client.IncompleteRead) as cut:
        call(ports["starlette"], "GET", "/begun")
    assert cut.value.partial == b"first"


async def test_an_undeclared_exception_is_logged_with_the_request_and_its_trace(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/broken", "headers": [(b"x-request-id", b"r-7")]}
    with caplog.at_level(logging.ERROR, logger="holdfast.http"):
        await Edge(bare_app)(scope, _nothing, send)
    # Only ours: threads that other tests left behind may log as well.
    (record,) = [one for one in caplog.records if one.name.startswith("holdfast.http")]
    assert "r-7" in record.getMessage()
    assert TEXT in record.getMessage()
    assert "Traceback (most recent call last):" in record.getMessage()
    assert record.exc_info is None  # it would be printed as it is, secrets and all


async def test_what_an_exception_says_neither_leaks_nor_forges_lines(caplog: pytest.LogCaptureFixture) -> None:
    async def leaky(_scope: Any, _receive: Any, _send: Any) -> None:
        raise RuntimeError("postgresql://ada:hunter22@db\n2026-03-01 CRITICAL forged\x1b[2J")

    async def send(_message: Any) -> None:
        pass

    scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"x-request-id", b"r-8")]}
    with caplog.at_level(logging.ERROR, logger="holdfast.http"):
        await Edge(leaky)(scope, _nothing, send)
    (record,) = [one for one in caplog.records if one.name == "holdfast.http" and "r-8" in one.getMessage()]
    text = record.getMessage()
    assert text.splitlines()[-1] == r"RuntimeError: postgresql://ada:***@db\n2026-03-01 CRITICAL forged\x1b[2J"
    assert "in test_what_an_exception_says_neither_leaks_nor_forges_lines.<locals>.leaky" in text


async def test_where_lines_are_written_an_undeclared_exception_is_told_there_and_only_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def send(_message: Any) -> None:
        pass

    out = io.StringIO()
    end = log_events(json=True, stream=out)
    scope = {"type": "http", "method": "GET", "path": "/broken", "headers": [(b"x-request-id", b"r-9")]}
    try:
        await Edge(bare_app)(scope, _nothing, send)
    finally:
        end()
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    (told,) = [line for line in lines if line["event"] == "exception.caught"]
    assert (told["level"], told["area"], told["request_id"]) == ("error", "holdfast.http", "r-9")
    assert told["exception"].startswith("Traceback (most recent call last):")
    assert TEXT in told["exception"].splitlines()[-1]
    assert not [one for one in caplog.records if one.name == "holdfast.http" and "r-9" in one.getMessage()]


async def _nothing() -> Any:
    raise AssertionError("nobody asked for a body")


async def test_every_failure_is_told_to_whoever_listens() -> None:
    heard: list[str] = []

    async def send(message: Any) -> None:
        pass

    edge = Edge(bare_app, on_failure=lambda failure: heard.append(failure.code))
    for path in ("/broken", "/sold-out", "/nowhere", "/fine"):
        await edge({"type": "http", "method": "GET", "path": path, "headers": []}, _nothing, send)
    assert heard == ["INTERNAL_ERROR", "SOLD_OUT", "NOT_FOUND"]


async def test_a_page_of_the_applications_own_stays_and_is_told_with_the_code_of_its_failure() -> None:
    heard: list[str] = []
    sent: list[Any] = []

    async def shows_a_page(scope: Any, _: Any, send: Any) -> None:
        note(scope, SOLD_OUT(item="lamp"), written=True)
        page = {"type": "http.response.start", "status": 409, "headers": [(b"content-type", b"text/html")]}
        await send(page)
        await send({"type": "http.response.body", "body": b"<h1>Sold out</h1>"})

    async def send(message: Any) -> None:
        sent.append(message)

    edge = Edge(shows_a_page, catalog=errors, on_failure=lambda failure: heard.append(failure.code))
    with bus.heard() as told:
        await edge({"type": "http", "method": "GET", "path": "/", "headers": []}, _nothing, send)
    assert (sent[0]["status"], b"".join(part["body"] for part in sent[1:])) == (409, b"<h1>Sold out</h1>")
    assert [(verb, facts["code"]) for verb, facts in told] == [("request.served", "SOLD_OUT")]
    assert heard == ["SOLD_OUT"]


async def answered(app: Any, **settings: Any) -> dict[str, Any]:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await Edge(app, **settings)({"type": "http", "method": "GET", "path": "/", "headers": []}, _nothing, send)
    told: dict[str, Any] = json.loads(sent[1]["body"])
    return {"status": sent[0]["status"], **told["error"]}


async def test_a_classifier_says_what_some_exceptions_mean_and_the_rest_is_internal() -> None:
    async def refused(scope: Any, receive: Any, send: Any) -> None:
        raise ConnectionRefusedError("10.0.0.7")

    async def broken(scope: Any, receive: Any, send: Any) -> None:
        raise LookupError(TEXT)

    assert (await answered(refused))["code"] == "INTERNAL_ERROR"
    assert (await answered(refused, classifier=DEFAULT_CLASSIFIER))["code"] == "CONNECTION_REFUSED"
    assert (await answered(broken, classifier=DEFAULT_CLASSIFIER))["code"] == "INTERNAL_ERROR"


async def test_a_failure_in_a_task_group_is_found() -> None:
    async def grouped(scope: Any, receive: Any, send: Any) -> None:
        raise ExceptionGroup("tasks", [ExceptionGroup("inner", [SOLD_OUT(item="lamp")])])

    assert (await answered(grouped))["code"] == "SOLD_OUT"


async def test_a_catalogs_own_words_win() -> None:
    shop = Catalog("own", extends=(EDGE_FAULTS,))
    shop.refine("NOT_FOUND", says="We do not sell that.")

    async def missing(scope: Any, receive: Any, send: Any) -> None:
        raise NOT_FOUND()

    assert (await answered(missing, catalog=shop))["message"] == "We do not sell that."


async def test_a_listener_that_fails_costs_nobody_an_answer() -> None:
    def broken(failure: Any) -> None:
        raise ValueError("the metrics are away")

    assert (await answered(bare_app, on_failure=broken))["code"] == "NOT_FOUND"


@pytest.mark.parametrize("fault", list(EDGE_FAULTS), ids=lambda fault: fault.code)
def test_every_fault_of_the_edge_says_what_to_do(fault: Any) -> None:
    assert fault.remedy
    assert [code for code in fault.related if code not in EDGE_FAULTS] == []
