"""The acceptance checks of the seed, end to end: real HTTP, the real gateway process, on both engines."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from xml.etree import ElementTree

import pytest

from holdfast.testing.processes import wait_until
from holdfast.worker import Jobs
from holdfast_systems.conversion.gateway import Gateway

from .system import PATIENCE_S, Running, pdf

Site = Callable[..., Running]
Faults = Callable[..., None]


def names(job: dict) -> list[str]:
    return [event["event"] for event in job["events"]]


def test_a_pdf_becomes_xml(site: Site) -> None:
    here = site()
    me = here.person()
    with here.working():
        job = me.settled(me.uploaded(pdf("Hello & goodbye <again>")))
    assert job["status"] == "complete"
    assert names(job) == ["queued", "processing", "complete"]
    last = job["events"][-1]["meta"]
    assert (last["attempt"], last["gateway_http_status"], last["error_code"]) == (1, 200, None)
    assert last["duration_ms"] > 0
    got = me.download(job["id"])
    assert got.headers["content-type"] == "application/xml"
    assert got.headers["content-disposition"] == "attachment; filename=\"paper.xml\"; filename*=UTF-8''paper.xml"
    assert "Hello & goodbye <again>" in "".join(ElementTree.fromstring(got.content).itertext())
    assert int(got.headers["content-length"]) == job["result_bytes"] == len(got.content)


def test_a_bad_mapping_fails_with_gw_4xx_and_is_not_retried(site: Site) -> None:
    here = site()
    me = here.person()
    with here.working():
        job = me.settled(me.uploaded(mapping="markdown"))
    assert (job["status"], job["error_code"], job["attempt_count"]) == ("failed", "GW_4XX", 1)
    assert job["error_message"] == "Couldn’t convert this file with the selected mapping. Unsupported mapping."
    assert names(job) == ["queued", "processing", "failed"]
    assert job["events"][-1]["meta"]["gateway_http_status"] == 406
    assert job["failed_at"]


@pytest.mark.parametrize("status", [400, 413, 415])
def test_a_gateway_that_refuses_the_file_is_not_asked_again(site: Site, faults: Faults, status: int) -> None:
    here = site()
    me = here.person()
    faults(status=status)
    with here.working():
        job = me.settled(me.uploaded())
    assert (job["error_code"], job["attempt_count"]) == ("GW_4XX", 1)
    assert job["events"][-1]["meta"]["gateway_http_status"] == status


def test_a_broken_pdf_fails_with_gw_4xx(site: Site) -> None:
    here = site()
    me = here.person()
    with here.working():
        job = me.settled(me.uploaded(b"%PDF-1.7\nthis is the whole file"))
    assert (job["error_code"], job["attempt_count"]) == ("GW_4XX", 1)


@pytest.mark.parametrize(
    ("switches", "status"),
    [
        ({"status": 500}, 500),
        ({"status": 503, "retry_after": 0}, 503),
        ({"reset": True}, None),
        ({"garbage": True}, 200),
    ],
)
def test_a_gateway_in_trouble_is_asked_three_times(site: Site, faults: Faults, switches: dict, status: int) -> None:
    here = site()
    me = here.person()
    faults(**switches)
    with here.working():
        job = me.settled(me.uploaded())
    assert (job["status"], job["error_code"], job["attempt_count"]) == ("failed", "GW_5XX", 3)
    assert job["error_message"] == "Converter service is having an issue. Try again later."
    assert names(job) == ["queued", "processing", "retry", "processing", "retry", "processing", "failed"]
    assert [event["meta"]["gateway_http_status"] for event in job["events"] if event["event"] == "retry"] == [
        status
    ] * 2
    assert here.files("results") == []


def test_a_gateway_that_recovers_between_attempts_is_forgiven(site: Site, faults: Faults) -> None:
    here = site()
    me = here.person()
    faults(status=500, times=2)
    with here.working():
        job = me.settled(me.uploaded())
    assert (job["status"], job["attempt_count"], job["error_code"]) == ("complete", 3, None)


def test_a_gateway_that_hangs_is_gw_timeout_after_all_attempts(site: Site, faults: Faults) -> None:
    here = site(GATEWAY_TIMEOUT_S="0.2")
    me = here.person()
    faults(hang=True)
    with here.working():
        job = me.settled(me.uploaded())
    assert (job["status"], job["error_code"], job["attempt_count"]) == ("failed", "GW_TIMEOUT", 3)
    assert job["error_message"] == "Conversion took too long."
    retried = [event["meta"]["error_code"] for event in job["events"] if event["event"] == "retry"]
    assert retried == ["GW_TIMEOUT", "GW_TIMEOUT"]


def test_the_number_of_attempts_is_a_setting(site: Site, faults: Faults) -> None:
    here = site(RETRY_MAX_ATTEMPTS="2")
    me = here.person()
    faults(status=500)
    with here.working():
        assert me.settled(me.uploaded())["attempt_count"] == 2


def test_between_attempts_the_job_is_queued_and_shows_when_it_goes_on(site: Site, faults: Faults) -> None:
    here = site(RETRY_DELAYS_S="60")
    me = here.person()
    faults(status=500)
    with here.working():
        job = me.seen(me.uploaded(), lambda job: job["waiting"])
    assert (job["status"], job["error_code"], job["error_message"]) == ("queued", None, None)
    assert job["waiting"]["code"] == "GW_5XX"
    assert job["waiting"]["next_attempt_at"] > job["last_attempt_at"]


def test_a_wish_of_the_gateway_that_is_longer_than_our_wait_is_heard(site: Site, faults: Faults) -> None:
    here = site()
    me = here.person()
    faults(status=503, retry_after=120)
    with here.working():
        job = me.seen(me.uploaded(), lambda job: job["waiting"])
    [retried] = [event for event in Jobs(here.store).history(job["job_id"]) if event["verb"] == "retried"]
    assert retried["due_us"] - retried["at_us"] == pytest.approx(120_000_000, abs=2_000_000)


def test_results_that_cannot_be_written_are_tried_once_more_then_io_error(site: Site) -> None:
    here = site()
    me = here.person()
    # A file where the folder of the results has to be.
    (here.folder / "artifacts").mkdir(exist_ok=True)
    (here.folder / "artifacts" / "results").write_text("in the way")
    with here.working():
        job = me.settled(me.uploaded())
        assert (job["status"], job["error_code"], job["attempt_count"]) == ("failed", "IO_ERROR", 2)
        assert job["error_message"] == "Storage issue. Try again later."
        assert names(job) == ["queued", "processing", "retry", "processing", "failed"]
        (here.folder / "artifacts" / "results").unlink()
        assert me.retry(job["id"]).status_code == 200
        assert me.settled(job["id"])["status"] == "complete"


def test_a_download_before_the_end_is_not_ready(site: Site, faults: Faults) -> None:
    here = site()
    me = here.person()
    job_id = me.uploaded()
    early = me.download(job_id)
    assert (early.status_code, early.json()["error"]["code"]) == (409, "NOT_READY")
    assert early.json()["error"]["message"] == "Conversion not finished yet."
    faults(status=400)
    with here.working():
        me.settled(job_id)
    assert me.download(job_id).status_code == 409


def test_a_lost_result_is_expired(site: Site) -> None:
    here = site()
    me = here.person()
    with here.working():
        job = me.settled(me.uploaded())
    here.files("results")[0].unlink()
    reply = me.download(job["id"])
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "EXPIRED")
    assert reply.json()["error"]["message"] == "File was removed by retention. Re-upload to regenerate."
    with here.working():
        again = me.settled(me.uploaded())
    assert again["id"] != job["id"]
    assert me.download(again["id"]).status_code == 200


def test_a_manual_retry_puts_a_failed_job_back_and_it_completes(site: Site, faults: Faults) -> None:
    here = site()
    me = here.person()
    faults(status=500)
    job_id = me.uploaded()
    with here.working():
        me.settled(job_id)
    reply = me.retry(job_id)
    back = reply.json()
    assert (reply.status_code, back["status"], back["manual_retry_count"]) == (200, "queued", 1)
    assert (back["error_code"], back["error_message"], back["failed_at"]) == (None, None, None)
    again = me.retry(job_id)
    assert (again.status_code, again.json()["error"]["code"]) == (409, "NOT_READY")
    faults()
    with here.working():
        job = me.settled(job_id)
    assert (job["status"], job["attempt_count"], job["manual_retry_count"]) == ("complete", 1, 1)
    assert me.retry(job_id).json()["error"]["code"] == "CONFLICT"


def test_a_retry_needs_the_source(site: Site, faults: Faults) -> None:
    here = site()
    me = here.person()
    faults(status=400)
    with here.working():
        job = me.settled(me.uploaded())
    here.files("sources")[0].unlink()
    reply = me.retry(job["id"])
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "EXPIRED")
    assert me.job(job["id"])["status"] == "failed"


def test_a_killed_gateway_comes_back_and_the_jobs_complete(site: Site, gateway: Gateway) -> None:
    # Its guardian starts it again within a moment; the jobs only have to try long enough.
    here = site(RETRY_DELAYS_S="0.5", RETRY_MAX_ATTEMPTS="100")
    me = here.person()
    before = gateway.restarts
    with here.working():
        os.kill(gateway.pid, signal.SIGKILL)
        jobs = [me.uploaded(pdf(str(number))) for number in range(3)]
        assert {me.settled(job_id)["status"] for job_id in jobs} == {"complete"}
    wait_until(lambda: gateway.restarts == before + 1, within_s=PATIENCE_S, what="the gateway is back")
    assert len(here.files("results")) == 3


def test_a_present_result_means_that_there_is_nothing_left_to_do(site: Site, faults: Faults) -> None:
    here = site()
    me = here.person()
    job_id = me.uploaded()
    results = here.folder / "artifacts" / "results"
    results.mkdir()
    (results / f"{job_id}.xml").write_text("<document/>")
    faults(status=500)  # whoever asks the gateway fails
    with here.working():
        job = me.settled(job_id)
    assert (job["status"], job["attempt_count"]) == ("complete", 1)
    assert me.download(job_id).text == "<document/>"
