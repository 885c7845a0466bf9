"""A reply that is read while it comes, under the same bounds as any other."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator

import pytest

from holdfast.catalog import Failure
from holdfast.http.client import ANYWHERE, HttpClient, Timeouts
from holdfast.policy import within
from holdfast.testing.exchange import Exchange
from holdfast.testing.upstream import BadUpstream

PATIENT = Timeouts(connect_s=60, read_s=60, total_s=90)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


@pytest.fixture
def upstream() -> Iterator[BadUpstream]:
    with BadUpstream() as running:
        yield running


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    async with HttpClient(reach=ANYWHERE, timeouts=PATIENT) as opened:
        yield opened


async def test_a_line_is_there_as_soon_as_it_came(client: HttpClient, upstream: BadUpstream) -> None:
    read = threading.Event()

    async def piecemeal(exchange: Exchange) -> None:
        await exchange.write(HEAD + chunk(b"one\n\ntw"))
        while not read.is_set():  # the rest is sent only when the first line was read
            await exchange.pause(0.01)
        await exchange.write(chunk(b"o\r\nthree") + chunk(b""))

    url = upstream.behave("/piecemeal", piecemeal)
    found = []
    async with client.stream("POST", url, json={}) as reply:
        assert reply.status == 200
        async for line in reply.lines():
            found.append(line)
            read.set()
    assert found == [b"one", b"two", b"three"]


async def test_a_stream_that_was_read_leaves_its_connection_for_the_next_request(
    client: HttpClient, upstream: BadUpstream
) -> None:
    for _ in range(3):
        async with client.stream("GET", upstream.url("ok")) as reply:
            assert (await reply.whole()).json() == {"ok": True}
    assert upstream.open_connections == 1


async def test_a_stream_that_is_cut_is_a_connection_that_was_reset(client: HttpClient, upstream: BadUpstream) -> None:
    async def cut(exchange: Exchange) -> None:
        await exchange.write(HEAD + chunk(b"one\ntw"))
        exchange.close()

    found = []
    with pytest.raises(Failure) as caught:
        async with client.stream("GET", upstream.behave("/cut", cut)) as reply:
            found.extend([line async for line in reply.lines()])
    assert caught.value.code == "CONNECTION_RESET"


async def test_what_is_too_large_is_refused(client: HttpClient, upstream: BadUpstream) -> None:
    async def endless(exchange: Exchange) -> None:
        await exchange.write(HEAD + chunk(b"x" * 70_000) + chunk(b""))

    url = upstream.behave("/endless", endless)
    with pytest.raises(Failure) as caught:
        async with client.stream("GET", url) as reply:
            _ = [line async for line in reply.lines(bytes_max=1_000)]
    assert caught.value.details["reason"] == "line_too_large"
    with pytest.raises(Failure) as caught:
        async with client.stream("GET", url, body_bytes_max=1_000) as reply:
            await reply.whole()
    assert caught.value.details["reason"] == "body_too_large"


async def test_the_deadline_holds_until_the_stream_has_ended(client: HttpClient, upstream: BadUpstream) -> None:
    async def stalls(exchange: Exchange) -> None:
        await exchange.write(HEAD + chunk(b"one\n"))
        await exchange.hang()

    with pytest.raises(Failure) as caught, within(0.3):
        async with client.stream("GET", upstream.behave("/stalls", stalls)) as reply:
            _ = [line async for line in reply.lines()]
    assert (caught.value.code, caught.value.details["phase"]) == ("NETWORK_TIMEOUT", "total")


async def test_nobody_listens(client: HttpClient, upstream: BadUpstream) -> None:
    with pytest.raises(Failure) as caught:
        async with client.stream("GET", upstream.refused_url()):
            raise AssertionError("there is no reply")
    assert caught.value.code == "CONNECTION_REFUSED"


async def test_an_error_of_the_reader_is_its_own(client: HttpClient, upstream: BadUpstream) -> None:
    with pytest.raises(TimeoutError, match="of my own"):
        async with client.stream("GET", upstream.url("ok")):
            raise TimeoutError("of my own")
