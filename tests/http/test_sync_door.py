"""Code that blocks has the same client, through one shared thread that ends with its last user."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from holdfast.catalog import Failure
from holdfast.guard import Link
from holdfast.http import sync_door
from holdfast.http.client import ANYWHERE, HttpClient, Reply
from holdfast.policy import Backoff, Retry, within
from holdfast.testing import instant
from holdfast.testing.exchange import Exchange
from holdfast.testing.processes import wait_until
from holdfast.testing.upstream import BadUpstream

PATIENCE_S = 60.0
READS = Link("script → upstream", retry=Retry(attempts=3, backoff=Backoff.constant(1)))
WRITES = Link("script → upstream", retry=Retry(attempts=3, backoff=Backoff.constant(1)), writes=True)


@pytest.fixture
def upstream() -> Iterator[BadUpstream]:
    with BadUpstream() as running:
        yield running


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Tells which threads the clients of this test have, whoever else in this process has one."""
    monkeypatch.setattr(sync_door, "_door", None)
    before = set(threading.enumerate())
    return lambda: [one.name for one in threading.enumerate() if one.name == "holdfast-http" and one not in before]


def test_a_script_needs_no_event_loop(upstream: BadUpstream) -> None:
    with HttpClient(reach=ANYWHERE).sync as client:
        assert client.send("GET", upstream.url("ok")).json() == {"ok": True}
        assert client.call(READS, "GET", upstream.url("ok"), read=Reply.json) == {"ok": True}


def test_the_callers_world_deadline_and_key_hold_inside(upstream: BadUpstream) -> None:
    upstream.script("orders", "status_429_seconds", "echo")
    with HttpClient(reach=ANYWHERE).sync as client, instant() as time, within(50):
        told = client.call(WRITES, "POST", upstream.url("orders"), key="order:7", read=Reply.json)["headers"]
    assert time.waits_s == [7]
    assert told["idempotency-key"] == "order:7"
    assert 42_900 < int(told["x-deadline-ms"]) <= 43_000


def test_one_thread_serves_all_and_ends_with_the_last(upstream: BadUpstream, threads: Callable[[], list[str]]) -> None:
    first, second = HttpClient(reach=ANYWHERE).sync, HttpClient(reach=ANYWHERE).sync
    assert threads() == []
    with first, second, ThreadPoolExecutor(8) as pool:
        replies = pool.map(lambda client: client.send("GET", upstream.url("ok")).status, [first, second] * 20)
        assert set(replies) == {200}
        assert threads() == ["holdfast-http"]
        first.close()
        assert second.send("GET", upstream.url("ok")).ok
    assert threads() == []
    with pytest.raises(RuntimeError, match="closed"):
        first.send("GET", upstream.url("ok"))
    gc.collect()  # a leak would warn, and a warning is an error


def test_threads_that_ask_at_once_get_the_same_client() -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(100):
            client, ready, found = HttpClient(reach=ANYWHERE), threading.Barrier(6), []

            def ask(client: HttpClient = client, ready: threading.Barrier = ready, found: list[Any] = found) -> None:
                ready.wait()
                found.append(client.sync)

            threads = [threading.Thread(target=ask) for _ in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(set(found)) == 1
    finally:
        sys.setswitchinterval(before)


def test_a_closed_door_can_be_opened_again(upstream: BadUpstream) -> None:
    client = HttpClient(reach=ANYWHERE)
    for _ in range(2):
        with client.sync as door:
            assert door is client.sync
            assert door.send("GET", upstream.url("ok")).ok
        door.close()


def test_too_many_calls_at_once_wait_no_longer_than_they_have_time(
    upstream: BadUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync_door, "CALLS_MAX", 1)
    monkeypatch.setattr(sync_door, "_door", None)  # one that is made anew, with so few places
    go_on = threading.Event()

    async def late(exchange: Exchange) -> None:
        await asyncio.to_thread(go_on.wait, PATIENCE_S)
        await exchange.reply(b"{}")

    url = upstream.behave("late", late)
    with HttpClient(reach=ANYWHERE).sync as client, ThreadPoolExecutor(1) as pool:
        try:
            hanging = pool.submit(client.send, "GET", url)
            wait_until(lambda: bool(upstream.asked), within_s=PATIENCE_S, what="the request arrived")
            with within(0.05), pytest.raises(Failure) as caught:
                client.send("GET", upstream.url("ok"))
        finally:
            go_on.set()
        assert caught.value.code == "CONCURRENCY_EXCEEDED"
        assert hanging.result().ok
        assert client.send("GET", upstream.url("ok")).ok


def test_a_read_function_cannot_wait_for_the_loop_it_runs_in(upstream: BadUpstream) -> None:
    with HttpClient(reach=ANYWHERE).sync as client, pytest.raises(RuntimeError, match="its own event loop"):
        client.call(WRITES, "GET", upstream.url("ok"), read=lambda reply: client.send("GET", reply.url))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # that threads are about is the point
def test_a_forked_child_has_connections_of_its_own(upstream: BadUpstream) -> None:
    with HttpClient(reach=ANYWHERE).sync as client:
        assert client.send("GET", upstream.url("ok")).ok
        child = os.fork()
        if child == 0:
            try:
                good = client.send("GET", upstream.url("ok")).ok
                client.close()
                os._exit(0 if good else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert client.send("GET", upstream.url("ok")).ok
    assert upstream.asked[-1].name == "ok"


def test_a_program_that_forgets_to_close_ends_quietly(upstream: BadUpstream) -> None:
    program = (
        # In this mode asyncio tells of every step that took a tenth of a second; that is for the machine to say.
        "import logging\n"
        "logging.getLogger('asyncio').addFilter(lambda record: not record.getMessage().startswith('Executing '))\n"
        "from holdfast.http.client import HttpClient, ANYWHERE\n"
        f"client = HttpClient(reach=ANYWHERE).sync\nprint(client.send('GET', {upstream.url('ok')!r}).status)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-X", "dev", "-c", program],
        capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    assert (ended.stdout, ended.stderr, ended.returncode) == ("200\n", "", 0)
