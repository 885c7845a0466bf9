"""Every code of the seed, produced through the public surface and read there."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from holdfast.store import Store

from .system import CSV, PROFILE, SCHEMA, SCHEMA_ID, Running, run_body, running

Site = Callable[..., Running]


def step_error(run: dict[str, Any], step_id: str = "report") -> str:
    """The code of a step that failed; the run has failed with it, and holds no error of its own."""
    assert run["status"] == "FAILED", run
    assert run["error"] is None
    step = run["steps"][step_id]
    assert step["state"] == "FAILED", step
    assert step["error"]["message"]
    assert step["startedAt"] <= step["finishedAt"]
    assert "outputs" not in step
    return str(step["error"]["code"])


def without(schema: dict[str, Any], *path: str, drop: str) -> dict[str, Any]:
    """The schema without one of its requirements."""
    changed = deepcopy(schema)
    place = changed
    for part in path:
        place = place[part]
    place["required"] = [name for name in place["required"] if name != drop]
    return changed


PROFILES: dict[str, dict[str, Any]] = {
    "another type than JSON": {"responseMimeType": "text/markdown"},
    "no type": {"responseMimeType": None},
    "two candidates": {"candidateCount": 2},
    "no candidates": {"candidateCount": 0},
    "candidates that are not a number": {"candidateCount": True},
    "no model": {"model": None},
    "an empty model": {"model": "  "},
    "a model without structured output": {"model": "gemma-3-27b"},
    "no structured output": {"structuredOutput": None},
    "no schema id": {"structuredOutput": {}},
    "a schema id without a version": {"structuredOutput": {"schemaId": "llm_report_output"}},
    "a schema id with a bad version": {"structuredOutput": {"schemaId": "llm_report_output_vX"}},
    "a schema of another name": {"structuredOutput": {"schemaId": "my_schema_v1"}},
    "a schema that is not there": {"structuredOutput": {"schemaId": "llm_report_output_v99"}},
    "a temperature out of range": {"temperature": 9},
    "no room for an answer": {"maxOutputTokens": 0},
}
PROPERTIES = SCHEMA["properties"]
SCHEMAS: dict[str, Any] = {
    "no summary": without(SCHEMA, drop="summary"),
    "no details": without(SCHEMA, drop="details"),
    "no markdown": without(SCHEMA, "properties", "summary", drop="markdown"),
    "not a schema": {"type": "a kind that does not exist"},
    "a reference that leads out": {**SCHEMA, "properties": {**PROPERTIES, "more": {"$ref": "http://127.0.0.1:9/"}}},
    "a pattern that cannot be bounded": {**SCHEMA, "properties": {**PROPERTIES, "more": {"pattern": "(?=a)b"}}},
    "the reserved name": {**SCHEMA, "properties": {**PROPERTIES, "metadata": {"type": "object"}}},
}
SCHEMA_IDS = {why: f"llm_report_output_v{number}" for number, why in enumerate(SCHEMAS, 10)}
INPUTS: dict[str, dict[str, Any]] = {
    "no market data": {"ohlcvStepId": None},
    "no charts": {"chartsManifestStepId": None},
    "market data of a step that is not there": {"ohlcvStepId": "nobody"},
    "charts of a step of another type": {"chartsManifestStepId": "ohlcv"},
    "charts of a step that has made nothing": {"chartsManifestStepId": "late"},
    "a previous report that is not there": {"previousReportStepIds": ["nobody"]},
    "a previous report that is none": {"previousReportStepIds": ["ohlcv"]},
    "previous reports that are not a list": {"previousReportStepIds": "report"},
}
TABLES = {
    "no rows": "",
    "a row that is too short": "2026-01-01,1,2,1,2",
    "no number": "2026-01-01,1,2,1,x,3",
    "not finite": "2026-01-01,1,nan,1,1,3",
    "no time": "soon,1,2,1,2,3",
    "times that go back": "2026-01-02,1,2,1,2,3\n2026-01-01,1,2,1,2,3",
    "high below close": "2026-01-01,1,2,1,3,3",
    "a price that is not positive": "2026-01-01,0,2,0,1,3",
    "negative volume": "2026-01-01,1,2,1,2,-3",
}
HEADER = CSV.splitlines()[0]


def named(kind: str, why: str) -> str:
    return f"{kind}_{why.replace(' ', '_')}"[:64]


def report_step(**changes: Any) -> dict[str, Any]:
    return deepcopy(run_body(**changes)["steps"]["report"])


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One run with a step for every rule, done once: its steps, and how often the model was called."""
    folder = tmp_path_factory.mktemp("judged")
    store = Store.open(f"sqlite:///{folder / 'judged.db'}")
    store.migrate()
    with running(store, folder / "reports", STEP_ATTEMPTS_MAX="1") as here:
        here.define()
        for why, schema in SCHEMAS.items():
            here.define(schema, SCHEMA_IDS[why])
        body = run_body()
        steps = body["steps"]
        for why, profile in PROFILES.items():
            steps[named("profile", why)] = report_step(profile=profile)
        for why, schema_id in SCHEMA_IDS.items():
            steps[named("schema", why)] = report_step(profile={"structuredOutput": {"schemaId": schema_id}})
        for why, inputs in INPUTS.items():
            steps[named("inputs", why)] = report_step(report=inputs)
        # It becomes ready when all others have ended.
        steps["late"] = {"stepType": "CHARTS_MANIFEST", "dependsOn": [step for step in steps if step != "report"][:9]}
        steps["no_llm"] = report_step(report={"llm": None})
        steps["no_profile"] = report_step(report={"llm": {"promptId": "daily"}})
        steps["no_prompt"] = report_step(report={"llm": {"promptId": "nightly", "llmProfile": PROFILE}})
        steps["no_inputs"] = {"stepType": "LLM_REPORT", "dependsOn": ["charts"]}
        run = here.done(body)
        calls = here.standin.call_count
        tables = {
            named("table", why): {"stepType": "OHLCV_IMPORT", "inputs": {"csv": f"{HEADER}\n{table}"}}
            for why, table in TABLES.items()
        }
        tables["another_header"] = {"stepType": "OHLCV_IMPORT", "inputs": {"csv": CSV.replace("time,", "date,")}}
        tables["both"] = {"stepType": "OHLCV_IMPORT", "inputs": {"csv": CSV, "rows": []}}
        rows = [dict(zip(HEADER.split(","), line.split(","), strict=True)) for line in CSV.splitlines()[1:]]
        tables["rows"] = {"stepType": "OHLCV_IMPORT", "inputs": {"rows": rows}}
        tables["lists"] = {"stepType": "OHLCV_IMPORT", "inputs": {"rows": [[1767225600, 1, 2, 1, 2, 3]]}}
        tables["after"] = {"stepType": "CHARTS_MANIFEST", "dependsOn": ["both"], "inputs": {"ohlcvStepId": "both"}}
        imported = here.done({"steps": tables})
    store.close()
    return {"steps": {**run["steps"], **imported["steps"]}, "calls": calls, "run": run}


def code_of(judged: dict[str, Any], step_id: str) -> str:
    step = judged["steps"][step_id]
    assert step["state"] == "FAILED", step
    assert step["error"]["message"]
    assert "outputs" not in step
    return str(step["error"]["code"])


@pytest.mark.parametrize("why", PROFILES)
def test_a_profile_that_cannot_be_used_is_llm_profile_invalid(judged: dict[str, Any], why: str) -> None:
    assert code_of(judged, named("profile", why)) == "LLM_PROFILE_INVALID"


@pytest.mark.parametrize("why", SCHEMAS)
def test_a_schema_that_cannot_be_used_is_llm_profile_invalid(judged: dict[str, Any], why: str) -> None:
    assert code_of(judged, named("schema", why)) == "LLM_PROFILE_INVALID"


@pytest.mark.parametrize("why", INPUTS)
def test_inputs_that_cannot_be_used_are_invalid_step_inputs(judged: dict[str, Any], why: str) -> None:
    assert code_of(judged, named("inputs", why)) == "INVALID_STEP_INPUTS"


@pytest.mark.parametrize("why", TABLES)
def test_market_data_that_cannot_be_used_is_invalid_step_inputs(judged: dict[str, Any], why: str) -> None:
    assert code_of(judged, named("table", why)) == "INVALID_STEP_INPUTS"


def test_each_other_rule_has_its_code(judged: dict[str, Any]) -> None:
    wanted = {
        "no_llm": "LLM_PROFILE_INVALID",
        "no_profile": "LLM_PROFILE_INVALID",
        "no_prompt": "PROMPT_NOT_FOUND",
        "no_inputs": "INVALID_STEP_INPUTS",
        "another_header": "INVALID_STEP_INPUTS",
        "both": "INVALID_STEP_INPUTS",
        "after": "DEPENDENCY_FAILED",
        "late": "DEPENDENCY_FAILED",
    }
    assert {step_id: code_of(judged, step_id) for step_id in wanted} == wanted
    assert [judged["steps"][name]["state"] for name in ("rows", "lists", "report")] == ["SUCCEEDED"] * 3


def test_no_step_that_breaks_a_rule_is_paid_for(judged: dict[str, Any]) -> None:
    assert judged["calls"] == 1, "only the one report whose settings are right"
    assert judged["run"]["usage"]["modelCalls"] == 1


@pytest.fixture
def here(solo: Site) -> Running:
    served = solo()
    served.define()
    return served


def test_a_wrong_hash_of_the_schema_is_logged_and_changes_nothing_and_a_schema_may_refer_to_itself(
    here: Running, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "holdfast.reports")
    properties = {**PROPERTIES, "summary": {"$ref": "#/$defs/summary"}}
    here.define({**SCHEMA, "properties": properties, "$defs": {"summary": PROPERTIES["summary"]}})
    run = here.done(run_body(profile={"structuredOutput": {"schemaId": SCHEMA_ID, "schemaSha256": "not its hash"}}))
    assert run["status"] == "SUCCEEDED"
    assert "not its hash is not the schema that the run names" in caplog.text


# -- the model -----------------------------------------------------------------------------------------------------


FAULTS: list[tuple[dict[str, Any], str, int]] = [
    ({"status": 500}, "GEMINI_REQUEST_FAILED", 1),
    ({"status": 503}, "GEMINI_REQUEST_FAILED", 1),
    ({"reset": True}, "GEMINI_REQUEST_FAILED", 1),
    ({"garbage": True}, "GEMINI_REQUEST_FAILED", 1),
    ({"status": 429}, "RATE_LIMITED", 3),
    ({"status": 429, "retry_after": 0}, "RATE_LIMITED", 3),
    ({"status": 404}, "LLM_PROFILE_INVALID", 1),
    ({"status": 403}, "LLM_PROFILE_INVALID", 1),
]


def test_a_model_that_does_not_answer_ends_the_step(here: Running) -> None:
    run_id = here.done()["runId"]
    door = f"{here.address}/standins/gemini/faults"
    for number, (fault, code, calls) in enumerate(FAULTS, 2):
        assert here.http.put(door, json=fault).status_code == 200
        before = here.standin.faults.met
        with here.working():
            reply = here.http.post(f"/v1/flow-runs/{run_id}/steps/report/rerun")
            assert reply.json()["stepId"] == f"report_r{number}"
            run = here.ended(run_id)
        assert step_error(run, f"report_r{number}") == code, fault
        # The client's own retries are off: each call is one that we have decided on.
        assert here.standin.faults.met - before == calls, fault
    assert run["usage"]["modelCalls"] == 1
    assert run["steps"]["report"]["state"] == "SUCCEEDED"


def test_a_model_that_hangs_is_given_up_in_time(solo: Site) -> None:
    here = solo(GEMINI_TIMEOUT_S="0.3")
    here.define()
    here.standin.faults.switch(hang=True)
    assert step_error(here.done()) == "GEMINI_REQUEST_FAILED"
    assert here.standin.faults.met == 1


def test_a_rate_limit_that_ends_soon_is_waited_for(here: Running) -> None:
    here.standin.faults.switch(status=429, times=2)
    run = here.done()
    assert run["status"] == "SUCCEEDED"
    assert run["usage"]["modelCalls"] == 1


@pytest.mark.parametrize(
    ("answer", "code", "calls"),
    [
        ("safety_block", "LLM_SAFETY_BLOCK", 1),
        ("cut", "INVALID_STRUCTURED_OUTPUT", 2),
        ("wrong", "INVALID_STRUCTURED_OUTPUT", 2),
    ],
)
def test_the_models_own_ways_to_fail_are_told_apart(here: Running, answer: str, code: str, calls: int) -> None:
    assert here.http.put(f"{here.address}/standins/gemini/faults", json={"answer": answer}).json() == {"answer": answer}
    run = here.done()
    assert step_error(run) == code
    # One repair attempt, for an answer that is wrong and not for one that is blocked; all of it is paid for.
    assert here.standin.call_count == calls == run["steps"]["report"]["usage"]["modelCalls"]
    assert run["usage"]["costUsd"] > 0


def test_an_answer_that_is_wrong_once_is_repaired_in_the_same_invocation(here: Running) -> None:
    here.http.put(f"{here.address}/standins/gemini/faults", json={"answer": "wrong_once"})
    run = here.done()
    assert run["status"] == "SUCCEEDED"
    assert run["steps"]["report"]["attempts"] == 1
    assert run["usage"]["modelCalls"] == 2
    assert "does not have the required form" in here.standin.calls[-1]["prompt"]
    assert here.http.get(f"{here.address}/standins/gemini/faults").json() == {}


def test_without_time_for_a_repair_there_is_none(solo: Site) -> None:
    here = solo(REPAIR_MIN_S="10000")
    here.define()
    here.standin.switch("wrong")
    assert step_error(here.done()) == "INVALID_STRUCTURED_OUTPUT"
    assert here.standin.call_count == 1


def test_a_budget_refuses_the_next_call(here: Running) -> None:
    run = here.done(run_body(budgetUsd=0))
    assert step_error(run) == "BUDGET_EXCEEDED"
    assert here.standin.call_count == 0
    body = run_body(budgetUsd=0.000001)
    body["steps"]["second"] = deepcopy(body["steps"]["report"]) | {"dependsOn": ["report"]}
    run = here.done(body)
    assert run["steps"]["report"]["state"] == "SUCCEEDED"
    assert step_error(run, "second") == "BUDGET_EXCEEDED"
    assert here.standin.call_count == 1


# -- the storage ---------------------------------------------------------------------------------------------------


def test_a_storage_that_cannot_be_written_is_gcs_write_failed(here: Running) -> None:
    (here.folder / "artifacts").mkdir(exist_ok=True)
    (here.folder / "artifacts" / "flow_runs").write_text("in the way")
    run = here.done()
    assert step_error(run, "ohlcv") == "GCS_WRITE_FAILED"


def test_something_else_under_our_name_is_a_conflict_and_is_not_adopted(here: Running) -> None:
    folder = here.folder / "artifacts" / "flow_runs" / "run_taken"
    folder.mkdir(parents=True)
    foreign = folder / "report.json"
    foreign.write_text('{"summary": {"markdown": "foreign"}, "details": {"trend": "up"}}')
    run = here.done(run_body("run_taken"))
    assert step_error(run) == "ARTIFACT_CONFLICT"
    assert "foreign" in foreign.read_text()
    assert here.standin.call_count == 0, "what cannot be stored is not paid for"


# -- nothing to do -------------------------------------------------------------------------------------------------


def test_an_event_of_a_run_that_is_not_there_is_flow_run_not_found(here: Running) -> None:
    assert here.result("run_unknown") == "FLOW_RUN_NOT_FOUND"
    reply = here.http.get("/v1/flow-runs/run_unknown")
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "FLOW_RUN_NOT_FOUND")


def test_an_event_of_a_run_that_has_ended_is_no_ready_step(here: Running) -> None:
    run = here.done()
    before = here.run(run["runId"])
    assert [here.result(run["runId"]) for _ in range(3)] == ["NO_READY_STEP"] * 3
    assert here.run(run["runId"]) == before
    assert here.standin.call_count == 1
