"""How a reply is framed decides what it is, and never how it happened to be cut into packets.

Each reply is sent whole, and then cut in two at every byte.
"""

from __future__ import annotations

import asyncio
import gzip
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from holdfast.catalog import Failure
from holdfast.delivery import Outgoing
from holdfast.guard import Link
from holdfast.http.client import ANYWHERE, HttpClient, Timeouts
from holdfast.http.webhooks import WebhookSender
from holdfast.policy import Retry

QUICK = Timeouts(connect_s=5, read_s=5, total_s=5)
HURRY_S = 4.0
PACKED = gzip.compress(b'{"a":1}', mtime=0)


def reply(*lines: str, body: bytes = b"", status: str = "200 OK") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode() + body


REPLIES: dict[str, tuple[bytes, str, object]] = {
    # name: what is sent, how the connection ends, what comes of it (a status and a body, or a code)
    "plain": (reply("Content-Length: 2", body=b"ok"), "stays", (200, b"ok")),
    "chunked": (reply("Transfer-Encoding: chunked", body=b"2\r\nok\r\n0\r\n\r\n"), "stays", (200, b"ok")),
    "until the end": (reply("Connection: close", body=b"ok"), "closes", (200, b"ok")),
    "a length twice": (reply("Content-Length: 2", "Content-Length: 2", body=b"ok"), "stays", (200, b"ok")),
    "a length listed twice": (reply("Content-Length: 2, 2", body=b"ok"), "stays", (200, b"ok")),
    "identity, gzip": (
        reply("Content-Encoding: identity, gzip", f"Content-Length: {len(PACKED)}", body=PACKED),
        "stays",
        (200, b'{"a":1}'),
    ),
    "204 with a body": (reply("Content-Length: 2", status="204 No Content", body=b"ok"), "stays", (204, b"")),
    "204 with a chunked body": (
        reply("Transfer-Encoding: chunked", status="204 No Content", body=b"2\r\nok\r\n0\r\n\r\n"),
        "stays",
        (204, b""),
    ),
    "surplus after a length": (reply("Content-Length: 2", body=b"ok!"), "stays", (200, b"ok")),
    "surplus that is not HTTP": (reply("Content-Length: 2", body=b"ok\r\n\r\nHTP garbage\r\n"), "stays", (200, b"ok")),
    "surplus after the last chunk": (
        reply("Transfer-Encoding: chunked", body=b"2\r\nok\r\n0\r\n\r\nmore"),
        "stays",
        (200, b"ok"),
    ),
    "no length to a body of none": (reply("Content-Length: 0"), "stays", (200, b"")),
    "after informational ones": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
        + reply("Content-Length: 2", body=b"ok"),
        "stays",
        (200, b"ok"),
    ),
    "trailers and an extension": (
        reply("Transfer-Encoding: chunked", body=b"2;a=b\r\nok\r\n0\r\nX: y\r\n\r\n"),
        "stays",
        (200, b"ok"),
    ),
    "two different lengths": (
        reply("Content-Length: 2", "Content-Length: 3", body=b"ok!"),
        "stays",
        "INVALID_RESPONSE",
    ),
    "reset in the middle": (reply("Connection: close", body=b"1000"), "resets", "CONNECTION_RESET"),
    "closed before its length": (reply("Content-Length: 9", body=b"1000"), "closes", "CONNECTION_RESET"),
    "closed before the last chunk": (
        reply("Transfer-Encoding: chunked", body=b"2\r\nok\r\n"),
        "closes",
        "CONNECTION_RESET",
    ),
    "xchunked": (reply("Transfer-Encoding: xchunked", body=b"2\r\nok\r\n0\r\n\r\n"), "stays", "INVALID_RESPONSE"),
    "gzip, chunked": (
        reply("Transfer-Encoding: gzip, chunked", body=b"2\r\nok\r\n0\r\n\r\n"),
        "stays",
        "INVALID_RESPONSE",
    ),
    "a status below 100": (reply("Content-Length: 2", status="099 X", body=b"ok"), "stays", "INVALID_RESPONSE"),
    "a chunk that is not a number": (
        reply("Transfer-Encoding: chunked", body=b"zz\r\nok\r\n0\r\n\r\n"),
        "stays",
        "INVALID_RESPONSE",
    ),
    "a chunk that is longer than it says": (
        reply("Transfer-Encoding: chunked", body=b"2\r\nokay\r\n0\r\n\r\n"),
        "stays",
        "INVALID_RESPONSE",
    ),
}


@asynccontextmanager
async def saying(*parts: bytes, ends: str) -> AsyncIterator[str]:
    """A server that sends these parts as packets of their own."""
    held: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)
        try:
            await reader.readuntil(b"\r\n\r\n")
            raw: socket.socket = writer.get_extra_info("socket")
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for part in parts:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0.002)
            if ends == "resets":
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if ends != "stays":
                writer.close()
        except (OSError, asyncio.IncompleteReadError):
            return

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    finally:
        server.close()
        for writer in held:
            writer.close()


async def called(url: str) -> object:
    async with HttpClient(reach=ANYWHERE, timeouts=QUICK) as client:
        try:
            got = await client.call(Link("a", retry=Retry(attempts=1)), "GET", url)
        except Failure as failure:
            return failure.code
        return got.status, got.body


async def posted(url: str) -> object:
    sender = WebhookSender(reach=ANYWHERE)
    try:
        got = await sender(Outgoing(url=url, headers=(), body=b"{}", timeout_s=5.0))
        return got.status
    except Failure as failure:
        return failure.code
    finally:
        await sender.close()


UNFRAMED = {"two different lengths", "xchunked", "gzip, chunked", "a status below 100"}


def expected(name: str, door: Callable[[str], Awaitable[object]]) -> object:
    """To a webhook the status counts, as soon as it can be believed."""
    outcome = REPLIES[name][2]
    if door is called:
        return outcome
    return outcome[0] if isinstance(outcome, tuple) else outcome if name in UNFRAMED else 200


@pytest.mark.parametrize("door", [called, posted])
@pytest.mark.parametrize("name", REPLIES)
async def test_a_reply_is_the_same_wherever_it_is_cut(name: str, door: Callable[[str], Awaitable[object]]) -> None:
    sent, ends, _ = REPLIES[name]
    loop = asyncio.get_running_loop()
    found = {}
    for cut in range(len(sent)):
        async with saying(sent[:cut], sent[cut:], ends=ends) as url:
            begun_s = loop.time()
            found[cut] = await door(url)
            assert loop.time() - begun_s < HURRY_S, (name, cut)
    assert set(map(str, found.values())) == {str(expected(name, door))}, found


@pytest.mark.parametrize("status", ["300 Multiple Choices", "305 Use Proxy", "306 Unused", "301 Moved"])
async def test_no_3xx_but_304_is_a_success(status: str) -> None:
    async with saying(reply("Content-Length: 2", status=status, body=b"ok"), ends="stays") as url:
        assert await called(url) == "REDIRECT_REFUSED"
    async with saying(reply(status="304 Not Modified"), ends="stays") as url:
        assert await called(url) == (304, b"")


async def test_a_connection_with_surplus_bytes_serves_nobody_else() -> None:
    asked = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply("Content-Length: 2", body=b"ok") + reply("Content-Length: 4", body=b"evil"))
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    async with HttpClient(reach=ANYWHERE, timeouts=QUICK) as client:
        for _ in range(3):
            assert (await client.send("GET", url)).body == b"ok"
    server.close()
    assert asked == 3


async def test_a_byte_order_mark_before_json_is_no_error() -> None:
    marked = reply("Content-Length: 10", body=b"\xef\xbb\xbf" + b'{"a":1}')
    async with saying(marked, ends="stays") as url, HttpClient(reach=ANYWHERE, timeouts=QUICK) as client:
        assert (await client.send("GET", url)).json() == {"a": 1}
