"""The gateway's breaker in both modes: jobs wait and then go on, or fail at once and are retried by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.testing.processes import wait_until
from holdfast.worker import Queues

from .system import PATIENCE_S, Person, Running, pdf

Site = Callable[..., Running]
Faults = Callable[..., None]

# One attempt for each job, and a pause that nothing ends but the health probe.
NERVOUS = {"BREAKER_CALLS_MIN": "4", "BREAKER_OPEN_S": "0.2", "RETRY_DELAYS_S": "0.05"}
HELD = "Gateway busy, paused. Will retry automatically."


def breaker(here: Running) -> str:
    states = {one.name: one.state for one in Queues(here.store).breakers()}
    return states.get("conversion", "closed")


def statuses(me: Person) -> set[str]:
    return {job["status"] for job in me.listing()["jobs"]}


def trip(here: Running, me: Person) -> list[str]:
    """Upload until the breaker is open; the jobs."""
    jobs = [me.uploaded(pdf(f"first {number}")) for number in range(4)]
    wait_until(lambda: breaker(here) == "open", within_s=PATIENCE_S, what="the breaker is open")
    return jobs


def test_jobs_stay_queued_while_the_gateway_is_down_and_complete_when_it_is_back(site: Site, faults: Faults) -> None:
    here = site(**NERVOUS, RETRY_MAX_ATTEMPTS="30")
    me = here.person()
    faults(status=503)
    with here.working():
        jobs = trip(here, me)
        late = me.uploaded(pdf("late"))
        # What was on its way when the breaker opened comes back; nothing else is let through.
        wait_until(lambda: statuses(me) == {"queued"}, within_s=PATIENCE_S, what="all are queued")
        assert me.listing()["gateway"] == {"paused": True, "message": HELD}
        assert me.job(late)["attempt_count"] == 0
        faults()
        assert {me.settled(job_id)["status"] for job_id in [*jobs, late]} == {"complete"}
        wait_until(lambda: breaker(here) == "closed", within_s=PATIENCE_S, what="the breaker is closed")
    assert me.listing()["gateway"] == {"paused": False, "message": None}


def test_no_attempt_is_spent_while_the_health_probe_says_no(solo: Site, faults: Faults) -> None:
    here = solo(**NERVOUS, RETRY_MAX_ATTEMPTS="30")
    me = here.person()
    faults(status=503)
    with here.working():
        trip(here, me)
        late = me.uploaded(pdf("late"))
        opened = [one.until_us for one in Queues(here.store).breakers()]
        # The probe has been asked, and said no, when the pause was made longer.
        wait_until(
            lambda: [one.until_us for one in Queues(here.store).breakers()] > opened,
            within_s=PATIENCE_S,
            what="the probe was asked",
        )
        assert breaker(here) == "open"
        assert me.job(late)["attempt_count"] == 0


def test_fail_fast_fails_new_jobs_at_once_and_a_manual_retry_succeeds_later(site: Site, faults: Faults) -> None:
    here = site(**NERVOUS, RETRY_MAX_ATTEMPTS="1", BREAKER_MODE="fail_fast")
    me = here.person()
    faults(status=503)
    with here.working():
        trip(here, me)
        job = me.settled(me.uploaded(pdf("late")))
        assert (job["status"], job["error_code"]) == ("failed", "GW_5XX")
        assert job["events"][-1]["meta"]["gateway_http_status"] is None, "the gateway was not asked"
        assert me.listing()["gateway"]["message"] == "Gateway busy. Files are not converted until it recovers."
        faults()
        wait_until(lambda: breaker(here) == "closed", within_s=PATIENCE_S, what="the breaker is closed")
        assert me.retry(job["id"]).status_code == 200
        assert me.settled(job["id"])["status"] == "complete"


@pytest.mark.parametrize("mode", ["hold", "fail_fast"])
def test_it_closes_by_itself_when_the_gateway_is_back_and_no_job_is_left(site: Site, faults: Faults, mode: str) -> None:
    here = site(**NERVOUS, RETRY_MAX_ATTEMPTS="1", BREAKER_MODE=mode)
    me = here.person()
    faults(status=503)
    with here.working():
        for job_id in trip(here, me):
            if mode == "hold":
                me.http.delete(f"/api/jobs/{job_id}")
            else:
                me.settled(job_id)
        assert me.listing()["gateway"]["paused"]
        faults()
        wait_until(lambda: breaker(here) == "closed", within_s=PATIENCE_S, what="the breaker is closed")
        assert me.listing()["gateway"] == {"paused": False, "message": None}
        jobs = [me.uploaded(pdf(f"after {number}")) for number in range(10)]
        assert {me.settled(job_id)["status"] for job_id in jobs} == {"complete"}


def test_files_that_the_gateway_refuses_do_not_open_the_breaker(solo: Site, faults: Faults) -> None:
    here = solo(**NERVOUS)
    me = here.person()
    faults(status=415)
    with here.working():
        for number in range(6):
            assert me.settled(me.uploaded(pdf(str(number))))["error_code"] == "GW_4XX"
    assert breaker(here) == "closed"


def test_a_storage_that_fails_does_not_open_the_breaker(solo: Site) -> None:
    here = solo(**NERVOUS)
    me = here.person()
    (here.folder / "artifacts" / "results").write_text("in the way")
    with here.working():
        for number in range(4):
            assert me.settled(me.uploaded(pdf(str(number))))["error_code"] == "IO_ERROR"
    assert breaker(here) == "closed"
