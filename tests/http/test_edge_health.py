"""Health tells that the process answers and what is degraded; readiness tells whether it should get traffic."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from holdfast.catalog.core import SERVICE_UNAVAILABLE
from holdfast.guard import Link
from holdfast.http.access import Access
from holdfast.http.edge import Edge
from holdfast.http.health import REMEMBERED_S, Check, Health, link_check, store_check
from holdfast.http.keys import ApiKeys
from holdfast.http.wsgi import WsgiEdge
from holdfast.policy import Breaker
from holdfast.store import Store
from holdfast.testing.instant import instant
from holdfast.testing.processes import wait_until

from .edge_servers import call, served

PATIENCE_S = 60.0


def patient(check: Check) -> Check:
    """The check, given as long as this machine takes."""
    return replace(check, timeout_s=PATIENCE_S)


async def nothing(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 404, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def refused() -> None:
    raise ConnectionRefusedError("the password of the queue is hunter2")


async def slow() -> None:
    await asyncio.Event().wait()


@pytest.fixture
def opened(store: Store) -> Iterator[tuple[int, Health, dict[str, Any]]]:
    working: dict[str, Any] = {"mail": True}
    checks = {"store": patient(store_check(store)), "mail": patient(Check(lambda: working["mail"], vital=False))}
    health = Health(checks)
    with served(Edge(nothing, health=health, access=Access(ApiKeys(store)))) as port:
        yield port, health, working


def test_a_process_in_order_says_so_without_asking_for_a_key(opened: tuple[int, Health, Any]) -> None:
    for path in ("/health", "/ready"):
        reply = call(opened[0], "GET", path)
        assert reply.status == 200
        assert reply.json()["status"] == "ok"
        assert reply.json()["degraded"] == []
        assert set(reply.json()["checks"]) == {"store", "mail"}
        assert reply.headers["cache-control"] == "no-store"
        assert reply.headers["x-request-id"].startswith("req_")
    assert call(opened[0], "HEAD", "/health").body == b""
    assert call(opened[0], "POST", "/health").status == 401


def test_what_is_not_vital_degrades_and_nothing_more(opened: tuple[int, Health, Any]) -> None:
    opened[2]["mail"] = False
    reply = call(opened[0], "GET", "/ready")
    assert (reply.status, reply.json()["status"], reply.json()["degraded"]) == (200, "degraded", ["mail"])


def test_a_store_that_is_away_makes_the_process_unready_but_alive(
    opened: tuple[int, Health, Any], store: Store
) -> None:
    store.close()
    ready, alive = call(opened[0], "GET", "/ready"), call(opened[0], "GET", "/health")
    assert (ready.status, alive.status) == (503, 200)
    assert ready.json()["status"] == "down"
    assert ready.json()["degraded"] == ["store"]
    assert ready.json()["checks"]["store"]["code"]


def test_a_process_that_stops_is_ready_no_longer(opened: tuple[int, Health, Any]) -> None:
    opened[1].stopping = True
    reply = call(opened[0], "GET", "/ready")
    assert (reply.status, reply.json()["stopping"]) == (503, True)


async def test_a_failed_check_is_told_by_its_code_and_not_by_its_text() -> None:
    report = await Health({"queue": patient(Check(refused))}).report()
    assert report["checks"]["queue"]["code"] == "CONNECTION_REFUSED"
    assert "hunter2" not in str(report)


async def test_a_check_that_hangs_is_given_up() -> None:
    report = await Health({"queue": Check(slow, timeout_s=0.05), "mail": patient(Check(lambda: True))}).report()
    assert report["degraded"] == ["queue"]
    assert report["checks"]["queue"]["code"] == "NETWORK_TIMEOUT"


async def test_a_check_that_hangs_takes_no_thread_from_others_and_is_not_begun_again() -> None:
    end, begun = threading.Event(), []

    def hangs() -> None:
        begun.append(True)
        end.wait(PATIENCE_S)

    health = Health({"queue": Check(hangs, timeout_s=0.01)})
    try:
        with instant() as time:
            for _ in range(20):
                assert (await health.report())["degraded"] == ["queue"]
                time.advance(REMEMBERED_S)
            async with asyncio.timeout(PATIENCE_S):
                await asyncio.to_thread(wait_until, lambda: bool(begun), within_s=PATIENCE_S, what="the check began")
            assert len(begun) == 1
    finally:
        end.set()


class Answers:
    """A probe that is an object."""

    def __init__(self, good: bool) -> None:
        self._good = good

    async def __call__(self) -> bool:
        return self._good


async def breaks() -> None:
    raise ConnectionRefusedError


PROBES = {"good": Answers(True), "bad": Answers(False), "filled in": partial(Answers(False)), "broken": breaks}


async def test_a_probe_that_makes_a_coroutine_is_waited_for() -> None:
    report = await Health({name: patient(Check(probe)) for name, probe in PROBES.items()}).report()
    assert report["degraded"] == ["bad", "broken", "filled in"]


def test_a_probe_that_makes_a_coroutine_is_waited_for_without_an_event_loop_too() -> None:
    checks = {name: patient(Check(probe)) for name, probe in PROBES.items()}
    health = Health({**checks, "slow": Check(slow, timeout_s=0.01)})
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/ready", "wsgi.input": io.BytesIO()}
    told: list[str] = []
    body = b"".join(WsgiEdge(lambda *_: [], health=health)(environ, lambda status, _: told.append(status)))
    assert json.loads(body)["degraded"] == ["bad", "broken", "filled in", "slow"]
    assert told == ["503 Service Unavailable"]


async def test_however_often_it_is_asked_a_check_runs_once_in_its_time() -> None:
    runs: list[int] = []
    health = Health({"queue": patient(Check(lambda: runs.append(1)))})
    with instant() as time:
        for _ in range(5):
            await health.report()
        assert len(runs) == 1
        time.advance(REMEMBERED_S)
        await health.report()
        assert len(runs) == 2


async def test_an_open_breaker_is_told() -> None:
    link = Link("shop → bank", breaker=Breaker(calls_min=1, window_s=10))
    health = Health({"bank": patient(link_check(link)), "none": patient(link_check(Link("shop → mail")))})
    assert (await health.report())["degraded"] == []

    def fails() -> None:
        raise SERVICE_UNAVAILABLE()

    with instant() as time:
        for _ in range(3):
            with pytest.raises(Exception, match=r"SERVICE_UNAVAILABLE|BREAKER_OPEN"):
                link.call(fails)
        time.advance(REMEMBERED_S)
        assert (await health.report())["degraded"] == ["bank"]
