"""ASGI middleware that lets a stand-in fail on demand.

`PUT /faults` switches faults on, `GET /faults` shows them, `DELETE /faults` clears them. Every other request meets
them:

```python
app = Faulty(bank)                              # served: PUT /faults {"status": 503, "retry_after": 7, "times": 3}
app.faults.switch(reset=True)                   # or from the same process
```

Always true: only a client on this machine moves a switch, with a token where one is set, and nothing hangs for longer
than `HANG_S_MAX`. The health check fails with everything else unless `"health": false` spares it. WebSockets are passed
on untouched.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from holdfast.base import CodecError, Secret, decode, encode, world
from holdfast.catalog import CORE, HTTP_STATUSES, Dialect, Failure, Fault, render
from holdfast.http.asgi import Application, Receive, Scope, Send
from holdfast.http.faults import INVALID_JSON
from holdfast.http.this_machine import within_this_machine
from holdfast.http.wrong_tokens import bears
from holdfast.testing.faulty_switches import Faults, Switched

__all__ = ["Faults", "Faulty", "Switched"]

BODY_BYTES_MAX = 4_096
DRAINED_BYTES_MAX = 128 * 1_048_576
HANG_S_MAX = 600.0
LEAVING_S_MAX = 5.0
"""Maximum time to wait until a cut connection is gone."""
WRAPPERS_MAX = 16
GARBAGE = b"\x00\xff\xfe<<{garbage\x07" * 8

_LINGER_NOT = struct.pack("ii", 1, 0)

Words = Callable[[int], tuple[str, bytes]]
"""The media type and the body with which a service answers a status, in its own protocol."""


class Faulty:
    """An application with switches. Put it outermost: then a reset reaches the client as a real one."""

    def __init__(
        self,
        app: Application,
        *,
        faults: Faults | None = None,
        path: str = "/faults",
        health_path: str = "/health",
        words: Words | None = None,
        garbage_type: str = "application/json",
        token: Secret | None = None,
    ) -> None:
        """
        Args:
            token: without it, no switch is shown or moved; None asks for none.
            words: how the service itself would answer a status; the catalog's words without it.
            garbage_type: the media type under which garbage is sent, so that it cannot be told from its header.
        """
        self.app = app
        self.faults = Faults() if faults is None else faults
        self._path = path
        self._health_path = health_path
        self._words = words or _catalog_words
        self._garbage_type = garbage_type
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        path = _path_below_root(scope)
        if path == self._path:
            return await self._switch(scope, receive, send)
        met = self.faults.meet(health=path == self._health_path)
        if met is None:
            return await self.app(scope, receive, send)
        if met.delay_s is not None:
            await world().pause(met.delay_s)
        return await self._end(met, scope, receive, send)

    async def _end(self, met: Switched, scope: Scope, receive: Receive, send: Send) -> None:
        if met.hang:
            await _until_gone(receive, HANG_S_MAX)
            await cut(receive, send)
        elif met.reset:
            await cut(receive, send)
        elif met.status is not None:
            await read_body(receive, DRAINED_BYTES_MAX, kept=0)
            kind, body = self._words(met.status)
            wait = {} if met.retry_after is None else {"retry_after": str(met.retry_after)}
            await _say(scope, send, met.status, body, kind=kind, **wait)
        elif met.garbage:
            await read_body(receive, DRAINED_BYTES_MAX, kept=0)
            await _say(scope, send, 200, GARBAGE, kind=self._garbage_type)
        else:
            await self.app(scope, receive, send)

    async def _switch(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            status = await self._switched(scope, receive)
        except Failure as failure:
            rendered = render(failure, Dialect.NESTED)
            allow = {"allow": "GET, PUT, DELETE"} if rendered.status == 405 else {}
            return await _say(scope, send, rendered.status, rendered.body, **allow)
        return await _say(scope, send, status, b"" if status == 204 else encode(self.faults.told()).encode())

    async def _switched(self, scope: Scope, receive: Receive) -> int:
        if not within_this_machine(scope):
            raise CORE["FORBIDDEN"]()
        if self._token is not None and not bears(scope, self._token):
            raise CORE["UNAUTHORIZED"]()
        match scope["method"]:
            case "GET" | "HEAD":
                return 200
            case "DELETE":
                self.faults.clear()
                return 204
            case "PUT":
                self.faults.switch(**_object(await read_body(receive, BODY_BYTES_MAX, kept=BODY_BYTES_MAX)))
                return 200
        raise CORE["METHOD_NOT_ALLOWED"]()


def _path_below_root(scope: Scope) -> str:
    path, root = str(scope["path"]), str(scope.get("root_path", "")).rstrip("/")
    below = path[len(root) :] if root and (path == root or path.startswith(f"{root}/")) else path
    return below.rstrip("/")


def _object(body: bytes) -> dict[str, Any]:
    """The JSON object of a body.

    Raises:
        Failure: PAYLOAD_TOO_LARGE, INVALID_JSON, VALIDATION_ERROR.
    """
    if len(body) > BODY_BYTES_MAX:
        raise CORE["PAYLOAD_TOO_LARGE"](bytes_max=BODY_BYTES_MAX)
    try:
        read = decode(body)
    except CodecError as broken:
        raise INVALID_JSON(reason=broken.reason, explanation=broken.explanation[:200]) from None
    if not isinstance(read, dict):
        raise INVALID_JSON(reason="no_object", explanation="the faults are one JSON object")
    return read


async def read_body(receive: Receive, bytes_max: int, *, kept: int) -> bytes:
    """The body, or its beginning: one byte more than `kept` tells that there was more.

    What is answered before the body has come may never be read by a client that is still sending.
    """
    body, seen, more = b"", 0, True
    while more and seen <= bytes_max:
        message = await receive()
        chunk = message.get("body", b"")
        seen += len(chunk)
        body = (body + chunk)[: kept + 1] if kept else b""
        more = message["type"] == "http.request" and message.get("more_body", False)
    return body


async def _until_gone(receive: Receive, seconds_max: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds_max):
            while (await receive())["type"] != "http.disconnect":
                pass


async def cut(receive: Receive, send: Send) -> None:
    """Break the connection: no byte of a reply where the server lets us at it, else a reply that ends too early."""
    transport = _transport(receive)
    if transport is None:
        # A server closes a connection whose reply was announced and never came.
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1024")]})
        return
    connection = transport.get_extra_info("socket")
    if connection is not None:
        with suppress(OSError, ValueError):  # it is gone already; uvloop says so in its own way
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
    transport.abort()
    await _until_gone(receive, LEAVING_S_MAX)


def _transport(receive: Any) -> Any:
    """The connection behind `receive`, as uvicorn keeps it, through the edge's wrappers; None behind any other."""
    for _ in range(WRAPPERS_MAX):
        owner = getattr(receive, "__self__", receive)
        found = getattr(owner, "transport", None)
        if hasattr(found, "abort") and hasattr(found, "get_extra_info"):
            return found
        receive = getattr(owner, "_receive", None)
        if receive is None:
            break
    return None


def _catalog_words(status: int) -> tuple[str, bytes]:
    known = HTTP_STATUSES.exact.get(status) or HTTP_STATUSES.ranges[status // 100]
    fault = Fault(code=known.code, status=status, says=known.says, retry=known.retry, blame=known.blame)
    return "application/json", render(fault(), Dialect.NESTED).body


async def _say(
    scope: Scope, send: Send, status: int, body: bytes, *, kind: str = "application/json", **more: str
) -> None:
    named = {"content-type": kind, "content-length": str(len(body)), "cache-control": "no-store", **more}
    if status == 204:
        named = {}
    headers = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in named.items()]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
