"""The gateway over HTTP: `POST /convert?mapping=…` takes a PDF and answers with XML; `GET /health` tells how it is.

The PDF goes to a file as it arrives, and the XML comes from one: however large they are, and however many wait, the
gateway itself stays small. What comes is read to its end before anything is refused, because a client that is still
sending may never read the answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import parse_qs

from holdfast.base import Secret, encode, monotonic_s, new_id, one_line
from holdfast.catalog import CORE, DEFAULT_CLASSIFIER, Failure, current_context
from holdfast.http import BodyRule, ClientGone, Edge
from holdfast.http.asgi import Application, Receive, Scope, Send, header
from holdfast.policy.deadline import left_s
from holdfast.testing.faulty import Faulty
from holdfast_systems.conversion.gateway.converter import Abandoned, Done, Order
from holdfast_systems.conversion.gateway.faults import CONVERTER_BUSY, GATEWAY_FAULTS, UNSUPPORTED_MAPPING
from holdfast_systems.conversion.gateway.limits import MEBIBYTE, GatewayLimits
from holdfast_systems.conversion.gateway.pool import Pool

MAPPINGS = ("layout", "outline", "text")
"""By name; what they do is loaded only by the processes that convert."""
KINDS = frozenset({"", "application/pdf", "application/x-pdf", "application/octet-stream"})
"""The media types under which a PDF may come; the content decides whether it is one."""
UNREAD_BYTES_MAX = 64 * MEBIBYTE
"""Maximum number of bytes beyond the limit that are still read of a body that is too large, so that the client reads
the refusal."""
CHUNK_BYTES = 262_144
BUSY_S_MAX = 30.0
MAPPING_CHARS_MAX = 64
BODY_WAIT_S = 30.0
HTTP_SERVER_ERRORS = 500

_log = logging.getLogger("holdfast.conversion.gateway")


class Desk:
    """Takes PDFs in, has them converted, and gives the XML out."""

    def __init__(self, pool: Pool, folder: Path, limits: GatewayLimits) -> None:
        """`folder` is for files that last as long as a request."""
        self._pool = pool
        self._folder = folder
        self._limits = limits
        self._threads = ThreadPoolExecutor(limits.processes, thread_name_prefix="conversion")
        self._taken = 0

    def close(self) -> None:
        """Wait until nothing is converted any more; the pool has to be stopped before."""
        self._threads.shutdown(cancel_futures=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        match scope["path"], scope["method"]:
            case "/convert", "POST":
                await self._convert(scope, receive, send)
            case "/health", "GET" | "HEAD":
                await self._tell_health(scope, send)
            case "/convert" | "/health", _:
                raise CORE["METHOD_NOT_ALLOWED"]()
            case _:
                raise CORE["NOT_FOUND"]()

    async def _convert(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Convert one PDF, and say in the log how it went."""
        begun_s = monotonic_s()
        outcome = "left: the client is gone"
        level = logging.INFO
        try:
            done = await self._served(scope, receive, send)
            outcome = f"converted: pages={done.pages} result_bytes={done.bytes}"
        except Failure as failure:
            outcome = f"refused: {failure.status} {failure.code}: {failure.technical}"
            level = logging.WARNING if failure.status >= HTTP_SERVER_ERRORS else logging.INFO
            raise
        finally:
            facts = (current_context().trace_id, _mapping(scope)[:MAPPING_CHARS_MAX], monotonic_s() - begun_s)
            _log.log(level, "%s trace=%s mapping=%r in %.3f s", one_line(outcome), *facts)

    async def _served(self, scope: Scope, receive: Receive, send: Send) -> Done:
        source = self._folder / f"{new_id()}.pdf"
        result = source.with_suffix(".xml")
        refusal = _refusal(scope) or self._take()
        try:
            await self._taken_in(receive, source, keep=refusal is None)
            if refusal is not None:
                raise refusal
            done = await self._converted(
                Order(
                    source=source,
                    result=result,
                    mapping=_mapping(scope),
                    wall_s=min(self._limits.wall_s, left_s()),
                    abandoned=Event(),
                ),
                receive,
            )
            await _give(result, send)
            return done
        except Abandoned:
            raise ClientGone from None
        finally:
            if refusal is None:
                self._taken -= 1
            for path in (source, result):
                path.unlink(missing_ok=True)

    def _take(self) -> Failure | None:
        """Take a place, or say why there is none."""
        if self._taken >= self._limits.processes + self._limits.queue_max:
            wait_s = min(BUSY_S_MAX, 1.0 + self._taken // self._limits.processes)
            return CONVERTER_BUSY(
                running=self._limits.processes, waiting_max=self._limits.queue_max, retry_after_s=wait_s
            )
        self._taken += 1
        return None

    async def _taken_in(self, receive: Receive, source: Path, *, keep: bool) -> None:
        """Bring the body into the file; all of it is read, and no more than what is allowed is kept.

        Raises:
            Failure: PAYLOAD_TOO_LARGE.
            ClientGone: the client left before its body was complete.
        """
        size, more = 0, True
        with source.open("wb") as file:
            while more:
                message = await receive()
                if message["type"] != "http.request":
                    raise ClientGone
                chunk = message.get("body", b"")
                size, more = size + len(chunk), message.get("more_body", False)
                if keep and size <= self._limits.bytes_max:
                    file.write(chunk)
        if keep and size > self._limits.bytes_max:
            raise CORE["PAYLOAD_TOO_LARGE"](bytes_max=self._limits.bytes_max)

    async def _converted(self, order: Order, receive: Receive) -> Done:
        """Have it converted; when the client leaves before that, give up.

        Raises:
            Failure: whatever is wrong with the file or the converter.
            Abandoned: the client is gone.
        """
        context = copy_context()  # failures belong to this request, in whatever thread they come up
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._threads, context.run, _unless_abandoned, self._pool.convert, order)
        leaving = asyncio.create_task(_left(receive))
        both: set[asyncio.Future[Any]] = {work, leaving}
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                order.abandoned.set()
            return await work
        finally:
            order.abandoned.set()
            leaving.cancel()
            with suppress(asyncio.CancelledError):
                await leaving

    async def _tell_health(self, scope: Scope, send: Send) -> None:
        running = min(self._taken, self._limits.processes)
        told = {
            "status": "ok" if self._pool.healthy else "down",
            "running": running,
            "waiting": self._taken - running,
            "capacity": self._limits.processes + self._limits.queue_max,
            "mappings": MAPPINGS,
        }
        body = encode(told).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"cache-control", b"no-store"),
        ]
        status = 200 if self._pool.healthy else 503
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


def gateway_app(desk: Desk, limits: GatewayLimits, *, faults: Secret | None) -> Application:
    """The whole application; with a token `faults`, a caller that brings it can switch faults."""
    rule = BodyRule(bytes_max=limits.bytes_max + UNREAD_BYTES_MAX, wait_s=BODY_WAIT_S, json_checked=False)
    edge = Edge(desk, catalog=GATEWAY_FAULTS, classifier=DEFAULT_CLASSIFIER, body=rule)
    return edge if faults is None else Faulty(edge, garbage_type="application/xml", token=faults)


def _refusal(scope: Scope) -> Failure | None:
    """What is wrong with a request before its body is looked at."""
    mapping = _mapping(scope)
    if mapping not in MAPPINGS:
        return UNSUPPORTED_MAPPING(mapping=mapping[:MAPPING_CHARS_MAX], supported=MAPPINGS)
    kind = header(scope, "content-type").partition(";")[0].strip().lower()
    if kind not in KINDS or header(scope, "content-encoding").lower() not in {"", "identity"}:
        return CORE["UNSUPPORTED_MEDIA_TYPE"](supported=sorted(KINDS - {""}))
    return None


def _mapping(scope: Scope) -> str:
    try:
        asked = parse_qs(scope["query_string"].decode("ascii"), max_num_fields=16).get("mapping", [])
    except ValueError:
        return ""
    return asked[0] if len(asked) == 1 else ""


def _unless_abandoned(convert: Callable[[Order], Done], order: Order) -> Done:
    if order.abandoned.is_set():
        raise Abandoned  # it waited in the queue, and nobody waits for it now
    return convert(order)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _give(result: Path, send: Send) -> None:
    with result.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(0)
        headers = [
            (b"content-type", b"application/xml; charset=utf-8"),
            (b"content-length", b"%d" % size),
            (b"cache-control", b"no-store"),
            (b"x-content-type-options", b"nosniff"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        while chunk := file.read(CHUNK_BYTES):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})
