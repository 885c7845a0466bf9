"""`holdfast serve` as a real process on a real port: what stands where, and what it is told of the systems."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.testing.processes import wait_until
from holdfast.worker import Jobs, Periodic

from .serving import STOP_S_MAX, Running

TOKEN = "operator-for-a-test"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Both systems, as `make run` starts them."""
    with Running(tmp_path_factory.mktemp("running"), HOLDFAST_TOKEN=TOKEN) as started:
        yield started


def health_of(served: Running, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The report as soon as it is as wanted: a check that a busy machine kept waiting counts as failed for a moment."""
    found: list[dict[str, Any]] = []

    def look() -> bool:
        response, text = served.ask("/health")
        assert response.status == 200
        found[:] = [json.loads(text)]
        return wanted(found[0])

    wait_until(look, within_s=STOP_S_MAX, what="the health report is as wanted")
    return found[0]


# -- the site ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/errors/", "/errors/NETWORK_TIMEOUT"])
def test_the_pages_are_served_as_html(running: Running, path: str) -> None:
    response, text = running.ask(path)
    assert response.status == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert "NETWORK_TIMEOUT" in text


@pytest.mark.parametrize("code", ["ALPHA_TIRED", "INVALID_API_KEY", "ENDPOINT_DISABLED", "ARTIFACT_NOT_FOUND"])
def test_a_fault_of_a_system_and_of_every_part_of_the_core_has_a_page(running: Running, code: str) -> None:
    response, text = running.ask(f"/errors/{code}")
    assert (response.status, code in text) == (200, True)


def test_a_head_request_gets_the_length_and_no_body(running: Running) -> None:
    response, text = running.ask("/errors/", "HEAD")
    whole, body = running.ask("/errors/")
    assert text == ""
    assert response.headers["content-length"] == whole.headers["content-length"] == str(len(body.encode()))


def test_an_unknown_code_is_a_404_with_a_problem_document(running: Running) -> None:
    response, text = running.ask("/errors/NO_SUCH_CODE")
    assert response.status == 404
    assert response.headers["content-type"] == "application/problem+json"
    assert json.loads(text)["code"] == "NOT_FOUND"


@pytest.mark.parametrize("path", ["/errors/", "/health", "/ready"])
def test_another_method_is_a_405_that_names_the_allowed_ones(running: Running, path: str) -> None:
    response, text = running.ask(path, "POST")
    assert (response.status, response.headers["allow"]) == (405, "GET, HEAD")
    assert json.loads(text)["code"] == "METHOD_NOT_ALLOWED"


def test_the_index_lists_every_part_of_every_system(running: Running) -> None:
    _, text = running.ask("/")
    links = set(re.findall(r'href="([^"]+)"', text))
    assert {"/alpha/", "/alpha/secret/", "/beta/one/", "/beta/two/", "/standins/outside/", "/console/"} <= links
    assert "The first letter" in text


def test_the_metrics_are_public_and_the_console_is_not(running: Running) -> None:
    response, text = running.ask("/metrics")
    assert (response.status, "# TYPE" in text) == (200, True)
    assert running.ask("/console/")[0].status == 401
    assert running.ask("/console/", headers={"Authorization": f"Bearer {TOKEN}"})[0].status == 200


def test_the_printed_link_opens_the_console_once(running: Running) -> None:
    (link,) = [line for line in running.lines if line.startswith("Console: ")]
    path = link.partition(f":{running.port}")[2]
    first, second = running.ask(path)[0], running.ask(path)[0]
    assert (first.status, bool(first.headers["set-cookie"])) == (303, True)
    assert second.status in (401, 403)


# -- systems -----------------------------------------------------------------------------------------------------------


def test_a_system_sees_its_root_and_the_whole_path_and_its_own_state(running: Running) -> None:
    seen = json.loads(running.ask("/alpha/some/page")[1])
    assert seen == {"path": "/alpha/some/page", "root_path": "/alpha", "state": {"begun": "yes"}}


def test_each_part_stands_below_its_system(running: Running) -> None:
    assert running.ask("/beta/two/x")[1] == "two below /beta/two"
    assert running.ask("/beta/")[0].status == 404


def test_an_operators_part_takes_the_token_of_the_environment(running: Running) -> None:
    assert running.ask("/alpha/secret/")[0].status == 401
    assert running.ask("/alpha/secret/", headers={"Authorization": f"Bearer {TOKEN}"})[0].status == 200


def test_a_stand_in_is_there_for_this_machine_only(running: Running) -> None:
    assert running.ask("/standins/outside/x")[1] == "from outside"
    assert running.ask("/standins/outside/x", headers={"X-Forwarded-For": "203.0.113.9"})[0].status == 403


def test_the_health_report_has_the_store_and_what_each_system_checks(running: Running) -> None:
    told = health_of(running, lambda told: told["status"] == "ok")
    assert set(told["checks"]) == {"store", "alpha.pulse"}
    wait_until(lambda: running.ask("/ready")[0].status == 200, within_s=STOP_S_MAX, what="it is ready")


def test_jobs_of_all_systems_are_done_by_the_one_worker(running: Running) -> None:
    store = running.store()
    store.load("holdfast.store")
    jobs = Jobs(store)
    made = [jobs.enqueue("alpha.hello", "Ann", queue="alpha"), jobs.enqueue("beta.hello", queue="beta")]
    told = [jobs.wait(one.id, STOP_S_MAX) for one in made]
    periodic = Periodic(store, jobs)
    wait_until(periodic.list, within_s=STOP_S_MAX, what="the schedules")
    entries = [one["name"] for one in periodic.list()]
    store.close()
    assert told == [f"hello Ann from http://127.0.0.1:{running.port}/alpha", "hello from beta"]
    assert entries == ["alpha.tick"]


def test_every_printed_address_answers(running: Running) -> None:
    paths = re.findall(r"^  http://127\.0\.0\.1:\d+(/\S*)", "\n".join(running.lines), re.MULTILINE)
    known = {path: running.ask(path, headers={"Authorization": f"Bearer {TOKEN}"})[0].status for path in paths}
    assert {"/alpha/", "/beta/one/", "/errors/", "/health", "/metrics", "/console/"} <= set(known)
    assert set(known.values()) == {200}


def test_the_lines_of_a_system_are_printed_and_a_given_token_is_not(running: Running) -> None:
    assert f"  alpha: look at http://127.0.0.1:{running.port}/alpha/page" in running.lines
    assert TOKEN not in "\n".join(running.lines)


def test_parts_that_are_asked_for_are_served_without_the_others(tmp_path: Path) -> None:
    with Running(tmp_path, "beta", "--part", "two") as divided:
        assert divided.ask("/two/")[1] == "two below /two"
        assert divided.ask("/one/")[0].status == 404
        assert divided.stop(signal.SIGTERM)[0] == 0


def test_one_system_alone_stands_at_the_root_without_stand_ins(tmp_path: Path) -> None:
    with Running(tmp_path, "alpha", "--no-worker", "--no-public-metrics", ALPHA_SICK="yes") as alone:
        assert json.loads(alone.ask("/some/page")[1])["root_path"] == ""
        assert json.loads(alone.ask("/")[1])["path"] == "/"
        health_of(alone, lambda told: told["degraded"] == ["alpha.pulse"])
        assert alone.ask("/errors/ALPHA_TIRED")[0].status == 200
        assert alone.ask("/standins/outside/")[0].status == 404
        assert f"  alpha: look at http://127.0.0.1:{alone.port}/page" in alone.lines
        assert alone.ask("/metrics")[0].status == 401
        assert alone.stop(signal.SIGTERM)[0] == 0
        assert alone.life() == ["started", "stopped"]
