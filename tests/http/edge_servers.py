"""Real servers on loopback for the edge's tests, and a client that hides nothing."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import uvicorn

from holdfast.testing.ports import listening_socket

TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: dict[str, str]
    """By lower-case name; what comes twice is joined by commas."""
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@contextmanager
def served(app: Any) -> Iterator[int]:
    """An ASGI application behind uvicorn, on a port of its own."""
    config = uvicorn.Config(app, log_level="critical", access_log=False, ws="none", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    with listening_socket() as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield int(listener.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join(TIMEOUT_S)


class _Threaded(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def wsgi_served(app: Any) -> Iterator[int]:
    """A WSGI application behind the standard library's server."""
    with make_server("127.0.0.1", 0, app, server_class=_Threaded, handler_class=_Quiet) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join(TIMEOUT_S)


def call(port: int, method: str, path: str, body: Any = None, /, **headers: str) -> Reply:
    """One request; a body that is not bytes is sent as JSON. `accept_language` becomes `Accept-Language`."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
        given.setdefault("content-type", "application/json")
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        connection.request(method, path, body, given)
        return _reply(connection.getresponse())
    finally:
        connection.close()


def raw(port: int, *pieces: bytes, half_close: bool = False) -> Reply | None:
    """Whatever bytes come back for these, read as a response; None when the connection ends without one."""
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as connection:
        for piece in pieces:
            connection.sendall(piece)
        if half_close:
            connection.shutdown(socket.SHUT_WR)
        return read(connection)


def read(connection: socket.socket) -> Reply | None:
    """The response that is on its way."""
    response = http.client.HTTPResponse(connection)
    try:
        response.begin()
        return _reply(response)
    except (http.client.BadStatusLine, ConnectionResetError):
        return None
    finally:
        response.close()


def _reply(response: http.client.HTTPResponse) -> Reply:
    headers: dict[str, str] = {}
    for name, value in response.getheaders():
        name = name.lower()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return Reply(response.status, headers, response.read())
