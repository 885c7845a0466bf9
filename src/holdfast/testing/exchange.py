"""One request that reached the bad upstream, and the raw bytes that go back."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from holdfast.base import REAL

HEAD_BYTES_MAX = 65_536
REQUEST_BYTES_MAX = 16_777_216

_REASONS = {200: "OK", 302: "Found", 404: "Not Found", 429: "Too Many Requests", 503: "Service Unavailable"}
_LINGER_NOT = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    """By name in lower case."""
    body: bytes = field(default=b"", repr=False)

    @property
    def name(self) -> str:
        """The behaviour that the path asks for."""
        return self.path.partition("?")[0].strip("/")


class Exchange:
    """What a behaviour works with."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: Asked) -> None:
        self._reader = reader
        self._writer = writer
        self.asked = asked

    async def write(self, data: bytes) -> None:
        """Send these bytes as they are."""
        self._writer.write(data)
        await self._writer.drain()

    async def reply(
        self, body: bytes = b"", *, status: int = 200, content_type: str = "application/json", **headers: str
    ) -> None:
        """Send a reply that is in order; `retry_after="5"` is the header Retry-After."""
        await self.write(reply_bytes(body, status=status, content_type=content_type, **headers))

    async def pause(self, seconds: float) -> None:
        """Let real time pass."""
        await REAL.pause(seconds)

    async def hang(self) -> None:
        """Say nothing until the caller goes away."""
        while await self._reader.read(HEAD_BYTES_MAX):
            pass
        raise ConnectionResetError

    def close(self) -> None:
        """Close the connection when everything is sent."""
        self._writer.close()

    def reset(self) -> None:
        """Cut the connection off with a RST."""
        connection = self._writer.get_extra_info("socket")
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
        self._writer.transport.abort()

    @property
    def over(self) -> bool:
        """Whether the connection is closed or about to be."""
        return self._writer.is_closing()


Behaviour = Callable[[Exchange], Awaitable[None]]
"""Answers one request, well or badly; the connection is kept unless the behaviour closes it."""


def reply_bytes(
    body: bytes = b"", *, status: int = 200, content_type: str = "application/json", **headers: str
) -> bytes:
    """A reply that is in order, as bytes."""
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Status')}", f"Content-Type: {content_type}"]
    lines += [f"{name.replace('_', '-').title()}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode("latin-1") + body


async def read_request(reader: asyncio.StreamReader) -> Asked | None:
    """The next request of a connection; None when there is no further one."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
        return None
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, path, _ = (*first.split(" "), "", "")[:3]
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    asked = Asked(method=method, path=path, headers=headers)
    size = int(headers.get("content-length", "0"))
    if asked.name in UNREAD or size > REQUEST_BYTES_MAX:
        return asked
    return Asked(method=method, path=path, headers=headers, body=await reader.readexactly(size))


UNREAD = frozenset({"never_reads"})
"""Behaviours that do not take the body of the request."""
