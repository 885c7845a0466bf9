"""Processes that die in the worst moment, on both engines: one XML, and nothing lost."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from holdfast.testing.processes import Child, wait_until
from holdfast.worker import Jobs
from holdfast_systems.conversion.gateway import Gateway
from holdfast_systems.conversion.settings import PREFIX

from .system import PATIENCE_S, QUICK, Running, holding

WORK = Path(__file__).parent / "programs" / "work.py"
LEASE_S = 30.0

Site = Callable[..., Running]
Faults = Callable[..., None]
Start = Callable[..., Child]


@pytest.fixture
def start(tmp_path: Path, database_url: str, gateway: Gateway) -> Iterator[Start]:
    """Start a worker process beside the served system; it is killed with the test."""
    with ExitStack() as stack:

        def begin(*words: str) -> Child:
            settings = {PREFIX + name: value for name, value in {**QUICK, "GATEWAY": gateway.address}.items()}
            log = stack.enter_context((tmp_path / "worker.log").open("ab"))
            child = Child(
                [sys.executable, WORK, database_url, tmp_path / "conversion", str(LEASE_S), *words],
                log=log,
                environment={**os.environ, **settings},
            )
            stack.callback(lambda: child.kill() if child.running() else None)
            return child

        yield begin


def run_out(here: Running) -> None:
    """Let the lease of whoever died be over: to wait for that takes its time, and a short one ends at every hiccup."""
    here.store.atomic(lambda tx: tx._execute("UPDATE holdfast_worker SET lease_until_us = 1", {}))


def lease_until_us(here: Running) -> int:
    return here.store.atomic(lambda tx: max(one["lease_until_us"] for one in tx.records("worker.list")), write=False)


def now_us(here: Running) -> int:
    return here.store.atomic(lambda tx: tx.now_us(), write=False)


def verbs(here: Running, job: dict[str, Any]) -> list[str]:
    return [event["verb"] for event in Jobs(here.store).history(job["job_id"])]


def test_a_worker_killed_in_the_middle_of_a_conversion_leaves_one_xml(site: Site, start: Start, faults: Faults) -> None:
    here = site()
    me = here.person()
    faults(delay_s=30)
    job_id = me.uploaded()
    first = start()
    me.seen(job_id, lambda job: job["status"] == "processing")
    first.kill()
    faults()
    assert me.job(job_id)["status"] == "processing", "nobody knows yet"
    run_out(here)
    start()
    job = me.settled(job_id)
    assert (job["status"], job["attempt_count"]) == ("complete", 2), "each dispatch counts"
    assert verbs(here, job) == ["enqueued", "claimed", "reclaimed", "claimed", "finished"]
    assert len(here.files("results")) == 1
    assert me.download(job_id).status_code == 200


def test_a_worker_killed_between_the_xml_and_the_record_leaves_one_xml(
    site: Site, start: Start, faults: Faults, gateway: Gateway
) -> None:
    here = site()
    me = here.person()
    job_id = me.uploaded()
    dying = start("stored")
    dying.wait(PATIENCE_S)
    [stored] = here.files("results")
    written = stored.stat().st_mtime_ns
    assert me.job(job_id)["status"] == "processing"
    assert me.download(job_id).status_code == 409, "what is not recorded is not there"
    faults(status=400)  # whoever asks the gateway again fails for good
    run_out(here)
    start()
    job = me.settled(job_id)
    assert (job["status"], job["error_code"]) == ("complete", None)
    assert here.files("results") == [stored]
    assert stored.stat().st_mtime_ns == written


def test_a_call_longer_than_the_lease_keeps_it(site: Site) -> None:
    with holding() as (gateway, go_on):
        here = site(GATEWAY=gateway)
        me = here.person()
        with here.working(lease_s=5.0), here.working(lease_s=5.0):
            job_id = me.uploaded()
            me.seen(job_id, lambda job: job["status"] == "processing")
            first_us = lease_until_us(here)
            wait_until(lambda: now_us(here) > first_us, within_s=PATIENCE_S, what="the first lease would be over")
            go_on.set()
            job = me.settled(job_id)
    assert (job["status"], job["attempt_count"]) == ("complete", 1)
    assert verbs(here, job) == ["enqueued", "claimed", "finished"]


def test_deleting_while_a_worker_converts_stops_it_and_leaves_nothing(site: Site) -> None:
    with holding() as (gateway, go_on):
        here = site(ORPHAN_S="0.000001", GATEWAY=gateway)
        me, jobs = here.person(), Jobs(here.store)
        with here.working() as worker:
            job = me.seen(me.uploaded(), lambda job: job["status"] == "processing")
            assert me.http.delete(f"/api/jobs/{job['id']}").status_code == 204
            assert me.http.get(f"/api/jobs/{job['id']}").status_code == 404

            def has_stopped() -> bool:
                return jobs.show(job["job_id"])["state"] == "failed"

            def knows() -> bool:
                return any(one.cancelled for crew in worker._crews for one in crew.jobs())

            wait_until(lambda: has_stopped() or knows(), within_s=PATIENCE_S, what="the worker knows of it")
            go_on.set()
            wait_until(has_stopped, within_s=PATIENCE_S, what="it has stopped")
            # It was told to stop while it converted, or had only been claimed and found no source any more.
            assert jobs.show(job["job_id"])["error_code"] in {"JOB_CANCELLED", "EXPIRED"}
    assert here.files("sources") == here.files("results") == []


def test_deleting_what_waits_leaves_no_job_behind(site: Site) -> None:
    here = site()
    me = here.person()
    job = me.job(me.uploaded())
    assert me.http.delete(f"/api/jobs/{job['id']}").status_code == 204
    assert me.listing()["jobs"] == []
    assert here.files("sources") == []
    assert Jobs(here.store).list(queue="conversion") == []
    assert me.uploaded() != job["id"], "the same file may come again"
