"""Through a link the client follows the link's rules and speaks the link's words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from holdfast.catalog import CORE, NETWORK_CODES, Catalog, Classifier, Failure, Remote, StatusTable
from holdfast.catalog.dialect import Dialect, render
from holdfast.guard import Link, stamp_of
from holdfast.http.client import ANYWHERE, HttpClient, Reply, Timeouts
from holdfast.policy import Backoff, Breaker, Retry
from holdfast.testing import instant
from holdfast.testing.processes import wait_until
from holdfast.testing.upstream import BadUpstream

from .stepped_loop import here, run

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


async def test_a_read_is_tried_again_as_the_link_says(client: HttpClient, upstream: BadUpstream) -> None:
    url = upstream.script("flaky", "status_503", "reset", "ok")
    with instant() as time:
        reply = await client.call(reader(), "GET", url)
    assert reply.json() == {"ok": True}
    assert time.waits_s == [1, 1]
    assert len(upstream.asked) == 3


async def test_the_time_that_is_asked_for_is_waited(client: HttpClient, upstream: BadUpstream) -> None:
    url = upstream.script("limited", "status_429_seconds", "status_503_retry_after", "ok")
    with instant() as time:
        await client.call(reader(), "GET", url)
    assert time.waits_s == [7, 3]


async def test_a_write_without_a_key_is_sent_once(client: HttpClient, upstream: BadUpstream) -> None:
    with instant():
        failure = await failing(client.call(writer(), "POST", upstream.url("status_503"), json={}))
    stamp = stamp_of(failure)
    assert stamp is not None
    assert (failure.code, stamp.reason, len(upstream.asked)) == ("SERVICE_UNAVAILABLE", "write_without_key", 1)


async def test_a_write_under_a_key_is_sent_again_with_the_same(client: HttpClient, upstream: BadUpstream) -> None:
    url = upstream.script("orders", "reset", "status_503", "ok")
    with instant():
        await client.call(writer(), "POST", url, key="order:7", json={"count": 1})
    assert [asked.headers["idempotency-key"] for asked in upstream.asked] == ["order:7"] * 3
    assert {asked.body for asked in upstream.asked} == {b'{"count":1}'}


@pytest.mark.parametrize("method", ["PUT", "DELETE", "POST", "PATCH"])
async def test_nothing_below_the_link_repeats_a_write(client: HttpClient, upstream: BadUpstream, method: str) -> None:
    await client.send("GET", upstream.url("ok"))  # now there is a connection at rest, where clients like to repeat
    for name in ("empty_reply", "reset"):
        assert (await failing(client.send(method, upstream.url(name)))).code == "CONNECTION_RESET"
    assert [asked.name for asked in upstream.asked] == ["ok", "empty_reply", "reset"]


async def test_a_write_on_a_link_that_reads_is_an_error(client: HttpClient, upstream: BadUpstream) -> None:
    with pytest.raises(ValueError, match="writes=True"):
        await client.call(reader(), "POST", upstream.url("ok"))
    assert (await client.call(reader(), "POST", upstream.url("ok"), reads=True)).ok


async def test_what_cannot_be_read_is_tried_again(client: HttpClient, upstream: BadUpstream) -> None:
    url = upstream.script("cut", "cut_json", "bad_utf8", "ok")
    with instant():
        assert await client.call(reader(), "GET", url, read=Reply.json) == {"ok": True}


@pytest.mark.parametrize("dialect", list(Dialect))
async def test_an_error_body_of_any_dialect_is_that_failure(
    client: HttpClient, upstream: BadUpstream, dialect: Dialect
) -> None:
    rendered = render(OUT_OF_STOCK(sku="A7"), dialect)
    url = upstream.answer("stock", rendered.body, status=409, content_type=dict(rendered.headers)["Content-Type"])
    failure = await failing(client.call(reader(upstream=errors), "GET", url))
    assert failure.fault is OUT_OF_STOCK
    assert (failure.details, failure.message) == ({"sku": "A7"}, "There are none left.")
    assert failure.remote == Remote(409, "OUT_OF_STOCK", "There are none left.")
    assert len(upstream.asked) == 1


async def test_a_code_counts_for_nothing_where_the_link_names_no_catalog(
    client: HttpClient, upstream: BadUpstream
) -> None:
    failure = await failing(client.call(reader(), "GET", upstream.url("error_nested")))
    assert (failure.code, failure.message) == ("UPSTREAM_REJECTED", CORE["UPSTREAM_REJECTED"].says)
    assert (failure.remote, failure.details) == (Remote(409, "OUT_OF_STOCK", "None left."), {})


async def test_a_body_that_is_no_dialect_leaves_it_to_the_status(client: HttpClient, upstream: BadUpstream) -> None:
    url = upstream.answer("detail", b'{"detail":"<b>secret</b>","error":"oops"}', status=404)
    failure = await failing(client.call(reader(), "GET", url))
    assert (failure.code, failure.message) == ("UPSTREAM_REJECTED", CORE["UPSTREAM_REJECTED"].says)
    assert failure.remote == Remote(404, "", "oops")


IMPOSTORS = [
    (400, "NETWORK_TIMEOUT", "UPSTREAM_REJECTED", 1),
    (422, "BREAKER_OPEN", "UPSTREAM_REJECTED", 1),
    (500, "INTERNAL_ERROR", "UPSTREAM_ERROR", 3),
    (503, "DEADLINE_EXCEEDED", "SERVICE_UNAVAILABLE", 3),
    (429, "UNAUTHORIZED", "UPSTREAM_BUSY", 3),
]


@pytest.mark.parametrize("named", [None, errors], ids=["no catalog", "a catalog that extends ours"])
@pytest.mark.parametrize(("status", "said", "code", "attempts"), IMPOSTORS)
async def test_an_upstream_cannot_speak_with_our_codes(
    client: HttpClient, upstream: BadUpstream, status: int, said: str, code: str, attempts: int, named: Catalog | None
) -> None:
    url = upstream.answer("impostor", b'{"error":{"code":"%s","message":"x"}}' % said.encode(), status=status)
    link = writer(breaker=Breaker(calls_min=1, open_s=30), upstream=named)
    with instant():
        failure = await failing(client.call(link, "POST", url, key="order:7", json={}))
    assert (failure.code, len(upstream.asked)) == (code, 1 if status >= 500 else attempts)
    assert failure.remote == Remote(status, said, "x")
    assert link.gate.circuit is not None
    assert (link.gate.circuit.state == "open") == (status >= 500)


@pytest.mark.parametrize(
    ("body", "failed"),
    [
        (b'{"error":{"code":"OUT_OF_STOCK","message":"None left."}}', True),
        (b'{"error":"None left.","code":"OUT_OF_STOCK"}', True),
        (b'{"error_code":"OUT_OF_STOCK","message":"None left."}', True),
        (b'{"id":7,"state":"failed","error":{"code":"OUT_OF_STOCK"}}', False),
        (b'{"error":"None left."}', False),
        (b'{"error":"None left.","code":"FINE"}', False),
        (b'{"error":"","code":"OUT_OF_STOCK"}', False),
        (b'{"error":"","code":"SUCCESS"}', False),
        (b'{"error":null}', False),
        (b'{"title":"A book","detail":"with pages","code":"OUT_OF_STOCK"}', False),
        (b'["error"]', False),
        (b'{"error', False),
    ],
)
async def test_a_200_that_says_nothing_but_an_error_of_the_named_catalog_is_one(
    client: HttpClient, upstream: BadUpstream, body: bytes, failed: bool
) -> None:
    url = upstream.answer("said", body)
    assert (await client.call(reader(), "GET", url)).body == body
    named = reader(upstream=errors)
    if failed:
        assert (await failing(client.call(named, "GET", url))).fault is OUT_OF_STOCK
    else:
        assert (await client.call(named, "GET", url)).body == body


async def test_the_links_words_stand_for_every_failure(client: HttpClient, upstream: BadUpstream) -> None:
    table = StatusTable({503: BANK_SILENT}, {4: errors["BAD_REQUEST"]})
    bank = reader(classifier=Classifier(statuses=table, remap=dict.fromkeys(NETWORK_CODES, BANK_SILENT)))
    for name in ("status_503", "reset", "truncated"):
        with instant():
            failure = await failing(client.call(bank, "GET", upstream.url(name)))
        assert (failure.fault, len(upstream.asked)) == (BANK_SILENT, 3)
        upstream.asked.clear()


async def test_a_table_of_the_call_may_make_any_status_a_failure(client: HttpClient, upstream: BadUpstream) -> None:
    url = upstream.answer("later", status=202)
    table = StatusTable({202: BANK_SILENT})
    with instant():
        failure = await failing(client.call(reader(), "GET", url, statuses=table))
    assert (failure.fault, len(upstream.asked)) == (BANK_SILENT, 3)


async def test_the_breaker_of_the_link_counts_the_upstreams_failures(client: HttpClient, upstream: BadUpstream) -> None:
    link = Link("shop → upstream", retry=Retry(attempts=1), breaker=Breaker(calls_min=3))
    codes = [(await failing(client.call(link, "GET", upstream.url("status_500")))).code for _ in range(5)]
    assert codes == ["UPSTREAM_ERROR"] * 3 + ["BREAKER_OPEN"] * 2


def test_an_attempt_that_hangs_is_a_failure_and_not_a_bare_timeout(upstream: BadUpstream) -> None:
    link = Link("shop → upstream", retry=Retry(attempts=2, backoff=Backoff.constant(0)), timeout_s=0.1)

    async def wait() -> Failure:
        loop = here()
        async with HttpClient(reach=ANYWHERE, timeouts=PATIENT) as client:
            calling = asyncio.create_task(failing(client.call(link, "GET", upstream.url("hang_at_header"))))
            for attempt in (1, 2):
                arrived = lambda attempt=attempt: len(upstream.asked) == attempt  # noqa: E731
                await asyncio.to_thread(wait_until, arrived, within_s=60, what="the request arrived")
                for _ in range(110):
                    await loop.advance(0.001)
            return await calling

    with instant():  # no time passes but that of the loop
        failure = run(wait())
    assert failure.code == "NETWORK_TIMEOUT"
    assert len(upstream.asked) == 2
