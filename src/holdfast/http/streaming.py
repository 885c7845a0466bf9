"""A reply that is read while it comes: `HttpClient.stream`.

Always true: no line and no body is larger than its bound, and whatever the network does is a failure of the catalog.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from holdfast.base import Private
from holdfast.catalog import Failure, Remote
from holdfast.catalog.core import INVALID_RESPONSE, NETWORK_TIMEOUT
from holdfast.http.outgoing import Outgoing
from holdfast.http.reply import Headers, Reply
from holdfast.http.transport import TRANSPORT_ERRORS, transport_failure
from holdfast.http.wire import Wire

LINE_BYTES_MAX = 1_048_576


class StreamedReply:
    """The status and the headers of a reply whose body still comes."""

    def __init__(self, status: int, headers: Headers, payload: Any, *, host: str, bytes_max: int) -> None:
        self.status = status
        self.headers = headers
        self._payload = payload
        self._host = host
        self._bytes_max = bytes_max

    async def lines(self, *, bytes_max: int = LINE_BYTES_MAX) -> AsyncIterator[bytes]:
        """Every line that is not empty, without its end, as soon as it is there.

        Raises:
            Failure: the connection was lost, or a line or the body is too large.
        """
        rest = b""
        async for piece in self._pieces():
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                if line := line.strip(b"\r"):
                    yield line
            if len(rest) > bytes_max:
                raise self._too_large("line", bytes_max)
        if rest := rest.strip(b"\r"):
            yield rest

    async def whole(self) -> Reply:
        """The rest of the reply, as a value.

        Raises:
            Failure: as `lines`.
        """
        body = b"".join([piece async for piece in self._pieces()])
        return Reply(status=self.status, headers=self.headers, body=body)

    async def _pieces(self) -> AsyncIterator[bytes]:
        received = 0
        try:
            async for piece in self._payload.iter_any():
                received += len(piece)
                if received > self._bytes_max:
                    raise self._too_large("body", self._bytes_max)
                yield piece
        except TRANSPORT_ERRORS as error:
            raised = transport_failure(error, self._host)
            raise raised from raised.__cause__

    def _too_large(self, what: str, bytes_max: int) -> Failure:
        details = {"reason": f"{what}_too_large", "bytes_max": bytes_max, "host": Private(self._host)}
        return Failure(INVALID_RESPONSE, details=details, remote=Remote(self.status))


@asynccontextmanager
async def streamed(wire: Wire, request: Outgoing, seconds: float) -> AsyncIterator[StreamedReply]:
    """The reply to a request, within this many seconds.

    Raises:
        Failure: there was no reply, or not within the time.
    """
    limit = asyncio.timeout(seconds)
    try:
        async with limit, _exchanged(wire, request, seconds) as reply:
            yield reply
    except TimeoutError as late:
        if not limit.expired():
            raise
        raise NETWORK_TIMEOUT(phase="total", host=Private(request.host)) from late


@asynccontextmanager
async def _exchanged(wire: Wire, request: Outgoing, seconds: float) -> AsyncIterator[StreamedReply]:
    timeouts = request.timeouts
    exchange = wire.stream(
        wire.target(request.method, request.url),
        request.headers.items(),
        request.body,
        connect_s=timeouts.connect_s,
        read_s=timeouts.read_s if timeouts.read_s < seconds else None,
    )
    try:
        message, payload = await exchange.__aenter__()
    except TRANSPORT_ERRORS as error:
        raised = transport_failure(error, request.host)
        raise raised from raised.__cause__
    try:
        headers = Headers(message.headers.items())
        reply = StreamedReply(message.code, headers, payload, host=request.host, bytes_max=request.body_bytes_max)
        yield reply
    except BaseException as error:
        if not await exchange.__aexit__(type(error), error, error.__traceback__):
            raise
    else:
        await exchange.__aexit__(None, None, None)
