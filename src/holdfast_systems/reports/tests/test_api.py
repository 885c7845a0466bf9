"""The routes as clients meet them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from holdfast.catalog.core import DATABASE_ERROR
from holdfast.operate.audit_log import entries

from .system import CSV, SCHEMA, SCHEMA_ID, TEMPLATE, Running, run_body

Site = Callable[..., Running]


@pytest.fixture
def here(solo: Site) -> Running:
    served = solo()
    served.define()
    return served


def test_a_run_is_submitted_done_and_read(site: Site) -> None:
    here = site()
    here.define()
    run = here.done(run_body("run_whole"))
    assert run["status"] == "SUCCEEDED"
    assert run["error"] is None
    for step in run["steps"].values():
        assert step["state"] == "SUCCEEDED"
        assert step["startedAt"] <= step["finishedAt"]
        assert step["outputs"]["gcs_uri"].startswith("file://")
        assert not {"leaseUntil", "leaseOwner", "error"} & step.keys()
    assert run["usage"] == run["steps"]["report"]["usage"]
    report = here.http.get("/v1/flow-runs/run_whole/steps/report/report").json()
    assert "rose by" in report["summary"]["markdown"]
    assert report["details"]["trend"] == "up"
    assert (report["metadata"]["runId"], report["metadata"]["stepId"]) == ("run_whole", "report")
    call = here.standin.calls[0]
    assert "2026-01-30T00:00:00Z,130,134,128,132,30000" in call["prompt"]
    assert call["images"] == 2
    assert sorted(here.artifacts()) == [
        "flow_runs/run_whole/charts.json",
        "flow_runs/run_whole/charts/candles.png",
        "flow_runs/run_whole/charts/volume.png",
        "flow_runs/run_whole/ohlcv.json",
        "flow_runs/run_whole/report.json",
    ]


def test_the_same_run_again_is_the_same_answer_and_another_is_refused(here: Running) -> None:
    body = run_body("run_1")
    first = here.http.post("/v1/flow-runs", json=body)
    assert first.status_code == 201
    states = {name: step["state"] for name, step in first.json()["steps"].items()}
    assert states == {"ohlcv": "READY", "charts": "PENDING", "report": "PENDING"}
    with here.working():
        here.ended("run_1")
    again = here.http.post("/v1/flow-runs", json=body)
    assert (again.status_code, again.json()) == (201, first.json())
    other = here.http.post("/v1/flow-runs", json={**body, "budgetUsd": 1})
    assert (other.status_code, other.json()["error"]["code"]) == (409, "RUN_ID_TAKEN")
    assert here.standin.call_count == 1


def test_a_submission_without_an_id_is_repeated_under_its_idempotency_key(here: Running) -> None:
    replies = [
        here.http.post("/v1/flow-runs", json=run_body(), headers={"Idempotency-Key": "submit-7"}) for _ in range(2)
    ]
    assert [reply.status_code for reply in replies] == [201, 201]
    assert replies[0].json()["runId"] == replies[1].json()["runId"]
    assert len(here.http.get("/v1/flow-runs").json()["flowRuns"]) == 1


def test_fields_that_mean_nothing_here_are_kept_and_empty_ones_of_ours_are_not(here: Running) -> None:
    body = run_body("run_1", owner="ann")
    body["steps"]["ohlcv"] |= {"title": "Prices", "state": None, "outputs": None}
    first = here.http.post("/v1/flow-runs", json=body).json()
    assert (first["owner"], first["steps"]["ohlcv"]["title"], first["steps"]["ohlcv"]["state"]) == (
        "ann",
        "Prices",
        "READY",
    )
    assert "outputs" not in first["steps"]["ohlcv"]
    with here.working():
        assert here.ended("run_1")["status"] == "SUCCEEDED"
    assert here.http.post("/v1/flow-runs", json=body).json() == first


REFUSED: dict[str, Any] = {
    "no object": [],
    "null": None,
    "no steps": {},
    "steps that are a list": {"steps": []},
    "empty steps": {"steps": {}},
    "a bad run id": {**run_body(), "runId": "../x"},
    "a run id that is a number": {**run_body(), "runId": 7},
    "a bad step id": {"steps": {"a b": {"stepType": "OHLCV_IMPORT"}}},
    "a step without a type": {"steps": {"a": {}}},
    "a step of an unknown type": {"steps": {"a": {"stepType": "MAGIC"}}},
    "a step that is text": {"steps": {"a": "OHLCV_IMPORT"}},
    "a step with a state": {"steps": {"a": {"stepType": "OHLCV_IMPORT", "state": "SUCCEEDED"}}},
    "a step with outputs": {"steps": {"a": {"stepType": "OHLCV_IMPORT", "outputs": {"gcs_uri": "file:///etc"}}}},
    "inputs that are a list": {"steps": {"a": {"stepType": "OHLCV_IMPORT", "inputs": []}}},
    "a dependency that is not there": {"steps": {"a": {"stepType": "OHLCV_IMPORT", "dependsOn": ["b"]}}},
    "dependencies that are text": {"steps": {"a": {"stepType": "OHLCV_IMPORT", "dependsOn": "a"}}},
    "a cycle": {"steps": {name: {"stepType": "OHLCV_IMPORT", "dependsOn": [other]} for name, other in ("ab", "ba")}},
    "too many steps": {"steps": {f"s{number}": {"stepType": "OHLCV_IMPORT"} for number in range(51)}},
    "a run that has ended": {**run_body(), "status": "SUCCEEDED"},
    "a run with an error": {**run_body(), "error": {"code": "X"}},
    "a negative budget": {**run_body(), "budgetUsd": -1},
    "a budget that is text": {**run_body(), "budgetUsd": "1"},
}


def test_what_is_not_a_flow_run_at_all_is_refused_at_submission(here: Running) -> None:
    for why, body in REFUSED.items():
        reply = here.http.post("/v1/flow-runs", json=body)
        assert (reply.status_code, reply.json()["error"]["code"]) == (422, "FLOW_RUN_INVALID"), why
    assert here.http.get("/v1/flow-runs").json()["flowRuns"] == []


def test_a_run_that_is_too_large_is_refused(here: Running) -> None:
    reply = here.http.post("/v1/flow-runs", json=run_body(csv=CSV + "x" * 2_000_000))
    assert (reply.status_code, reply.json()["error"]["code"]) == (413, "PAYLOAD_TOO_LARGE")


def test_nothing_is_answered_without_the_token(here: Running) -> None:
    with httpx.Client(base_url=here.http.base_url, verify=False) as stranger:
        for method, path in (
            ("GET", "/v1/flow-runs"),
            ("POST", "/v1/flow-runs"),
            ("GET", "/v1/flow-runs/run_1"),
            ("POST", "/v1/flow-runs/run_1/steps/report/rerun"),
            ("GET", "/v1/flow-runs/run_1/steps/report/report"),
            ("GET", "/v1/flow-runs/run_1/steps/report/report.html"),
            ("PUT", "/v1/prompts/daily"),
            ("PUT", "/v1/schemas/llm_report_output_v1"),
            ("POST", "/v1/events"),
            ("GET", "/v1/openapi.json"),
        ):
            reply = stranger.request(method, path)
            assert (reply.status_code, reply.json()["error"]["code"]) == (401, "UNAUTHORIZED"), path


def test_runs_are_listed_by_cursor_newest_first(here: Running) -> None:
    for number in range(5):
        here.submit(run_body(f"run_{number}"))
    first = here.http.get("/v1/flow-runs", params={"count": 3}).json()
    second = here.http.get("/v1/flow-runs", params={"count": 3, "after": first["next"]}).json()
    assert [run["runId"] for run in first["flowRuns"] + second["flowRuns"]] == [f"run_{n}" for n in (4, 3, 2, 1, 0)]
    assert second["next"] is None
    assert here.http.get("/v1/flow-runs", params={"after": "nonsense"}).status_code == 400
    assert here.http.get("/v1/flow-runs", params={"count": 0}).status_code == 400


def test_definitions_have_versions_and_the_newest_counts_for_new_runs(here: Running) -> None:
    assert here.http.put("/v1/prompts/daily", json={"template": TEMPLATE}).json() == {"promptId": "daily", "version": 1}
    old = here.submit(run_body("run_old"))
    assert here.http.put("/v1/prompts/daily", json={"template": f"Newer. {TEMPLATE}"}).status_code == 201
    new = here.submit(run_body("run_new"))
    with here.working():
        runs = [here.ended(run_id) for run_id in (old, new)]
    assert [run["steps"]["report"]["pinned"]["promptVersion"] for run in runs] == [1, 2]
    assert sorted(call["prompt"].startswith("Newer.") for call in here.standin.calls) == [False, True]
    assert here.http.get("/v1/prompts/daily", params={"version": 1}).json()["template"] == TEMPLATE
    assert here.http.get(f"/v1/schemas/{SCHEMA_ID}").json()["jsonSchema"] == SCHEMA
    assert here.http.get("/v1/prompts/nightly").json()["error"]["code"] == "PROMPT_NOT_FOUND"
    assert here.http.get("/v1/schemas/nothing").json()["error"]["code"] == "SCHEMA_NOT_FOUND"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/prompts/daily", {}),
        ("/v1/prompts/daily", {"template": ""}),
        ("/v1/prompts/daily", {"template": 1}),
        ("/v1/prompts/da%20ily", {"template": "x"}),
        ("/v1/schemas/llm_report_output_v1", {"jsonSchema": []}),
        ("/v1/schemas/llm_report_output_v1", {"schema": {}}),
    ],
)
def test_definitions_that_are_none_are_refused(here: Running, path: str, body: Any) -> None:
    reply = here.http.put(path, json=body)
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "VALIDATION_ERROR")


def test_a_rerun_is_a_new_step_and_the_old_one_is_untouched(here: Running) -> None:
    here.standin.switch("wrong")
    run = here.done(run_body("run_1"))
    assert run["status"] == "FAILED"
    here.standin.switch(None)
    reply = here.http.post("/v1/flow-runs/run_1/steps/report/rerun")
    assert (reply.status_code, reply.json()["stepId"]) == (201, "report_r2")
    assert reply.json()["flowRun"]["status"] == "RUNNING"
    with here.working():
        after = here.ended("run_1")
    assert after["status"] == "SUCCEEDED"
    assert after["steps"]["report"] == run["steps"]["report"]
    fresh = after["steps"]["report_r2"]
    assert (fresh["state"], fresh["rerunOf"]) == ("SUCCEEDED", "report")
    assert fresh["outputs"]["gcs_uri"].endswith("/report_r2.json")
    # A rerun of a rerun, or the first step once more, is the next number.
    assert here.http.post("/v1/flow-runs/run_1/steps/report_r2/rerun").json()["stepId"] == "report_r3"
    refused = here.http.post("/v1/flow-runs/run_1/steps/report_r3/rerun")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "RERUN_REFUSED")
    for path, code in (
        ("/v1/flow-runs/run_1/steps/nobody/rerun", "STEP_NOT_FOUND"),
        ("/v1/flow-runs/run_9/steps/report/rerun", "FLOW_RUN_NOT_FOUND"),
    ):
        assert here.http.post(path).json()["error"]["code"] == code


def test_what_operators_do_is_in_the_audit(site: Site) -> None:
    here = site()
    here.define()
    here.http.put(f"/v1/schemas/{SCHEMA_ID}", json={"jsonSchema": SCHEMA})
    here.standin.switch("wrong")
    here.done(run_body("run_1"))
    here.http.post("/v1/flow-runs/run_1/steps/report/rerun?reason=the+model+is+back")
    here.http.post("/v1/flow-runs/run_1/steps/report_r2/rerun")
    found = list(here.store.atomic(entries, write=False))[::-1]
    assert [(row.verb, row.subject, row.reason, row.result) for row in found] == [
        ("put", "prompt:daily", None, "done"),
        ("put", f"schema:{SCHEMA_ID}", None, "done"),
        ("put", f"schema:{SCHEMA_ID}", None, "NOTHING_CHANGED"),
        ("rerun", "step:run_1/report", "the model is back", "done"),
        ("rerun", "step:run_1/report_r2", None, "RERUN_REFUSED"),
    ]
    assert {(row.actor_kind, row.actor) for row in found} == {("api", "operator")}


def test_a_rerun_whose_row_cannot_be_written_does_not_happen(here: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    here.standin.switch("wrong")
    here.done(run_body("run_1"))

    def broken(*_: Any, **__: Any) -> None:
        raise DATABASE_ERROR()

    with monkeypatch.context() as patched:
        patched.setattr("holdfast.operate.audit.write", broken)
        assert here.http.post("/v1/flow-runs/run_1/steps/report/rerun").status_code == 503
    assert "report_r2" not in here.http.get("/v1/flow-runs/run_1").json()["steps"]


def test_a_step_after_one_that_was_run_again_uses_the_new_one(here: Running) -> None:
    body = run_body("run_1", csv="time,open,high,low,close,volume\n")
    assert here.done(body)["steps"]["charts"]["error"]["code"] == "DEPENDENCY_FAILED"
    assert here.http.post("/v1/flow-runs/run_1/steps/ohlcv/rerun").json()["stepId"] == "ohlcv_r2"
    document = here.http.post("/v1/flow-runs/run_1/steps/charts/rerun").json()["flowRun"]
    assert document["steps"]["charts_r2"]["dependsOn"] == ["ohlcv_r2"]
    assert document["steps"]["charts_r2"]["inputs"]["ohlcvStepId"] == "ohlcv_r2"


def test_a_report_is_shown_with_its_charts_and_can_do_nothing(here: Running) -> None:
    here.done(run_body("run_1"))
    path = here.folder / "artifacts" / "flow_runs" / "run_1" / "report.json"
    links = "[x](javascript:alert(1)) ![p](http://127.0.0.1:9/p.png)"
    hostile = f"# Hi\n\n<script>alert(1)</script> {links} <img src=x onerror=y>"
    report = json.loads(path.read_text())
    report["summary"]["markdown"] = hostile
    path.chmod(0o600)
    path.write_text(json.dumps(report))
    page = here.http.get("/v1/flow-runs/run_1/steps/report/report.html")
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "<h1>Hi</h1>" in page.text
    assert page.text.count("data:image/png;base64,") == 2
    assert "<script" not in page.text
    assert 'href="javascript' not in page.text
    assert "127.0.0.1:9" not in page.text.replace("![p](", "")
    assert "<img src=x" not in page.text


def test_a_report_that_is_not_there_yet_is_told_so(here: Running) -> None:
    here.submit(run_body("run_1"))
    for path in ("report", "report.html"):
        reply = here.http.get(f"/v1/flow-runs/run_1/steps/report/{path}")
        assert (reply.status_code, reply.json()["error"]["code"]) == (409, "REPORT_NOT_READY")
    assert here.http.get("/v1/flow-runs/run_1/steps/nobody/report").json()["error"]["code"] == "STEP_NOT_FOUND"
    assert here.http.get("/v1/flow-runs/run_9/steps/report/report").json()["error"]["code"] == "FLOW_RUN_NOT_FOUND"


def test_every_route_is_described(here: Running) -> None:
    described = here.http.get("/v1/openapi.json").json()
    assert {"/v1/flow-runs", "/v1/events", "/v1/flow-runs/{run_id}/steps/{step_id}/rerun"} <= described["paths"].keys()
    answers = described["paths"]["/v1/flow-runs"]["post"]["responses"]
    assert {"201", "409", "422", "503"} <= answers.keys()
