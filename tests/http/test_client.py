"""The client carries along what is under way, follows the link's rules, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from holdfast.base import Secret
from holdfast.catalog import CORE, Catalog, Failure, continued, enriched
from holdfast.guard import Link, under_key
from holdfast.http.client import ANYWHERE, HttpClient, Pool, Reach, Timeouts
from holdfast.policy import Backoff, Retry, within
from holdfast.testing.exchange import Exchange
from holdfast.testing.processes import wait_until
from holdfast.testing.upstream import BEHAVIOURS, BadUpstream

errors = Catalog("shop", extends=(CORE,))
OUT_OF_STOCK = errors.fault("OUT_OF_STOCK", status=409, says="There are none left.")
BANK_SILENT = errors.fault("BANK_SILENT", status=503, says="The bank is silent.", retry=True)
THRICE = Retry(attempts=3, backoff=Backoff.constant(1))
PATIENT = Timeouts(connect_s=60, read_s=60, total_s=90)


@pytest.fixture
def upstream() -> Iterator[BadUpstream]:
    with BadUpstream() as running:
        yield running


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    async with HttpClient(reach=ANYWHERE, timeouts=PATIENT) as opened:
        yield opened


async def echoed(client: HttpClient, upstream: BadUpstream, method: str = "GET", **options: Any) -> dict[str, Any]:
    reply = await client.send(method, upstream.url("echo"), **options)
    told: dict[str, Any] = reply.json()
    return told


def reader(**said: Any) -> Link:
    return Link("shop → upstream", retry=THRICE, **said)


def writer(**said: Any) -> Link:
    return Link("shop → upstream", retry=THRICE, writes=True, **said)


async def failing(awaited: Any) -> Failure:
    with pytest.raises(Failure) as caught:
        await awaited
    return caught.value


# -- what a request carries --------------------------------------------------------------------------------------


async def test_a_request_carries_the_time_left_the_trace_and_the_key(client: HttpClient, upstream: BadUpstream) -> None:
    with within(60), enriched(**continued(None)) as here, under_key("order:7"):
        headers = (await echoed(client, upstream, "POST", json={"a": 1}))["headers"]
    assert 30_000 < int(headers["x-deadline-ms"]) < 60_000
    assert headers["traceparent"] == here.traceparent
    assert headers["idempotency-key"] == "order:7"
    assert headers["content-type"] == "application/json"


async def test_a_read_carries_no_key_and_the_clients_own_limit_as_deadline(
    client: HttpClient, upstream: BadUpstream
) -> None:
    with under_key("order:7"):
        headers = (await echoed(client, upstream))["headers"]
    assert "idempotency-key" not in headers
    assert "traceparent" not in headers
    assert 60_000 < int(headers["x-deadline-ms"]) <= 90_000
    assert headers["accept-encoding"] == "identity"


async def test_headers_of_the_call_win(upstream: BadUpstream) -> None:
    async with HttpClient(reach=ANYWHERE, headers={"X-A": "client", "X-B": "client"}) as client:
        headers = (await echoed(client, upstream, headers={"X-b": "call", "Traceparent": "mine"}))["headers"]
    assert (headers["x-a"], headers["x-b"], headers["traceparent"]) == ("client", "call", "mine")


async def test_a_large_body_arrives_whole(client: HttpClient, upstream: BadUpstream) -> None:
    body = b"0123456789" * 300_000
    await client.send("POST", upstream.url("ok"), body=body)
    assert upstream.asked[-1].body == body


@pytest.mark.parametrize("options", [{"body": b"", "json": 1}, {"redirects": -1}, {"redirects": 99}])
async def test_options_that_contradict_each_other_are_an_error(
    client: HttpClient, upstream: BadUpstream, options: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=r"not both|redirects"):
        await client.send("POST", upstream.url("ok"), **options)


async def test_a_header_cannot_smuggle_another(client: HttpClient, upstream: BadUpstream) -> None:
    with pytest.raises(ValueError, match="line break"):
        await client.send("GET", upstream.url("ok"), headers={"X-A": "a\r\nX-B: b"})
    assert not upstream.asked


async def test_a_secret_is_no_body(client: HttpClient, upstream: BadUpstream) -> None:
    with pytest.raises(TypeError):
        await client.send("POST", upstream.url("ok"), json={"token": Secret("x")})


async def test_a_deadline_that_has_passed_sends_nothing(client: HttpClient, upstream: BadUpstream) -> None:
    with within(0):
        assert (await failing(client.send("GET", upstream.url("ok")))).code == "DEADLINE_EXCEEDED"
    assert not upstream.asked


# -- what comes back ---------------------------------------------------------------------------------------------


async def test_any_status_is_a_reply(client: HttpClient, upstream: BadUpstream) -> None:
    reply = await client.send("GET", upstream.url("status_429_seconds"))
    assert (reply.status, reply.ok, reply.retry_after_s, reply.content_type) == (429, False, 7, "application/json")


async def test_fields_that_come_twice_are_kept(client: HttpClient, upstream: BadUpstream) -> None:
    async def cookies(exchange: Exchange) -> None:
        await exchange.write(b"HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nSET-COOKIE: b=2\r\nContent-Length: 0\r\n\r\n")

    reply = await client.send("GET", upstream.behave("cookies", cookies))
    assert reply.headers.all("Set-Cookie") == ("a=1", "b=2")
    assert reply.headers["set-cookie"] == "a=1, b=2"
    assert "a=1" not in repr(reply)
    assert "cookie" not in (await echoed(client, upstream))["headers"]


@pytest.mark.parametrize("name", ["gzip_good", "ok"])
async def test_a_compressed_reply_is_unpacked(client: HttpClient, upstream: BadUpstream, name: str) -> None:
    assert (await client.send("GET", upstream.url(name), compressed=True)).json() == {"ok": True}
    assert upstream.asked[-1].headers["accept-encoding"] == "gzip, deflate, br"


async def test_head_has_no_body_and_no_size_to_refuse(client: HttpClient, upstream: BadUpstream) -> None:
    async def head(exchange: Exchange) -> None:
        await exchange.write(b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n")

    reply = await client.send("HEAD", upstream.behave("head", head))
    assert (reply.status, reply.body) == (200, b"")


async def test_the_limit_is_exact(client: HttpClient, upstream: BadUpstream) -> None:
    url = upstream.answer("hundred", b"x" * 100)
    assert len((await client.send("GET", url, body_bytes_max=100)).body) == 100
    assert (await failing(client.send("GET", url, body_bytes_max=99))).code == "RESPONSE_TOO_LARGE"


# -- connections -------------------------------------------------------------------------------------------------


async def test_connections_are_used_again(client: HttpClient, upstream: BadUpstream) -> None:
    for _ in range(5):
        await client.send("GET", upstream.url("ok"))
    assert upstream.open_connections == 1


async def test_no_more_connections_than_the_pool_has(upstream: BadUpstream) -> None:
    async with HttpClient(reach=ANYWHERE, pool=Pool(connections_max=2, per_host_max=2)) as client:
        await asyncio.gather(*(client.send("GET", upstream.url("ok")) for _ in range(20)))
        assert upstream.open_connections == 2


@pytest.mark.parametrize("name", ["answers_late", "answers_twice"])
async def test_a_reply_that_nobody_asked_for_is_given_to_nobody(
    client: HttpClient, upstream: BadUpstream, name: str
) -> None:
    strayed = threading.Event()

    async def stray(exchange: Exchange) -> None:
        await BEHAVIOURS[name](exchange)
        strayed.set()

    assert (await client.send("GET", upstream.behave("stray", stray))).json() == {"ok": True}
    assert await asyncio.to_thread(strayed.wait, 60)
    await asyncio.sleep(0.05)  # it is on this side by now, and is read in the next turn
    for _ in range(3):
        assert (await client.send("POST", upstream.url("ok"))).json() == {"ok": True}


async def test_a_cancelled_call_leaves_no_connection(client: HttpClient, upstream: BadUpstream) -> None:
    task = asyncio.create_task(client.send("GET", upstream.url("hang_in_body")))
    await asyncio.to_thread(wait_until, lambda: bool(upstream.asked), within_s=60, what="the request arrived")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.to_thread(wait_until, lambda: not upstream.open_connections, within_s=60, what="it hung up")


async def test_closing_leaves_nothing_behind(upstream: BadUpstream) -> None:
    client = HttpClient(reach=ANYWHERE)
    await client.send("GET", upstream.url("ok"))
    with pytest.raises(Failure):
        await client.send("GET", upstream.url("truncated"))
    await client.close()
    await client.close()
    with pytest.raises(RuntimeError, match="closed"):
        await client.send("GET", upstream.url("ok"))
    del client
    gc.collect()  # a leak would warn, and a warning is an error


def test_one_client_serves_one_loop(upstream: BadUpstream) -> None:
    client = HttpClient(reach=ANYWHERE)

    async def ask() -> None:
        await client.send("GET", upstream.url("ok"))

    with asyncio.Runner() as first, asyncio.Runner() as second:
        first.run(ask())
        with pytest.raises(RuntimeError, match="another event loop"):
            second.run(ask())
        first.run(client.close())


async def test_a_failure_shows_no_token_of_the_address(client: HttpClient, upstream: BadUpstream) -> None:
    for url in (upstream.url("garbage"), upstream.hanging_url(), upstream.refused_url()):
        with within(0.2):
            failure = await failing(client.send("GET", f"{url}?token=hush", headers={"Authorization": "hush"}))
        assert "hush" not in f"{failure.technical} {failure!r} {failure.__cause__!r} {failure.details}"


@pytest.mark.parametrize("wrong", [{"connect_s": 0}, {"read_s": -1}, {"total_s": float("inf")}])
def test_a_timeout_is_a_positive_number(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="positive"):
        Timeouts(**wrong)


def test_the_default_reaches_public_addresses_only() -> None:
    with HttpClient().sync as client, pytest.raises(Failure) as caught:
        client.send("GET", "http://127.0.0.1/")
    assert caught.value.code == "ADDRESS_REFUSED"
    assert Reach().public_only
