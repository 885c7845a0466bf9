"""The sender of webhooks: guarded, bounded, pooled, and told by the status alone."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.base import REAL, Secret
from holdfast.catalog import Failure, enriched
from holdfast.delivery import Deliveries, NewEvent, Outgoing, Reply, StandardWebhooks
from holdfast.http import Reach, WebhookSender
from holdfast.policy import within
from holdfast.store import Store
from holdfast.testing.certificates import Certificate
from holdfast.testing.exchange import Exchange
from holdfast.testing.processes import wait_until
from holdfast.testing.upstream import BadUpstream
from holdfast.worker import Jobs, Worker

from .stepped_loop import here, run

PATIENCE_S = 60.0
"""For whatever is answered: as long as this machine takes."""
SECRET = Secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")


@pytest.fixture(scope="module")
def upstream() -> Iterator[BadUpstream]:
    with BadUpstream() as running:
        yield running


def reach(*urls: str) -> Reach:
    return Reach(allowed=frozenset(url.partition("://")[2].partition("/")[0] for url in urls))


def request(url: str, *, timeout_s: float = PATIENCE_S, headers: tuple[tuple[str, str], ...] = ()) -> Outgoing:
    return Outgoing(url=url, headers=headers, body=b'{"order":7}', timeout_s=timeout_s)


async def sent(url: str, *, times: int = 1, **said: Any) -> Reply:
    """Post to the address, which is allowed; the last reply."""
    sender = WebhookSender(reach=reach(url))
    try:
        for _ in range(times):
            reply = await sender(request(url, **said))
    finally:
        await sender.close()
    return reply


async def failing(awaited: Any) -> Failure:
    with pytest.raises(Failure) as caught:
        await awaited
    return caught.value


async def ended(task: asyncio.Task[Any]) -> None:
    """Wait until it has, while the loop's clock stands still."""
    await asyncio.to_thread(wait_until, task.done, within_s=PATIENCE_S, what="it ended")


async def test_what_is_posted_arrives_and_nothing_else_does(upstream: BadUpstream) -> None:
    headers = (("Content-Type", "application/json"), ("webhook-id", "evt_1"))
    with within(PATIENCE_S), enriched(trace_id="1" * 32, span_id="2" * 16):
        reply = await sent(upstream.answer("taken", b"no, thanks", status=422, x_a="b"), headers=headers)
    assert (reply.status, reply.headers["X-A"], reply.body) == (422, "b", b"no, thanks")
    asked = upstream.asked[-1]
    assert (asked.method, asked.body) == ("POST", b'{"order":7}')
    assert dict(asked.headers) == {
        "host": upstream.address,
        "content-type": "application/json",
        "webhook-id": "evt_1",
        "accept-encoding": "identity",
        "content-length": "11",
    }


async def test_connections_are_used_again_and_closed_in_the_end() -> None:
    with BadUpstream() as upstream:  # one that has no connections of other tests
        url = upstream.url("ok")
        sender = WebhookSender(reach=reach(url), connections_max=3)
        await asyncio.gather(*(sender(request(url)) for _ in range(30)))
        assert upstream.open_connections == 3
        await sender.close()
        await asyncio.to_thread(
            wait_until, lambda: not upstream.open_connections, within_s=PATIENCE_S, what="it hung up"
        )


async def test_our_own_network_is_out_of_reach(upstream: BadUpstream) -> None:
    before = len(upstream.asked)
    sender = WebhookSender()
    for url in (upstream.url("ok"), f"http://localhost:{upstream.port}/ok", "http://169.254.169.254/latest"):
        failure = await failing(sender(request(url)))
        assert (failure.code, failure.retryable) == ("ADDRESS_REFUSED", False)
    elsewhere = WebhookSender(reach=Reach(allowed=frozenset({f"127.0.0.1:{upstream.port + 1}"})))
    assert (await failing(elsewhere(request(upstream.url("ok"))))).code == "ADDRESS_REFUSED"
    assert len(upstream.asked) == before
    await sender.close()
    await elsewhere.close()


async def test_a_name_is_checked_where_it_leads_to(upstream: BadUpstream) -> None:
    asked = []

    async def lookup(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["93.184.216.34", "127.0.0.1"]

    sender = WebhookSender(lookup=lookup)
    for _ in range(2):
        failure = await failing(sender(request(f"http://hook.example.com:{upstream.port}/ok")))
        assert failure.code == "ADDRESS_REFUSED"
    assert asked == ["hook.example.com"] * 2
    await sender.close()


async def test_a_redirect_is_an_answer_like_any_other(upstream: BadUpstream) -> None:
    before = len(upstream.asked)
    reply = await sent(upstream.url("redirect_inward"))
    assert 300 <= reply.status < 400
    assert len(upstream.asked) == before + 1


@pytest.mark.parametrize(
    "name",
    ["endless_chunked", "endless_unframed", "huge_length", "reset_in_body", "truncated", "gzip_bomb"],
)
async def test_the_status_counts_whatever_becomes_of_the_body(upstream: BadUpstream, name: str) -> None:
    began_s = REAL.monotonic_s()
    reply = await sent(upstream.url(name), timeout_s=PATIENCE_S, times=2)
    assert reply.status == 200
    assert len(reply.body) <= 200
    assert REAL.monotonic_s() - began_s < PATIENCE_S  # nobody waits for the rest


def test_the_status_counts_although_the_body_hangs(upstream: BadUpstream) -> None:
    written = threading.Semaphore(0)

    async def stop_in_body(exchange: Exchange) -> None:
        await exchange.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
        written.release()
        await exchange.hang()

    url = upstream.behave("stops", stop_in_body)

    async def wait() -> Reply:
        loop = here()
        sending = asyncio.create_task(sent(url, timeout_s=1.0, times=2))
        for _ in range(2):
            assert not sending.done()
            assert await asyncio.to_thread(written.acquire, timeout=PATIENCE_S)
            await loop.settle()
            for _ in range(11):
                await loop.advance(0.1)
        await ended(sending)
        return await sending

    reply = run(wait())
    assert (reply.status, reply.body) == (200, b"{")


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("hang_at_header", "NETWORK_TIMEOUT"),
        ("drip_header", "NETWORK_TIMEOUT"),
        ("reset", "CONNECTION_RESET"),
        ("empty_reply", "CONNECTION_RESET"),
        ("garbage", "INVALID_RESPONSE"),
        ("endless_headers", "INVALID_RESPONSE"),
        ("informational_storm", "INVALID_RESPONSE"),
        ("switches", "INVALID_RESPONSE"),
    ],
)
async def test_the_lack_of_a_status_is_a_failure_of_the_catalog(upstream: BadUpstream, name: str, code: str) -> None:
    # Only what never says a word may run out of time, however slow this machine is.
    timeout_s = 0.4 if code == "NETWORK_TIMEOUT" else PATIENCE_S
    assert (await failing(sent(upstream.url(name), timeout_s=timeout_s))).code == code


async def test_no_connection_is_a_failure_of_the_catalog(upstream: BadUpstream) -> None:
    codes = {
        upstream.refused_url(): "CONNECTION_REFUSED",
        upstream.hanging_url(): "NETWORK_TIMEOUT",
        upstream.tls_url(Certificate.SELF_SIGNED, "ok"): "TLS_ERROR",
        upstream.silent_tls_url(): "NETWORK_TIMEOUT",
    }
    for url, code in codes.items():
        timeout_s = 0.3 if code == "NETWORK_TIMEOUT" else PATIENCE_S
        failure = await failing(sent(f"{url}?token=hush", timeout_s=timeout_s))
        assert failure.code == code
        assert "hush" not in f"{failure.technical} {failure!r} {failure.__cause__!r} {failure.details}"


@pytest.mark.parametrize("timeout_s", [0.3, 1.2])
def test_an_exchange_takes_no_longer_than_its_endpoint_allows(upstream: BadUpstream, timeout_s: float) -> None:
    upstream.asked.clear()

    async def wait() -> Failure:
        loop = here()
        sending = asyncio.create_task(failing(sent(upstream.url("hang_at_header"), timeout_s=timeout_s)))
        arrived = lambda: bool(upstream.asked)  # noqa: E731
        await asyncio.to_thread(wait_until, arrived, within_s=PATIENCE_S, what="the request arrived")
        await loop.settle()
        await loop.advance(timeout_s * 0.99)
        assert not sending.done()
        await loop.advance(timeout_s * 0.11 + 0.05)
        await ended(sending)
        return await sending

    failure = run(wait())
    assert (failure.code, failure.details["phase"]) == ("NETWORK_TIMEOUT", "total")


async def test_a_reply_that_nobody_asked_for_is_given_to_nobody(upstream: BadUpstream) -> None:
    async def twice(exchange: Exchange) -> None:
        await exchange.write(
            b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"
        )

    assert (await sent(upstream.behave("twice", twice), times=3)).status == 200


def test_each_loop_has_connections_of_its_own_that_end_with_it(upstream: BadUpstream) -> None:
    url = upstream.url("ok")
    sender = WebhookSender(reach=reach(url))

    async def use() -> int:
        return (await sender(request(url))).status

    for _ in range(2):
        assert asyncio.run(use()) == 200
    gc.collect()  # a leak would warn, and a warning is an error
    wait_until(lambda: not upstream.open_connections, within_s=PATIENCE_S, what="it hung up")


async def test_it_goes_on_when_somebody_cancels_whatever_runs(upstream: BadUpstream) -> None:
    url = upstream.url("ok")
    sender = WebhookSender(reach=reach(url))
    await sender(request(url))
    here = asyncio.current_task()
    others = [task for task in asyncio.all_tasks() if task is not here]
    for task in others:
        task.cancel()
    await asyncio.wait(others)
    assert (await sender(request(url))).status == 200
    await sender.close()


def test_a_worker_delivers_through_it_and_a_refused_address_is_final(store: Store, upstream: BadUpstream) -> None:
    upstream.asked.clear()
    jobs = Jobs(store)
    deliveries = Deliveries(store, jobs)
    good = deliveries.endpoints.add(upstream.answer("hooked"), secret=SECRET, event_types=["order.*"])
    inward = deliveries.endpoints.add("http://127.0.0.1:1/", event_types=["order.*"])
    events = deliveries.publish_many([NewEvent("order.paid", {"order": number}) for number in range(50)])
    sender = WebhookSender(reach=reach(good.url))
    # A long lease: nothing is sent twice because this process stood still for a while.
    worker = Worker(store, deliveries.handlers(sender), queues=[deliveries.queue()], lease_s=PATIENCE_S)
    worker.start()
    try:
        states = lambda: [one.state for event in events for one in deliveries.history(event.id).deliveries]  # noqa: E731
        wait_until(lambda: set(states()) <= {"complete", "failed"}, within_s=90, what="every delivery ended")
    finally:
        worker.stop()
        worker.join()
        jobs.close()
    arrived = [asked for asked in upstream.asked if asked.path == "/hooked"]
    assert sorted(asked.headers["webhook-id"] for asked in arrived) == sorted(event.id for event in events)
    for asked in arrived:
        StandardWebhooks().verify(dict(asked.headers), asked.body, secrets=[SECRET])
    dead = deliveries.undelivered.list(count=100).events
    assert {(one.endpoint_id, one.error_code, one.attempts) for one in dead} == {(inward.id, "ADDRESS_REFUSED", 1)}
    assert len(dead) == 50
