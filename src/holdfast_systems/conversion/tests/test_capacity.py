"""A busy gateway is not a failure: no attempt is spent, the breaker stays closed, and it is asked for less."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.base import REAL
from holdfast.store import Store
from holdfast.testing.processes import Child, wait_until
from holdfast.worker import Jobs, Queues
from holdfast_systems.conversion.capacity import Capacity
from holdfast_systems.conversion.gateway import GatewayLimits, start_gateway
from holdfast_systems.conversion.settings import PREFIX

from .system import PATIENCE_S, QUICK, Running, pdf, running, served
from .test_crash import WORK

Site = Callable[..., Running]
NERVOUS = {"BREAKER_CALLS_MIN": "1", "RETRY_DELAYS_S": "0.05"}
BUSY = "The converter is busy. We’ll try again shortly."


@dataclass
class Scripted:
    """A gateway that gives these answers, and then XML."""

    statuses: list[int]
    healthy: bool = True
    address: str = ""
    asked: list[int] = field(default_factory=list)

    async def convert(self, request: Request) -> Response:
        await request.body()
        status = self.statuses.pop(0) if self.statuses else 200
        self.asked.append(status)
        if status == 200:
            return Response(b"<document><p>Words</p></document>", media_type="application/xml")
        return Response(b"", status, headers={"retry-after": "1"})

    async def health(self, request: Request) -> Response:
        return Response(status_code=200 if self.healthy else 503)


@contextmanager
def scripted(*statuses: int, healthy: bool = True) -> Iterator[Scripted]:
    gateway = Scripted(list(statuses), healthy)
    routes = [Route("/convert", gateway.convert, methods=["POST"]), Route("/health", gateway.health)]
    with served(Starlette(routes=routes)) as gateway.address:
        yield gateway


def verbs(here: Running, job: dict[str, Any]) -> list[str]:
    return [event["verb"] for event in Jobs(here.store).history(job["job_id"]) if event["verb"] != "claimed"]


def breakers(here: Running) -> list[str]:
    return [one.state for one in Queues(here.store).breakers() if one.state != "closed"]


@pytest.mark.parametrize("status", [503, 429])
def test_a_busy_gateway_spends_no_attempt_and_opens_no_breaker(site: Site, status: int) -> None:
    with scripted(status, status, status) as gateway:
        here = site(**NERVOUS, RETRY_MAX_ATTEMPTS="1", GATEWAY=gateway.address)
        me = here.person()
        with here.working():
            job_id = me.uploaded()
            waiting = me.seen(job_id, lambda job: job["waiting"])
            assert (waiting["attempt_count"], waiting["waiting"]["message"]) == (0, BUSY)
            job = me.settled(job_id)
        assert (job["status"], job["attempt_count"], job["error_code"]) == ("complete", 1, None)
        assert verbs(here, job) == ["enqueued", "snoozed", "snoozed", "snoozed", "finished"]
        assert breakers(here) == []


def test_a_503_of_a_gateway_that_is_not_well_is_a_failure(solo: Site) -> None:
    with scripted(503, healthy=False) as gateway:
        here = solo(**NERVOUS, RETRY_MAX_ATTEMPTS="1", GATEWAY=gateway.address)
        me = here.person()
        with here.working():
            job = me.settled(me.uploaded())
        assert (job["status"], job["error_code"]) == ("failed", "GW_5XX")
        assert breakers(here) == ["open"]


def test_a_gateway_that_is_busy_for_ever_is_a_failure_in_the_end(solo: Site) -> None:
    with scripted(*[503] * 100) as gateway:
        here = solo(**NERVOUS, RETRY_MAX_ATTEMPTS="1", GATEWAY=gateway.address, BUSY_MAX_S="2.5")
        me = here.person()
        with here.working():
            job = me.settled(me.uploaded())
        assert (job["status"], job["error_code"]) == ("failed", "GW_5XX")
        assert verbs(here, job)[1] == "snoozed"
        assert verbs(here, job)[-1] == "failed"
        assert breakers(here) == [], "the gateway is well"


def test_the_share_falls_to_what_is_taken_and_rises_again() -> None:
    capacity = Capacity(4)
    with ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(capacity.calling())
        assert capacity.room() == 4
        capacity.refused(30)
        assert capacity.room() == 4, "what runs already runs on"
    assert capacity.room() == 3, "three were taken"
    for _ in range(100):
        capacity.taken()
    assert capacity.room() == 4


def test_a_process_with_nothing_under_way_waits_as_long_as_it_was_asked_to() -> None:
    capacity = Capacity(4)
    with capacity.calling():
        capacity.refused(1_000)
    assert capacity.room() == 0
    with capacity.calling():
        assert capacity.room() == 1


def processing(store: Store) -> int:
    query = "SELECT count(*) FROM holdfast_job WHERE state = 'processing' AND queue = 'conversion'"
    return int(store.atomic(lambda tx: tx._execute(query, {}).fetchall(), write=False)[0][0])


def test_four_worker_processes_before_a_small_gateway_convert_everything(emptied_dsn: str, tmp_path: Path) -> None:
    files = 40
    store = Store.open(emptied_dsn)
    store.migrate()
    with ExitStack() as stack:
        stack.callback(store.close)
        limits = GatewayLimits(processes=1, queue_max=1)
        gateway = stack.enter_context(start_gateway(tmp_path / "gateway", limits=limits))
        settings = {"GATEWAY": gateway.address, "CONCURRENCY": "3", **NERVOUS, "RETRY_MAX_ATTEMPTS": "1"}
        here = stack.enter_context(running(store, tmp_path / "here", **settings))
        me = here.person()
        ids = [me.uploaded(pdf(str(number), pages=20)) for number in range(files)]
        environment = {PREFIX + name: value for name, value in {**QUICK, **settings}.items()}
        log = stack.enter_context((tmp_path / "worker.log").open("ab"))
        for _ in range(4):
            child = Child(
                [sys.executable, WORK, emptied_dsn, tmp_path / "here", "30"],
                log=log,
                environment={**os.environ, **environment},
            )
            stack.callback(child.kill)
        held: list[int] = []

        def all_done() -> bool:
            held.append(processing(store))
            REAL.sleep(0.02)
            return not me.listing()["active"]

        wait_until(all_done, within_s=2 * PATIENCE_S, what="all are done")
        done = [me.job(job_id) for job_id in ids]
        assert {(job["status"], job["attempt_count"]) for job in done} == {("complete", 1)}
        assert max(held) <= 4 * 3
        assert breakers(here) == []
        told = (tmp_path / "gateway" / "gateway.log").read_text()
        assert "CONVERTER_BUSY" in told, "it was too small"
        assert told.count(" converted: ") == files
