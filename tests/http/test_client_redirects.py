"""A redirect is followed only when asked, only so far, and without what was meant for the first address."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from holdfast.catalog import CORE, Catalog, Failure
from holdfast.guard import Link, under_key
from holdfast.http.client import ANYWHERE, HttpClient, Timeouts
from holdfast.policy import Backoff, Retry
from holdfast.testing.upstream import BadUpstream

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


async def test_a_redirect_is_not_followed_unless_asked(client: HttpClient, upstream: BadUpstream) -> None:
    assert (await client.send("GET", upstream.url("redirect_once"))).status == 302
    failure = await failing(client.call(reader(), "GET", upstream.url("redirect_once")))
    assert (failure.code, failure.details["reason"]) == ("REDIRECT_REFUSED", "not_followed")
    assert {asked.name for asked in upstream.asked} == {"redirect_once"}


async def test_a_redirect_is_followed_when_asked(client: HttpClient, upstream: BadUpstream) -> None:
    reply = await client.call(reader(), "GET", upstream.url("redirect_once"), redirects=1)
    assert (reply.json(), reply.url) == ({"ok": True}, upstream.url("ok"))


@pytest.mark.parametrize(("name", "reason"), [("redirect_loop", "too_many"), ("redirect_nowhere", "location")])
async def test_redirects_end(client: HttpClient, upstream: BadUpstream, name: str, reason: str) -> None:
    failure = await failing(client.send("GET", upstream.url(name), redirects=3))
    assert (failure.code, failure.details["reason"]) == ("REDIRECT_REFUSED", reason)
    assert len(upstream.asked) <= 4


async def test_another_origin_gets_no_credentials(client: HttpClient, upstream: BadUpstream) -> None:
    secret = {"Authorization": "Bearer x", "Cookie": "a=1", "X-Api-Key": "k", "Accept": "text/plain"}
    with BadUpstream() as other:
        there = upstream.answer("there", status=307, location=other.url("echo"))
        here = upstream.answer("here", status=307, location="/echo")
        across = (await client.send("GET", there, redirects=1, headers=secret)).json()["headers"]
        within_it = (await client.send("GET", here, redirects=1, headers=secret)).json()["headers"]
        assert {"authorization", "cookie", "x-api-key"} & across.keys() == set()
        assert across["accept"] == "text/plain"
        assert within_it["authorization"] == "Bearer x"
        failure = await failing(client.send("POST", there, redirects=1, body=b"secret"))
    assert failure.details["reason"] == "write_to_another_origin"


@pytest.mark.parametrize(
    ("status", "method", "becomes", "body"),
    [
        (303, "POST", "GET", ""),
        (302, "POST", "GET", ""),
        (301, "POST", "GET", ""),
        (303, "PUT", "GET", ""),
        (307, "POST", "POST", "x"),
        (308, "PUT", "PUT", "x"),
        (302, "PUT", "PUT", "x"),
    ],
)
async def test_a_redirect_keeps_or_drops_the_body_as_http_says(
    client: HttpClient, upstream: BadUpstream, status: int, method: str, becomes: str, body: str
) -> None:
    url = upstream.answer("moved", status=status, location="/echo")
    with under_key("k"):
        told = (await client.send(method, url, redirects=1, body=b"x", headers={"Content-Type": "a/b"})).json()
    assert (told["method"], told["body"]) == (becomes, body)
    assert ("idempotency-key" in told["headers"]) == (becomes != "GET")


async def test_https_does_not_lead_to_http(upstream: BadUpstream) -> None:
    from holdfast.testing.certificates import Certificate

    upstream.answer("down", status=302, location=upstream.url("ok"))
    async with HttpClient(reach=ANYWHERE, tls=upstream.trusting()) as client:
        failure = await failing(client.send("GET", upstream.tls_url(Certificate.GOOD, "down"), redirects=3))
    assert (failure.code, failure.details["reason"]) == ("REDIRECT_REFUSED", "downgrade")
