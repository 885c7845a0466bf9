"""Large bodies are read beside the event loop, and within the time of the call."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator

import pytest

from holdfast.catalog import Failure
from holdfast.guard import Link
from holdfast.http.client import ANYWHERE, READ_INLINE_BYTES_MAX, HttpClient, Reply, Timeouts
from holdfast.policy import Retry
from holdfast.testing.upstream import BadUpstream

LARGE = [{"id": number, "name": "x" * 20, "sizes": [1, 2, 3]} for number in range(100_000)]
ONCE = Link("shop → upstream", retry=Retry(attempts=1))
STALL_S_MAX = 0.4
"""On a machine that others use too; read on the loop, these six megabytes take it for a second and more."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with BadUpstream() as running:
        yield running.answer("large", json.dumps(LARGE).encode())


async def test_the_loop_goes_on_while_a_large_body_is_read(url: str) -> None:
    stalls_s = []
    threads = []

    async def watch() -> None:
        while True:
            before_s = time.thread_time()
            began_s = time.monotonic()
            await asyncio.sleep(0.001)
            # What the loop's own thread was busy with counts, not what the machine did meanwhile.
            stalls_s.append(min(time.monotonic() - began_s, time.thread_time() - before_s))

    def read(reply: Reply) -> object:
        threads.append(threading.current_thread())
        return reply.json()

    async with HttpClient(reach=ANYWHERE) as client:
        watching = asyncio.create_task(watch())
        assert await client.call(ONCE, "GET", url, read=read) == LARGE
        watching.cancel()
    assert threads[0] is not threading.main_thread()
    assert max(stalls_s) < STALL_S_MAX


async def test_reading_counts_for_the_time_of_the_call(url: str) -> None:
    gate = threading.Event()

    def read(reply: Reply) -> object:
        gate.wait(30)
        return reply.json()

    async with HttpClient(reach=ANYWHERE, timeouts=Timeouts(total_s=2)) as client:
        with pytest.raises(Failure) as caught:
            await client.call(ONCE, "GET", url, read=read)
        gate.set()
    assert (caught.value.code, caught.value.details["phase"]) == ("NETWORK_TIMEOUT", "read")


async def test_a_small_body_is_read_at_once() -> None:
    threads = []
    with BadUpstream() as upstream:
        small = upstream.answer("small", b" " * (READ_INLINE_BYTES_MAX - 2) + b"{}")
        async with HttpClient(reach=ANYWHERE) as client:
            await client.call(ONCE, "GET", small, read=lambda reply: threads.append(threading.current_thread()))
    assert threads == [threading.main_thread()]
