"""One connection through the fault proxy: two streams of bytes, and what the faults in force make of them."""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from contextlib import suppress

from holdfast.base import REAL
from holdfast.testing.postgres_wire import Conversation, Request
from holdfast.testing.proxy_faults import ProxyFaults

CHUNK_BYTES = 65_536
OVERLAP_BYTES = 256
REPLY_S_MAX = 60.0


class Cut(Exception):
    """A fault has ended this connection."""


class Traffic:
    """The faults in force and the connections they act on; used by the proxy's own thread only."""

    def __init__(self) -> None:
        self.connections: set[ProxyConnection] = set()
        self.flows = asyncio.Event()
        self.begin(ProxyFaults())

    def begin(self, faults: ProxyFaults) -> None:
        """Put other faults in force, and count anew."""
        self.faults = faults
        self.triggered = 0
        self._taken = 0
        if faults.half_open:
            self.flows.clear()
        else:
            self.flows.set()
        for connection in self.connections:
            connection.forget()

    @property
    def armed(self) -> bool:
        """Whether a cut or a loss may still happen."""
        return self.faults.times is None or self._taken < self.faults.times

    def take(self) -> None:
        """Let the calling connection be the one that is struck."""
        self._taken += 1


class ProxyConnection:
    """A client's connection and ours to the server."""

    def __init__(self, client: socket.socket, upstream: tuple[str, int], traffic: Traffic) -> None:
        self._client = client
        self._upstream = upstream
        self._traffic = traffic
        self._conversation = Conversation()
        self._tail = b""
        self._reply_bytes = 0
        self._swallow: Request | None = None
        self._swallowed = asyncio.Event()
        self._task: asyncio.Task[object] | None = None

    async def serve(self) -> None:
        """Forward until either side or a fault ends it."""
        self._task = asyncio.current_task()
        self._traffic.connections.add(self)
        server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        server.setblocking(False)
        try:
            await self._converse(server)
        except* (Cut, OSError):
            pass  # over, and both sides are about to learn it
        finally:
            self._traffic.connections.discard(self)
            self._client.close()
            server.close()

    def reset(self) -> asyncio.Task[object]:
        """End with RST rather than in order; the connection is closed when the returned task is done."""
        assert self._task is not None, "only a connection that is served is among those that are open"
        _close_with_reset(self._client)
        self._task.cancel()
        return self._task

    def forget(self) -> None:
        """Count bytes and look for patterns from here on."""
        self._reply_bytes = 0
        self._tail = b""

    async def _converse(self, server: socket.socket) -> None:
        if self._traffic.faults.reset:
            _close_with_reset(self._client)
            return
        await self._traffic.flows.wait()
        await asyncio.get_running_loop().sock_connect(server, self._upstream)
        async with asyncio.TaskGroup() as both:
            both.create_task(self._requests(server))
            both.create_task(self._replies(server))

    async def _requests(self, server: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while chunk := await loop.sock_recv(self._client, CHUNK_BYTES):
            if self._traffic.faults.delay_s:
                await REAL.pause(self._traffic.faults.delay_s)
            await self._traffic.flows.wait()
            requests = self._read(chunk)
            self._lose_request(requests)
            lost = self._found(self._traffic.faults.lose_reply, requests)
            if lost is not None:
                await self._lose_reply(server, lost, chunk)
            await loop.sock_sendall(server, chunk)
        server.shutdown(socket.SHUT_WR)

    async def _replies(self, server: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while chunk := await loop.sock_recv(server, CHUNK_BYTES):
            self._conversation.server_says(chunk)
            if self._swallow is not None:
                if not self._conversation.speaks or self._conversation.answers >= self._swallow.number:
                    self._swallowed.set()
                continue
            await self._traffic.flows.wait()
            await self._pass_on(chunk)
        if self._swallow is None:
            self._client.shutdown(socket.SHUT_WR)
        self._swallowed.set()

    async def _pass_on(self, chunk: bytes) -> None:
        loop = asyncio.get_running_loop()
        limit = self._traffic.faults.cut_after_bytes
        left = len(chunk) + 1 if limit is None or not self._traffic.armed else limit - self._reply_bytes
        self._reply_bytes += len(chunk)
        await loop.sock_sendall(self._client, chunk[:left])
        if left <= len(chunk):
            self._traffic.take()
            self._strike()

    def _read(self, chunk: bytes) -> list[Request]:
        """What is asked for: SQL where the client speaks PostgreSQL's protocol, else the bytes themselves."""
        requests = self._conversation.client_says(chunk)
        if self._conversation.speaks:
            return requests
        seen = self._tail + chunk
        self._tail = seen[-OVERLAP_BYTES:]  # a pattern may begin in one chunk and end in the next
        return [Request(seen.decode("latin-1"), len(chunk), 0)]

    def _found(self, pattern: str, requests: list[Request]) -> Request | None:
        if not pattern or not self._traffic.armed:
            return None
        return next((request for request in requests if re.search(pattern, request.text, re.IGNORECASE)), None)

    def _lose_request(self, requests: list[Request]) -> None:
        if self._found(self._traffic.faults.lose_request, requests) is not None:
            self._traffic.take()
            self._strike()

    async def _lose_reply(self, server: socket.socket, lost: Request, chunk: bytes) -> None:
        self._traffic.take()
        self._swallow = lost
        await asyncio.get_running_loop().sock_sendall(server, chunk[: lost.end])
        # The reply tells that the server has done it; only then is the connection cut.
        with suppress(TimeoutError):
            async with asyncio.timeout(REPLY_S_MAX):
                await self._swallowed.wait()
        self._strike()

    def _strike(self) -> None:
        self._traffic.triggered += 1
        raise Cut


def _close_with_reset(client: socket.socket) -> None:
    """Let the coming close be an RST: to linger for no time means to drop what is unsent, and to say so."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
