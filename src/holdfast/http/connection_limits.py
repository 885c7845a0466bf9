"""What one connection may cost: limits on their number, on the time for headers and bodies, and on slow readers.

Always true: a connection that sends nothing, or too slowly, or does not read its reply, is closed after a named time;
one that comes when the server is full is told so and closed. Needs uvicorn.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from math import inf
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from holdfast.base import limits, monotonic_s
from holdfast.http.asgi import header
from holdfast.http.descriptors import connections_allowed

RETRY_AFTER_S = 1

_log = logging.getLogger("holdfast.http.connections")

_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain; charset=utf-8\r\nretry-after: %d\r\n"
    b"connection: close\r\ncontent-length: 28\r\n\r\nToo many connections. Wait.\n" % RETRY_AFTER_S
)
_SLOW = (
    b"HTTP/1.1 408 Request Timeout\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"connection: close\r\ncontent-length: 29\r\n\r\nThe request came too slowly.\n"
)


UNREAD_BYTES_MAX = 65_536
"""A body up to this size is received at once, whether or not anybody reads it."""
UNREAD_PAUSE_S = 0.5
"""The time after which the rest of a larger one is received."""


class LimitedConnection(H11Protocol):
    """One connection of a server, which `sweep` closes when it takes too long."""

    _refused = False
    _headers_since_s: float | None = None
    """Since when a request line and its headers are awaited; None while a request is served or none has begun."""
    _body_since_s = 0.0
    _body_bytes = 0
    _unread_since_s: float | None = None
    _unread_bytes = 0

    def connection_made(self, transport: Any) -> None:
        """Take the connection, or refuse it when there are too many."""
        super().connection_made(transport)
        self._headers_since_s = monotonic_s()
        if len(self.connections) > connections_max():
            self._refused = True
            _log.warning("a connection was refused: %d are open, which is the limit", connections_max())
            transport.write(_FULL)
            transport.close()

    def data_received(self, data: bytes) -> None:
        """Read what has come, and note which part of a request is awaited next."""
        if self._refused:
            return
        if self._headers_since_s is None and self.conn.their_state is h11.IDLE:
            self._headers_since_s = monotonic_s()
        had_headers = self.conn.their_state is h11.SEND_BODY
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._headers_since_s = None
        if self.conn.their_state is h11.SEND_BODY and not had_headers:
            self._body_since_s, self._body_bytes = monotonic_s(), 0
        self._body_bytes += len(data)

    def on_response_complete(self) -> None:
        """Let a client wait that was answered before its large body was read: refusals must not keep us busy."""
        large = self.conn.their_state is h11.SEND_BODY and self._announced() > UNREAD_BYTES_MAX
        super().on_response_complete()
        if large and not self.transport.is_closing():
            self.flow.pause_reading()
            self.loop.call_later(UNREAD_PAUSE_S, self._go_on)

    def _go_on(self) -> None:
        """Receive the rest of the body, which nobody reads, so that the next request on the connection can come."""
        if not self.transport.is_closing():
            self.flow.resume_reading()

    def _announced(self) -> float:
        """The size of the request's body as it says; without a size, as large as can be."""
        assert self.scope is not None
        said = header(dict(self.scope), "content-length")
        return int(said) if said.isascii() and said.isdigit() else inf

    def close_if_overdue(self, now_s: float) -> None:
        """End the connection if a part of its request is late, or if its reply is not read."""
        if self.transport.is_closing():
            return
        if self._reads_too_slowly(now_s):
            self.transport.abort()
        elif self._is_late(now_s):
            if self.conn.our_state is h11.IDLE and self.conn.trailing_data[0]:
                self.transport.write(_SLOW)
            self.transport.close()

    def _is_late(self, now_s: float) -> bool:
        if self._headers_since_s is not None:
            return now_s - self._headers_since_s > limits().headers_s_max
        if self.conn.their_state is not h11.SEND_BODY:
            return False
        if self.flow.read_paused:
            # The application takes its time, not the client.
            self._body_since_s, self._body_bytes = now_s, 0
            return False
        allowed_s = limits().body_s_max + self._body_bytes / limits().body_bytes_per_s_min
        return now_s - self._body_since_s > allowed_s

    def _reads_too_slowly(self, now_s: float) -> bool:
        unread = self.transport.get_write_buffer_size()
        if not unread or unread != self._unread_bytes:
            self._unread_since_s, self._unread_bytes = (now_s, unread) if unread else (None, 0)
            return False
        return self._unread_since_s is not None and now_s - self._unread_since_s > limits().unread_s_max


def sweep(connections: Iterable[Any]) -> None:
    """Close those connections that are overdue."""
    now_s = monotonic_s()
    for connection in list(connections):
        if isinstance(connection, LimitedConnection):
            connection.close_if_overdue(now_s)


def connections_max() -> int:
    """The limit in force: the setting, or what the file descriptors of this process allow, if that is less."""
    return min(limits().connections_max, connections_allowed())
