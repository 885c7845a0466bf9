"""An upstream's failure reaches our own clients in our own words, whichever client called it."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import aiohttp
import httpx
import pytest

from holdfast.catalog import CORE, HTTP_STATUSES, Catalog, Classifier, Remote
from holdfast.guard import Link, stamp_of
from holdfast.http import ANYWHERE, Edge, HttpClient, WsgiEdge
from holdfast.http.reply import Reply
from holdfast.policy import Retry
from holdfast.testing.upstream import BadUpstream

from .edge_servers import call, served, wsgi_served

requests = pytest.importorskip("requests")

errors = Catalog("shop", extends=(CORE,))
bank_errors = Catalog("bank")
ACCOUNT_CLOSED = bank_errors.fault("ACCOUNT_CLOSED", status=410, says="The account {account} was closed.")
LEAK = (
    b'{"error":{"code":"ACCOUNT_CLOSED","message":"no row in postgres://bank:hunter2@db/x","details":{"account":"7"}}}'
)
ONCE = Retry(attempts=1)


@pytest.fixture(scope="module")
def upstream() -> Iterator[BadUpstream]:
    with BadUpstream() as running:
        yield running


unclosed: list[urllib.error.HTTPError] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while unclosed:
        unclosed.pop().close()


def by_holdfast(link: Link, url: str) -> Any:
    client = HttpClient(reach=ANYWHERE).sync
    try:
        return client.call(link, "GET", url, read=Reply.json)
    finally:
        client.close()


def by_httpx(link: Link, url: str) -> Any:
    @link
    def ask() -> Any:
        return httpx.get(url).raise_for_status().json()

    return ask()


def by_requests(link: Link, url: str) -> Any:
    @link
    def ask() -> Any:
        reply = requests.get(url, timeout=30)
        reply.raise_for_status()
        return reply.json()

    return ask()


def by_urllib(link: Link, url: str) -> Any:
    @link
    def ask() -> Any:
        with urllib.request.urlopen(url) as reply:
            return json.load(reply)

    try:
        return ask()
    except urllib.error.HTTPError as error:
        unclosed.append(error)
        raise


CLIENTS = [by_holdfast, by_httpx, by_requests, by_urllib]
Client = Callable[[Link, str], Any]


def rendered(client: Client, link: Link, url: str, *, wsgi: bool) -> tuple[int, dict[str, Any], str | None]:
    """What a client of ours reads when the upstream at the address is asked on its behalf."""

    def app(environ: Any, start_response: Any) -> list[bytes]:
        return [json.dumps(client(link, url)).encode()]

    async def asgi(scope: Any, receive: Any, send: Any) -> None:
        import asyncio

        await asyncio.to_thread(client, link, url)

    if wsgi:
        with wsgi_served(WsgiEdge(app, catalog=errors)) as port:
            reply = call(port, "GET", "/")
    else:
        with served(Edge(asgi, catalog=errors)) as port:
            reply = call(port, "GET", "/")
    return reply.status, reply.json()["error"], reply.headers.get("retry-after")


@pytest.mark.parametrize("wsgi", [False, True], ids=["asgi", "wsgi"])
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    ("answer", "status", "code"),
    [
        (401, 502, "UPSTREAM_UNAUTHORIZED"),
        (410, 502, "UPSTREAM_REJECTED"),
        (429, 503, "UPSTREAM_BUSY"),
        (500, 502, "UPSTREAM_ERROR"),
        (503, 503, "SERVICE_UNAVAILABLE"),
    ],
)
def test_a_client_of_ours_reads_our_status_and_our_sentence(
    upstream: BadUpstream, client: Client, answer: int, status: int, code: str, wsgi: bool
) -> None:
    url = upstream.answer(f"leak_{answer}", LEAK, status=answer)
    told_status, told, _ = rendered(client, Link("shop → bank", retry=ONCE), url, wsgi=wsgi)
    assert (told_status, told["code"], told["message"]) == (status, code, CORE[code].says)
    assert told["details"] == {}
    assert "hunter2" not in json.dumps(told)


@pytest.mark.parametrize("client", CLIENTS)
def test_what_the_link_maps_is_passed_on(upstream: BadUpstream, client: Client) -> None:
    url = upstream.answer("mapped", LEAK, status=404)
    link = Link("shop → bank", retry=ONCE, classifier=Classifier(statuses=HTTP_STATUSES))
    status, told, _ = rendered(client, link, url, wsgi=False)
    assert (status, told["code"], told["message"]) == (404, "NOT_FOUND", CORE["NOT_FOUND"].says)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_code_of_the_named_catalog_is_that_fault_in_our_words(upstream: BadUpstream, client: Client) -> None:
    url = upstream.answer("closed", LEAK, status=422)
    link = Link("shop → bank", retry=ONCE, upstream=bank_errors)
    status, told, _ = rendered(client, link, url, wsgi=False)
    assert (status, told["code"], told["message"]) == (410, "ACCOUNT_CLOSED", "The account 7 was closed.")
    assert told["details"] == {"account": "7"}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_body_that_is_no_json_is_an_invalid_response(upstream: BadUpstream, client: Client) -> None:
    link = Link("shop → bank", retry=ONCE)
    with pytest.raises(Exception) as caught:
        client(link, upstream.url("cut_json"))
    stamp = stamp_of(caught.value)
    assert stamp is not None
    assert stamp.code == "INVALID_RESPONSE"
    assert rendered(client, link, upstream.url("cut_json"), wsgi=False)[:1] == (502,)


async def test_aiohttp_gives_the_same_answer_as_far_as_its_error_knows(upstream: BadUpstream) -> None:
    link = Link("shop → bank", retry=ONCE, upstream=bank_errors)

    @link
    async def ask() -> Any:
        async with aiohttp.ClientSession(raise_for_status=True) as session, session.get(url) as reply:
            return await reply.json()

    url = upstream.answer("aio", LEAK, status=401)
    with pytest.raises(aiohttp.ClientResponseError) as caught:
        await ask()
    made = stamp_of(caught.value).failure  # type: ignore[union-attr]
    assert made is not None
    assert (made.code, made.status, made.remote.status) == ("UPSTREAM_UNAUTHORIZED", 502, 401)  # type: ignore[union-attr]


@pytest.mark.parametrize("client", CLIENTS)
def test_what_the_upstream_said_is_kept_for_the_operator(upstream: BadUpstream, client: Client) -> None:
    url = upstream.answer("kept", LEAK, status=401)
    link = Link("shop → bank", retry=ONCE, upstream=bank_errors)
    heard = []
    link.on(lambda event: heard.append(event.failure))
    with pytest.raises(Exception) as caught:
        client(link, url)
    (failure,) = heard
    assert failure.remote.status == 401
    assert failure.remote.code == "ACCOUNT_CLOSED"
    assert failure.remote.message == "no row in postgres://bank:***@db/x"
    assert "hunter2" not in failure.technical
    assert "401 ACCOUNT_CLOSED: no row in" in failure.technical
    if client is by_urllib:
        assert caught.value.read() == LEAK  # type: ignore[attr-defined]  # reading it for its code took nothing away


def test_an_exception_that_left_a_link_long_ago_says_nothing_about_another(upstream: BadUpstream) -> None:
    reused = ConnectionResetError()
    bank = Link("shop → bank", retry=ONCE, classifier=Classifier(remap={"CONNECTION_RESET": ACCOUNT_CLOSED}))
    other = Link("shop → other", retry=ONCE)

    def fail() -> None:
        raise reused

    for link, code in ((bank, "ACCOUNT_CLOSED"), (other, "CONNECTION_RESET")):
        with pytest.raises(ConnectionResetError):
            link.call(fail)
        assert stamp_of(reused).code == code  # type: ignore[union-attr]


def test_an_outer_link_and_a_handler_read_what_the_inner_link_made_of_it() -> None:
    bank = Link("shop → bank", retry=ONCE, classifier=Classifier(remap={"CONNECTION_RESET": ACCOUNT_CLOSED}))
    outer = Link("page → shop", retry=ONCE)

    def fail() -> None:
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError) as caught:
        outer.call(bank.call, fail)
    assert Classifier().classify(caught.value).fault is ACCOUNT_CLOSED
    assert Classifier({ConnectionError: CORE["GONE"]}).classify(caught.value).code == "GONE"
    assert Remote() == (None, "", "")
