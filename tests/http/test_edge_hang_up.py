"""A client that goes away while it sends its body is not an error of ours: 499, one debug line, nothing else."""

from __future__ import annotations

import logging
import queue
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from fastapi import FastAPI, Request, UploadFile
from flask import Flask
from flask import request as flask_request
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from holdfast.base import Facts, bus
from holdfast.catalog import Failure
from holdfast.http import BodyRule, Edge, WsgiEdge
from holdfast.watch import names
from holdfast.watch.meter import Meter

from .edge_servers import TIMEOUT_S, served, wsgi_served

FORM = "multipart/form-data; boundary=x"
HALF = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nhalf'


def fastapi_app() -> FastAPI:
    app = FastAPI()

    @app.post("/file")
    async def file(file: UploadFile) -> int:
        return len(await file.read())

    @app.post("/body")
    async def body(request: Request) -> int:
        return len(await request.body())

    return app


async def streamed(request: Request) -> PlainTextResponse:
    total = 0
    async for part in request.stream():
        total += len(part)
    return PlainTextResponse(str(total))


async def aborted(request: Request) -> PlainTextResponse:
    raise ClientDisconnect


async def careless(scope: Any, receive: Any, send: Any) -> None:
    """An application that answers 500 by itself when the body ends early."""
    more = True
    while more:
        message = await receive()
        more = message.get("more_body", False)
    status = 500 if message["type"] == "http.disconnect" else 200
    await send({"type": "http.response.start", "status": status, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def flask_app() -> Any:
    app = Flask("shop")

    @app.post("/body")
    def body() -> str:
        return str(len(flask_request.get_data()))

    return app.wsgi_app


def upload(path: str, kind: str = FORM) -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\nContent-Length: 100000\r\n\r\n".encode() + HALF


starlette = Starlette(routes=[Route("/stream", streamed, methods=["POST"])])
UPLOADS = {
    "a file of FastAPI": (served, Edge, fastapi_app(), {}, upload("/file")),
    "a body of FastAPI": (served, Edge, fastapi_app(), {}, upload("/body")),
    "JSON": (served, Edge, fastapi_app(), {}, upload("/body", "application/json")),
    "a stream of Starlette": (served, Edge, starlette, {}, upload("/stream")),
    "a body that nothing guards": (served, Edge, starlette, {"body": None}, upload("/stream")),
    "an application that answers": (served, Edge, careless, {}, upload("/")),
    "Flask": (wsgi_served, WsgiEdge, flask_app(), {}, upload("/body")),
}


@contextmanager
def told_requests() -> Iterator[queue.Queue[Facts]]:
    """The requests that are told, for whoever waits for them."""
    told: queue.Queue[Facts] = queue.Queue()
    end = bus.listen(lambda verb, facts: told.put(facts) if verb == "request.served" else None)
    try:
        yield told
    finally:
        end()


@pytest.mark.parametrize("where", list(UPLOADS))
def test_a_client_that_leaves_during_an_upload_is_counted_as_499(where: str, caplog: pytest.LogCaptureFixture) -> None:
    server, edge, app, settings, sent = UPLOADS[where]
    failures: list[Failure] = []
    with (
        caplog.at_level(logging.DEBUG),
        told_requests() as told,
        server(edge(app, on_failure=failures.append, **settings)) as port,
    ):
        with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as connection:
            connection.sendall(sent)
        facts = told.get(timeout=TIMEOUT_S)
    assert (facts["status"], facts["code"], failures) == (499, None, [])
    ours = [record for record in caplog.records if record.name.startswith("holdfast")]
    assert [record.levelno for record in ours] == [logging.DEBUG]
    assert "went away" in ours[0].getMessage()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING or record.exc_info]


async def test_an_exception_that_says_the_client_left_is_believed() -> None:
    app = Starlette(routes=[Route("/", aborted)])
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "query_string": b"", "http_version": "1.1"}
    with told_requests() as told:
        await Edge(app)(scope, receive, send)
    assert told.get_nowait()["status"] == 499
    assert sent == []


async def test_a_body_that_was_refused_stays_refused_whatever_the_framework_makes_of_it() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        try:
            await receive()
        except Failure as failure:
            raise ClientDisconnect from failure

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"x" * 11, "more_body": False}

    scope = {"type": "http", "method": "POST", "path": "/", "http_version": "1.1", "query_string": b""}
    headers = [(b"transfer-encoding", b"chunked")]
    await Edge(app, body=BodyRule(bytes_max=10))({**scope, "headers": headers}, receive, send)
    assert sent[0]["status"] == 413


def test_a_hang_up_is_a_request_and_not_an_error() -> None:
    meter = Meter()
    meter.hear("request.served", {"method": "POST", "endpoint": "/", "status": 499, "code": None, "duration_s": 0.5})
    counted = {delta.metric.name: delta.values for delta in meter.take()}
    assert counted[names.REQUESTS.name] == ("/", "POST", "499")
    assert counted[names.REQUEST_DURATION.name] == ("/", "gone")
    assert names.REQUEST_ERRORS.name not in counted
    assert names.ERRORS.name not in counted
