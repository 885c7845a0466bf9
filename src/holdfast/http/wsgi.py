"""The edge around a WSGI application: Flask, Django, or a bare callable.

The very same middleware runs here without an event loop, driven by hand in the server's own thread: whatever would
wait elsewhere blocks here, and the reply is streamed as it is made. A body that drips is cut between two reads; one
that stops altogether is for the server's own timeout, because a blocking read cannot be interrupted.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator
from contextvars import Context, copy_context
from http import HTTPStatus
from types import CoroutineType
from typing import Any
from urllib.parse import quote

from holdfast.http.asgi import Application, Message, Receive, Scope, Send
from holdfast.http.edge import Edge

CHUNK_BYTES = 65_536
SCOPE_KEY = "holdfast.scope"
"""Where the scope stands in the environ: its `holdfast.request_id`, `holdfast.api_key` and `holdfast.started`."""

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
WsgiApplication = Callable[[Environ, StartResponse], Iterable[bytes]]


class WsgiEdge:
    """WSGI middleware: `app.wsgi_app = WsgiEdge(app.wsgi_app, catalog=errors)`; takes what `Edge` takes."""

    def __init__(self, app: WsgiApplication, **settings: Any) -> None:
        self._app = app
        self._edge = Edge(_asgi(app), **settings)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterator[bytes]:
        scope = _scope(environ)
        work = self._edge(scope, _reader(environ), _emit)
        return _driven(work, start_response, copy_context())


class _Said:
    """Hands one message to the code that drives the coroutine."""

    __slots__ = ("_message",)

    def __init__(self, message: Message) -> None:
        self._message = message

    def __await__(self) -> Generator[Message, None, None]:
        yield self._message


async def _emit(message: Message) -> None:
    await _Said(message)


def _driven(work: Any, start_response: StartResponse, context: Context) -> Iterator[bytes]:
    """The reply, message by message, as the coroutine makes it."""
    begun = False
    try:
        while True:
            try:
                message = context.run(work.send, None)
            except StopIteration:
                if not begun:
                    start_response(_status_line(400), [])  # the client left; a server wants an answer all the same
                return
            if message["type"] == "http.response.start":
                begun = True
                start_response(_status_line(message["status"]), _allowed(message["headers"]))
            elif message["type"] == "http.response.body" and message.get("body"):
                yield message["body"]
    finally:
        context.run(work.close)  # the server may stop asking at any time


def _asgi(app: WsgiApplication) -> Application:
    """The WSGI application as the edge calls it."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        started: list[Message] = []

        def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], Any]:
            if started and exc_info is None:
                raise AssertionError("start_response was called twice")
            pairs = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
            started[:] = [{"type": "http.response.start", "status": int(status[:3]), "headers": pairs}]
            return written.append

        written: list[bytes] = []  # through the old `write`, which nobody should use
        environ = {**scope["holdfast.environ"], "wsgi.input": io.BufferedReader(_Input(receive)), SCOPE_KEY: scope}
        parts = app(environ, start_response)
        try:
            await _stream(parts, started, written, send)
        finally:
            close = getattr(parts, "close", None)
            if close is not None:
                close()

    return application


async def _stream(parts: Iterable[bytes], started: list[Message], written: list[bytes], send: Send) -> None:
    begun = False
    for part in parts:
        if not begun:
            await send(started[0])
            begun = True
        await send({"type": "http.response.body", "body": b"".join([*written, part]), "more_body": True})
        written.clear()
    if not begun:
        await send(started[0])
    await send({"type": "http.response.body", "body": b"".join(written), "more_body": False})


class _Input(io.RawIOBase):
    """The guarded body as a file."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._left = b""
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left and not self._ended:
            message = _immediate(self._receive())
            self._left = message.get("body", b"")
            self._ended = not message.get("more_body", False)
        taken = self._left[: len(buffer)]
        buffer[: len(taken)] = taken
        self._left = self._left[len(taken) :]
        return len(taken)


def _immediate(work: Awaitable[Message]) -> Message:
    """The result of a coroutine that waits for nothing."""
    assert isinstance(work, CoroutineType)
    try:
        work.send(None)
    except StopIteration as ended:
        result: Message = ended.value
        return result
    work.close()
    raise RuntimeError("a body was waited for without an event loop")


def _reader(environ: Environ) -> Receive:
    """Pieces of the body as they come; never past its announced length, where the server does not see to that."""
    source = environ["wsgi.input"]
    read = getattr(source, "read1", source.read)  # `read` waits for all that was asked for, `read1` for anything
    length = environ.get("CONTENT_LENGTH") or ""
    ends_itself = bool(environ.get("wsgi.input_terminated")) and not length
    left = int(length) if length.isascii() and length.isdigit() else sys.maxsize if ends_itself else 0

    async def receive() -> Message:
        nonlocal left
        if left <= 0:
            return {"type": "http.request", "body": b"", "more_body": False}
        broken = False
        try:
            body = read(min(left, CHUNK_BYTES))
        except OSError:
            body, broken = b"", True
        if not body:
            # Either the end of a body without a length, or a client that left in the middle of one.
            ended = not broken and (left == sys.maxsize or ends_itself)
            left = 0
            return {"type": "http.request" if ended else "http.disconnect", "body": b"", "more_body": False}
        left -= len(body)
        return {"type": "http.request", "body": body, "more_body": left > 0}

    return receive


def _scope(environ: Environ) -> Scope:
    headers = [
        (name[5:].replace("_", "-").lower().encode("latin-1"), str(value).encode("latin-1"))
        for name, value in environ.items()
        if name.startswith("HTTP_") and name not in ("HTTP_CONTENT_TYPE", "HTTP_CONTENT_LENGTH")
    ]
    headers += [
        (name.replace("_", "-").lower().encode(), str(environ[name]).encode("latin-1"))
        for name in ("CONTENT_TYPE", "CONTENT_LENGTH")
        if environ.get(name)
    ]
    path = environ.get("PATH_INFO", "").encode("latin-1")
    root = environ.get("SCRIPT_NAME", "").encode("latin-1")
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": environ.get("SERVER_PROTOCOL", "HTTP/1.1").removeprefix("HTTP/"),
        "method": environ["REQUEST_METHOD"],
        "scheme": environ.get("wsgi.url_scheme", "http"),
        "path": (root + path).decode("utf-8", "replace"),
        "raw_path": quote(root + path).encode("ascii"),
        "root_path": root.decode("utf-8", "replace"),
        "query_string": environ.get("QUERY_STRING", "").encode("latin-1"),
        "headers": headers,
        "client": (environ["REMOTE_ADDR"], 0) if environ.get("REMOTE_ADDR") else None,
        "server": (environ.get("SERVER_NAME", ""), int(environ.get("SERVER_PORT") or 0)),
        "holdfast.environ": environ,
    }


def _allowed(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    """The headers that a WSGI application may set: what is about the connection is for the server alone."""
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers if name != b"connection"]


def _status_line(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"{status} Unknown"
