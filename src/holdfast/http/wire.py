"""Requests and replies over pooled connections: HTTP/1.1 as aiohttp's connector, parser and TLS speak it.

aiohttp's own session is left out: it costs more than everything else of a request, and it trusts the other side, and
itself, more than we do. It repeats a request on its own when a connection breaks; it gives a reply that nobody asked
for to the next request on the same connection; it listens to informational replies for as long as they come; and when
it closes a connection, it waits for the other side to take what was not sent yet. Here a request is sent once, on a
connection that is silent, and a connection on which anything went wrong is cut off.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from math import inf
from typing import Any

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_writer import StreamWriter
from multidict import CIMultiDictProxy
from yarl import URL

from holdfast.catalog import Failure, Remote
from holdfast.catalog.core import INVALID_RESPONSE
from holdfast.http.connection import Connection
from holdfast.http.decompress import Body
from holdfast.http.file_body import FileBody

INFORMATIONAL_MAX = 16
"""More 1xx replies to one request are a way to keep us busy."""
SPOILED_MAX = 8
"""Number of connections that brought a reply before they were asked, after which the call fails."""
HEADER_BYTES_MAX = 8_190
"""One header line, and the status line."""
HEADERS_MAX = 128
READ_BYTES_MAX = 65_536
"""Size in bytes of the buffer that holds a body until it is read."""
PIECE_BYTES_MAX = 262_144
"""A body up to this size is sent at once; a larger one piece by piece, so that the loop is not kept waiting."""
IDLE_HOSTS_MAX = 1_000
"""Number of hosts with idle connections at which no further connection is kept."""
ORIGINS_MAX = 10_000
EXCERPT_S = 2.0
"""Maximum time to wait for the beginning of a body, where the status alone counts."""

_METHOD = re.compile(r"[A-Z0-9!#$%&'*+.^_`|~-]{1,32}\Z")
_BODILESS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
"""Methods that say nothing about a body they do not have."""
OURS = frozenset({"host", "content-length", "transfer-encoding", "connection"})
"""Headers that are set here."""


class Spoiled(aiohttp.ClientConnectionError):
    """The connection had a reply before it was asked; nothing was sent on it."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What came back."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes


class Target:
    """An address that may be called, in the forms in which a request needs it."""

    __slots__ = ("host", "method", "origin", "start", "url")

    def __init__(self, method: str, url: URL, origin: aiohttp.ClientRequest) -> None:
        """
        Raises:
            ValueError: the method is none.
        """
        if not _METHOD.match(method):
            raise ValueError(f"{method[:50]!r} is not a method")
        self.method = method
        self.url = url
        self.origin = origin
        self.host = url.host_port_subcomponent or ""
        self.start = f"{method} {url.raw_path_qs} HTTP/1.1\r\nhost: {self.host}"

    def head(self, headers: Iterable[tuple[str, str]], body_bytes: int | None) -> bytes:
        """Everything before the body. Who it is for and how the body is framed is said here, and by nobody else.

        Raises:
            ValueError: a header would break out of its line.
        """
        lines = [self.start, *[f"{name}: {value}" for name, value in headers]]
        if body_bytes is not None or self.method not in _BODILESS:
            lines.append(f"content-length: {body_bytes or 0}")
        text = "\r\n".join(lines)
        breaks = len(lines)  # the start has two lines
        if text.count("\n") != breaks or text.count("\r") != breaks or "\0" in text:
            raise ValueError("a header holds a line break")
        return f"{text}\r\n\r\n".encode()


class Wire:
    """The connections of one client on one event loop."""

    def __init__(self, connector: aiohttp.TCPConnector) -> None:
        self._connector = connector
        self._loop = asyncio.get_running_loop()
        connector._factory = partial(Connection, loop=self._loop)  # type: ignore[assignment]  # it is one
        self._origins: dict[tuple[str, str | None], aiohttp.ClientRequest] = {}

    async def close(self) -> None:
        """Close every connection."""
        await self._connector.close()
        await asyncio.sleep(0)  # a connection that was cut off is gone after the loop's next turn

    def target(self, method: str, url: URL) -> Target:
        """Where to send to; the address was checked.

        Raises:
            ValueError: the method is none.
        """
        key = url.scheme, url.host_port_subcomponent
        origin = self._origins.get(key)
        if origin is None:
            if len(self._origins) >= ORIGINS_MAX:
                self._origins.clear()
            # The connector wants to know where to, and by which rules; both are the origin's, not the request's.
            origin = self._origins[key] = aiohttp.ClientRequest("GET", url.origin(), loop=self._loop)
        return Target(method, url, origin)

    async def send(
        self,
        target: Target,
        headers: Iterable[tuple[str, str]],
        body: bytes | FileBody | None,
        *,
        connect_s: float,
        read_s: float | None,
        body_bytes_max: int,
        excerpt_until_s: float | None = None,
    ) -> Answered:
        """Send one request, once, and read the reply.

        Args:
            headers: none of them says how the body is framed.
            read_s: between two pieces of the reply; None where the caller keeps the time.
            excerpt_until_s: the status counts; of the body of a failure only the beginning is wanted, and only if it
                comes before this time on the loop's clock.

        Raises:
            Failure: the body is too large or not compressed as it claims; INVALID_RESPONSE.
            aiohttp.ClientError, HttpProcessingError, OSError: what the network or the other side did.
            ValueError: a header would break out of its line.
        """
        head = target.head(headers, None if body is None else len(body))
        connection = await self._open(target, connect_s)
        protocol = connection.protocol
        kept = False
        writing: asyncio.Task[None] | None = None
        try:
            _expect(protocol, target, read_s)
            if body is None or (isinstance(body, bytes) and len(body) <= PIECE_BYTES_MAX):
                protocol.transport.write(head + body if body else head)
                if read_s is not None:
                    protocol.start_timeout()
            else:
                writing = self._loop.create_task(_write(protocol, self._loop, head, body))
            message, payload = await _answer(protocol)
            if excerpt_until_s is not None and message.code < 300 and payload.is_eof():
                received = b""  # what a success says is of no interest, and it is here whole
            elif excerpt_until_s is not None:
                received = await _excerpt(payload, body_bytes_max, min(excerpt_until_s, self._loop.time() + EXCERPT_S))
            else:
                received = await _whole(payload, message.headers, head=target.method == "HEAD", most=body_bytes_max)
            # A server that answers before it has received everything has stopped reading.
            kept = payload.is_eof() and not protocol.should_close and (writing is None or writing.done())
            return Answered(message.code, message.headers, received)
        finally:
            if writing is not None:
                writing.cancel()
            self._end(connection, kept=kept)

    @asynccontextmanager
    async def stream(
        self,
        target: Target,
        headers: Iterable[tuple[str, str]],
        body: bytes | FileBody | None,
        *,
        connect_s: float,
        read_s: float | None,
    ) -> AsyncIterator[tuple[Any, Any]]:
        """Send one request, once, and hand over the head of the reply and its body while it still comes.

        The connection serves for another request only where the body was read to its end.

        Raises:
            aiohttp.ClientError, HttpProcessingError, OSError: what the network or the other side did.
            ValueError: a header would break out of its line.
        """
        head = target.head(headers, None if body is None else len(body))
        connection = await self._open(target, connect_s)
        protocol = connection.protocol
        kept = False
        try:
            _expect(protocol, target, read_s)
            if isinstance(body, FileBody):
                await _write(protocol, self._loop, head, body)
            else:
                protocol.transport.write(head + body if body else head)
            if read_s is not None:
                protocol.start_timeout()
            message, payload = await _answer(protocol)
            yield message, payload
            kept = payload.is_eof() and not protocol.should_close
        finally:
            self._end(connection, kept=kept)

    async def _open(self, target: Target, connect_s: float) -> Any:
        """A connection that is silent."""
        for _ in range(SPOILED_MAX):
            try:
                connection = await self._connector.connect(target.origin, [], _connecting(connect_s))
            except TimeoutError as late:
                raise aiohttp.ConnectionTimeoutError(f"no connection to {target.host} in time") from late
            protocol = connection.protocol
            if protocol is not None and protocol.transport is not None and not len(protocol):
                return connection
            self._end(connection, kept=False)
        raise Spoiled("every connection had a reply before it was asked")

    def _end(self, connection: aiohttp.connector.Connection, *, kept: bool) -> None:
        if kept and len(self._connector._conns) < IDLE_HOSTS_MAX:
            connection.release()
            return
        if connection.transport is not None:
            connection.transport.abort()
        connection.close()


@lru_cache(64)
def _connecting(seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=None, connect=seconds, ceil_threshold=inf)


def _expect(protocol: Any, target: Target, read_s: float | None) -> None:
    """Prepare the connection for the reply to one request."""
    protocol.expect(head_only=target.method == "HEAD")
    protocol.set_response_params(
        skip_payload=target.method == "HEAD",
        read_until_eof=True,
        auto_decompress=False,  # we do it ourselves, within bounds
        read_timeout=read_s,
        read_bufsize=READ_BYTES_MAX,
        timeout_ceil_threshold=inf,
        max_line_size=HEADER_BYTES_MAX,
        max_field_size=HEADER_BYTES_MAX,
        max_headers=HEADERS_MAX,
    )


async def _answer(protocol: Any) -> tuple[Any, Any]:
    """The final reply, once its headers are there."""
    for _ in range(INFORMATIONAL_MAX + 1):
        message, payload = await protocol.read()
        if message.code >= 200:
            return message, payload
        if message.code == 101:
            raise Failure(INVALID_RESPONSE, details={"reason": "protocol_switch"}, remote=Remote(message.code))
    raise HttpProcessingError(message="too many informational replies")


async def _whole(payload: Any, headers: CIMultiDictProxy[str], *, head: bool, most: int) -> bytes:
    if head:
        return b""
    body = Body(", ".join(headers.getall("content-encoding", ())), bytes_max=most)
    length = headers.get("content-length")
    body.expect(int(length) if length is not None and length.isdecimal() else None)
    async for piece in payload.iter_any():
        body.add(piece)
    return body.whole()


async def _excerpt(payload: Any, most: int, until_s: float) -> bytes:
    """The beginning of the body as far as it comes; the rest is left unread, and the connection with it."""
    if payload.is_eof():
        return bytes(payload.read_nowait(-1)[:most])
    received = b""
    try:
        async with asyncio.timeout_at(until_s):
            async for piece in payload.iter_any():
                received += piece
                if len(received) > most:
                    break
    except (TimeoutError, aiohttp.ClientError, HttpProcessingError, OSError):
        pass  # what was said before stands
    return received[:most]


async def _write(protocol: Any, loop: asyncio.AbstractEventLoop, head: bytes, body: bytes | FileBody) -> None:
    """Send a large body piece by piece; what goes wrong is told by the reply, or by the lack of one."""
    writer = StreamWriter(protocol, loop)
    try:
        await writer.write(head)
        for start in range(0, len(body), PIECE_BYTES_MAX):
            if isinstance(body, bytes):
                piece = body[start : start + PIECE_BYTES_MAX]
            else:
                piece = await _read_piece(protocol, loop, body, start)
            await writer.write(piece)
    except (aiohttp.ClientError, OSError):
        return
    protocol.start_timeout()


async def _read_piece(protocol: Any, loop: asyncio.AbstractEventLoop, body: FileBody, start: int) -> bytes:
    """Read one piece in a thread: a disk may be slow, and others use this loop."""
    try:
        return await loop.run_in_executor(None, body.piece, start, PIECE_BYTES_MAX)
    except OSError:
        protocol.transport.abort()  # the rest that was announced will never come: nothing must wait for it
        raise
