"""The runner and its runtime, over real HTTP: §3.5, and the lines of §4 that are theirs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.store import Store
from holdfast.testing.ports import free_port
from holdfast_systems.commerce.runner.api import time_for
from holdfast_systems.commerce.runner.usage import credits_of

from .live import OPERATOR, SERVICE, Live, running

RUN = {
    "runId": "run_1",
    "instanceId": "inst_1",
    "tenant": "u1",
    "flow": "agent",
    "input": "Hello",
    "sessionId": "inst_1:u1",
}
STREAM = {"Accept": "text/event-stream"}


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    """A system for each test: what one test lets fail opens no breaker for the next."""
    store = Store.open(f"sqlite:///{tmp_path / 'holdfast.db'}")
    store.migrate()
    with running(store, tmp_path, worker=False, runtime_timeout_s="20") as live:
        yield live
    store.close()


def counted(live: Live) -> dict[str, Any]:
    found: dict[str, Any] = live.http.get(live.standin("langflow") + "/health").json()
    return found


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line[5:]) for line in text.splitlines() if line.startswith("data:")]


def test_a_run_answers_with_its_output_and_what_it_costs(live: Live) -> None:
    reply = live.post("runner", "/v1/runs", {**RUN, "runId": "run_plain"}, token=SERVICE)
    assert reply.status_code == 200
    answer = reply.json()
    assert answer["runId"] == "run_plain"
    assert "Hello" in answer["output"]
    assert answer["usage"]["credits"] == credits_of(answer["output"])


def test_a_stream_brings_the_pieces_and_then_the_whole(live: Live) -> None:
    reply = live.post(
        "runner", "/v1/runs", {**RUN, "runId": "run_stream", "input": "/words 12"}, token=SERVICE, headers=STREAM
    )
    assert reply.headers["content-type"].startswith("text/event-stream")
    *pieces, end = events(reply.text)
    assert [piece["type"] for piece in pieces] == ["delta"] * 12
    assert "".join(piece["text"] for piece in pieces) == end["output"] == " ".join(["word"] * 12)
    assert end["usage"]["credits"] == 2


@pytest.mark.parametrize(
    ("words", "expected"), [(0, 1), (1, 2), (100, 2), (101, 3), (250, 4)], ids=lambda value: str(value)
)
def test_a_run_costs_one_credit_and_one_for_each_started_hundred_words(words: int, expected: int) -> None:
    assert credits_of(" ".join(["word"] * words)) == expected


@pytest.mark.parametrize("headers", [{}, STREAM], ids=["plain", "stream"])
def test_3_5_runner_retries_once_on_transport_errors(live: Live, headers: dict[str, str]) -> None:
    live.fault("langflow", reset=True, times=1)
    body = {**RUN, "runId": f"run_once_{len(headers)}"}
    assert live.post("runner", "/v1/runs", body, token=SERVICE, headers=headers).status_code == 200


@pytest.mark.parametrize("headers", [{}, STREAM], ids=["plain", "stream"])
def test_3_5_runner_makes_at_most_one_retry(live: Live, headers: dict[str, str]) -> None:
    before = counted(live)["requests"]
    live.fault("langflow", reset=True, times=2)
    body = {**RUN, "runId": f"run_twice_{len(headers)}"}
    reply = live.post("runner", "/v1/runs", body, token=SERVICE, headers=headers)
    assert reply.status_code == 503
    error = reply.json()["error"]
    assert (error["code"], error["details"]["mayHaveRun"]) == ("EXECUTION_UNAVAILABLE", True)
    assert counted(live)["requests"] == before, "a third attempt would have come through"


@pytest.mark.parametrize(
    ("status", "code", "may_have_run"),
    [
        (500, "UPSTREAM_ERROR", True),
        (502, "EXECUTION_UNAVAILABLE", True),
        (503, "EXECUTION_UNAVAILABLE", False),
        (504, "RUN_TIMEOUT", True),
        (429, "EXECUTION_UNAVAILABLE", False),
        (404, "UPSTREAM_ERROR", False),
        (403, "UPSTREAM_ERROR", False),
    ],
)
@pytest.mark.parametrize("headers", [{}, STREAM], ids=["plain", "stream"])
def test_3_5_runner_does_not_retry_what_the_runtime_answered(
    live: Live, headers: dict[str, str], status: int, code: str, may_have_run: bool
) -> None:
    live.fault("langflow", status=status, times=1)
    body = {**RUN, "runId": f"run_{status}_{len(headers)}"}
    reply = live.post("runner", "/v1/runs", body, token=SERVICE, headers=headers)
    error = reply.json()["error"]
    assert (error["code"], error["details"]["mayHaveRun"]) == (code, may_have_run)
    assert error["traceId"]
    # The fault was met once; a repeat would have been answered with 200.


@pytest.mark.parametrize("headers", [{}, STREAM], ids=["plain", "stream"])
def test_3_5_a_repeat_is_recognised_by_its_run_id(live: Live, headers: dict[str, str]) -> None:
    before = counted(live)
    live.fault("langflow", answer="cut_reply", times=1)
    body = {**RUN, "runId": f"run_repeat_{len(headers)}"}
    assert live.post("runner", "/v1/runs", body, token=SERVICE, headers=headers).status_code == 200
    after = counted(live)
    assert after["requests"] - before["requests"] == 2
    assert after["executions"] - before["executions"] == 1


def test_a_stream_that_breaks_after_its_first_piece_is_not_begun_again(live: Live) -> None:
    before = counted(live)["requests"]
    live.fault("langflow", answer="cut_stream", times=1)
    body = {**RUN, "runId": "run_cut", "input": "/words 10"}
    reply = live.post("runner", "/v1/runs", body, token=SERVICE, headers=STREAM)
    *pieces, last = events(reply.text)
    assert pieces
    assert last["type"] == "error"
    assert last["error"]["code"] == "EXECUTION_UNAVAILABLE"
    assert last["error"]["details"]["mayHaveRun"] is True
    assert counted(live)["requests"] == before + 1


@pytest.mark.parametrize(("answer", "headers"), [("wrong", {}), ("error", {}), ("error", STREAM)])
def test_a_bad_answer_of_the_runtime_is_an_upstream_error(live: Live, answer: str, headers: dict[str, str]) -> None:
    live.fault("langflow", answer=answer, times=1)
    body = {**RUN, "runId": f"run_{answer}_{len(headers)}", "input": "/words 1"}
    reply = live.post("runner", "/v1/runs", body, token=SERVICE, headers=headers)
    assert reply.status_code == 502
    assert reply.json()["error"]["code"] == "UPSTREAM_ERROR"
    assert "graph" not in reply.text, "the runtime's own words"


def test_a_flow_that_fails_in_the_middle_of_its_answer_says_so_in_the_last_event(live: Live) -> None:
    live.fault("langflow", answer="error", times=1)
    body = {**RUN, "runId": "run_middle", "input": "/words 10"}
    *pieces, last = events(live.post("runner", "/v1/runs", body, token=SERVICE, headers=STREAM).text)
    assert len(pieces) == 5
    assert (last["type"], last["error"]["code"]) == ("error", "UPSTREAM_ERROR")
    assert last["error"]["traceId"]


def test_garbage_of_the_runtime_is_an_upstream_error(live: Live) -> None:
    live.fault("langflow", garbage=True, times=1)
    reply = live.post("runner", "/v1/runs", {**RUN, "runId": "run_garbage"}, token=SERVICE)
    assert (reply.status_code, reply.json()["error"]["code"]) == (502, "UPSTREAM_ERROR")


def test_4_runner_to_runtime_is_given_up_before_the_callers_deadline(live: Live) -> None:
    live.fault("langflow", hang=True)
    headers = {"X-Deadline-Ms": "1500"}
    reply = live.post("runner", "/v1/runs", {**RUN, "runId": "run_late"}, token=SERVICE, headers=headers)
    assert (reply.status_code, reply.json()["error"]["code"]) == (504, "RUN_TIMEOUT")


def test_4_a_run_has_the_time_of_its_offering(live: Live) -> None:
    live.fault("langflow", hang=True)
    reply = live.post("runner", "/v1/runs", {**RUN, "runId": "run_short", "timeoutS": 0.5}, token=SERVICE)
    assert (reply.status_code, reply.json()["error"]["code"]) == (504, "RUN_TIMEOUT")


@pytest.mark.parametrize(
    ("own", "asked", "left", "expected"),
    [
        (60.0, None, float("inf"), 60.0),
        (60.0, 60.0, 60.0, 59.5),
        (60.0, 30.0, 60.0, 30.0),
        (60.0, 90.0, float("inf"), 60.0),
        (60.0, None, 1.0, 0.9),
        (60.0, None, 0.0, 0.0),
    ],
)
def test_4_sixty_seconds_inside_sixty_seconds_cannot_outlive_each_other(
    own: float, asked: float | None, left: float, expected: float
) -> None:
    assert time_for(own, asked, left) == pytest.approx(expected)


@pytest.mark.parametrize("token", [{}, {"Authorization": "Bearer of something else"}], ids=["none", "wrong"])
def test_1_2_401_without_a_valid_token(live: Live, token: dict[str, str]) -> None:
    reply = live.post("runner", "/v1/runs", RUN, token=token)
    assert (reply.status_code, reply.json()["error"]["code"]) == (401, "UNAUTHORIZED")


@pytest.mark.parametrize(
    "wrong",
    [{"flow": "../../secret"}, {"input": ""}, {"timeoutS": -1}, {"more": 1}, {"runId": "a b"}, {"input": 7}],
    ids=lambda wrong: next(iter(wrong)),
)
def test_1_2_400_names_the_field(live: Live, wrong: dict[str, Any]) -> None:
    reply = live.post("runner", "/v1/runs", {**RUN, **wrong}, token=SERVICE)
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "INVALID_REQUEST")
    assert next(iter(wrong)) in str(reply.json()["error"]["details"])


def test_a_runtime_that_is_down_is_execution_unavailable(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path / 'holdfast.db'}")
    store.migrate()
    url = f"http://127.0.0.1:{free_port()}"
    with running(store, tmp_path, worker=False, langflow_url=url) as live:
        reply = live.post("runner", "/v1/runs", RUN, token=OPERATOR)
    store.close()
    assert (reply.status_code, reply.json()["error"]["code"]) == (503, "EXECUTION_UNAVAILABLE")
    assert reply.json()["error"]["details"]["mayHaveRun"] is False
    assert int(reply.headers["retry-after"]) >= 1


# -- a real Langflow, where there is one -----------------------------------------------------------------------------

REAL_URL, REAL_KEY, REAL_FLOW = (
    os.environ.get(f"HOLDFAST_TEST_LANGFLOW_{name}", "") for name in ("URL", "KEY", "FLOW")
)


@pytest.mark.skipif(
    not REAL_URL, reason="NOT TRIED WITH A REAL LANGFLOW: set HOLDFAST_TEST_LANGFLOW_URL, _KEY and _FLOW"
)
@pytest.mark.parametrize("headers", [{}, STREAM], ids=["plain", "stream"])
def test_a_real_langflow_answers_as_its_stand_in_does(tmp_path: Path, headers: dict[str, str]) -> None:
    store = Store.open(f"sqlite:///{tmp_path / 'holdfast.db'}")
    store.migrate()
    with running(store, tmp_path, worker=False, langflow_url=REAL_URL, langflow_key=REAL_KEY) as live:
        reply = live.post("runner", "/v1/runs", {**RUN, "flow": REAL_FLOW}, token=SERVICE, headers=headers)
    store.close()
    assert reply.status_code == 200, reply.text
    answer = events(reply.text)[-1] if headers else reply.json()
    assert answer["output"]
    assert answer["usage"]["credits"] == credits_of(answer["output"])
