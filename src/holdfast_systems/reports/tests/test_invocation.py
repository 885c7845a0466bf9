"""One invocation: claims, races, split brain and what is told, on each engine."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from holdfast.artifact import ARTIFACT_FAULTS
from holdfast.base import REAL, bus, utc_text
from holdfast.catalog import CORE, Failure
from holdfast.store import Store
from holdfast.watch.meter import Meter
from holdfast_systems.reports import charts
from holdfast_systems.reports.faults import FIRESTORE_UNAVAILABLE, GCS_WRITE_FAILED, GEMINI_REQUEST_FAILED, REPORTS
from holdfast_systems.reports.model import ABSENT

from .scene import Scene
from .system import run_body

RACERS = 64
STORAGE_UNAVAILABLE = ARTIFACT_FAULTS["STORAGE_UNAVAILABLE"]


@pytest.fixture
def scene(store: Store, tmp_path: Path) -> Scene:
    return Scene(store, tmp_path)


@pytest.fixture
def make(store: Store, tmp_path: Path) -> Callable[..., Scene]:
    return lambda **settings: Scene(store, tmp_path, **settings)


def test_events_alone_bring_a_run_to_its_end(scene: Scene) -> None:
    scene.flows.submit(run_body("run_1"))
    assert [scene.event().result for _ in range(4)] == ["SUCCEEDED", "SUCCEEDED", "SUCCEEDED", "NO_READY_STEP"]
    assert scene.document()["status"] == "SUCCEEDED"
    assert scene.model.calls == 1
    assert scene.step()["usage"] == {"modelCalls": 1, "inputTokens": 100, "outputTokens": 10, "costUsd": 5.5e-05}


def test_of_64_invocations_that_race_for_one_step_one_claims_it_and_calls_the_model_once(scene: Scene) -> None:
    scene.ready_report()
    begin = threading.Barrier(RACERS)
    scene.model.before = lambda: REAL.sleep(0.2)

    def race(number: int) -> str:
        begin.wait()
        return scene.invocations.run("run_1", owner=f"event:{number}").result

    with ThreadPoolExecutor(RACERS) as racers:
        results = Counter(racers.map(race, range(RACERS)))
    assert scene.model.calls == 1
    assert results["SUCCEEDED"] == 1
    assert set(results) <= {"SUCCEEDED", "STEP_CLAIM_CONFLICT", "NO_READY_STEP", "STEP_FINALIZE_CONFLICT"}
    assert scene.step()["attempts"] == 1


def test_a_claim_that_loses_every_time_changes_nothing(scene: Scene) -> None:
    scene.ready_report()
    before = scene.document()
    real = scene.runs.patch
    scene.runs.patch = lambda snapshot, patch: None
    assert scene.event().result == "STEP_CLAIM_CONFLICT"
    scene.runs.patch = real
    assert scene.document() == before


def test_a_claim_whose_reply_was_lost_is_recognised(scene: Scene) -> None:
    scene.ready_report()
    real = scene.runs.patch
    lost = []

    def patch(snapshot: Any, patch: Any) -> Any:
        written = real(snapshot, patch)
        if not lost:
            lost.append(written)
            return None
        return written

    scene.runs.patch = patch
    assert scene.event().result == "SUCCEEDED"
    assert (scene.model.calls, scene.step()["attempts"]) == (1, 1)


def test_a_ready_step_whose_dependency_has_not_succeeded_is_left_alone(scene: Scene) -> None:
    scene.flows.submit(run_body("run_1"))
    scene.patch(step_id="ohlcv", state="PENDING")
    scene.patch(step_id="report", state="READY")
    # The orchestrator makes the first step ready again; the event does that one.
    assert scene.event().result == "SUCCEEDED"
    scene.patch(step_id="charts", state="RUNNING", startedAt=utc_text(REAL.wall_us()))
    assert scene.event().result == "DEPENDENCY_NOT_SUCCEEDED"
    assert "error" not in scene.step()


def test_an_artifact_without_a_finalised_step_is_finalised_without_the_model(scene: Scene) -> None:
    scene.ready_report()
    real = scene.runs.patch

    def patch(snapshot: Any, patch: Any) -> Any:
        if patch.get(("steps", "report", "state")) == "SUCCEEDED":
            raise FIRESTORE_UNAVAILABLE(reason="down")
        return real(snapshot, patch)

    scene.runs.patch = patch
    assert scene.outcome(scene.event) == "FIRESTORE_FINALIZE_FAILED"
    assert scene.step()["state"] == "RUNNING"
    kept = scene.artifacts.find("run_1", "report", is_valid=lambda _: True)
    scene.runs.patch = real
    assert scene.event().result == "SUCCEEDED"
    assert scene.model.calls == 1
    assert scene.step()["outputs"] == {"gcs_uri": kept.uri}
    assert scene.step()["usage"]["modelCalls"] == 1
    assert scene.artifacts.find("run_1", "report", is_valid=lambda _: True).document == kept.document


def test_a_step_that_succeeded_without_its_output_gets_it(scene: Scene) -> None:
    scene.ready_report()
    assert scene.event().result == "SUCCEEDED"
    uri = scene.step()["outputs"]["gcs_uri"]
    scene.patch(outputs=ABSENT)
    assert scene.event().result == "SUCCEEDED"
    assert scene.step()["outputs"] == {"gcs_uri": uri}
    assert scene.model.calls == 1


def test_a_step_that_was_finalised_by_another_is_not_overwritten(scene: Scene) -> None:
    scene.ready_report()
    scene.model.before = lambda: scene.patch(state="SUCCEEDED", outputs={"gcs_uri": "file:///elsewhere"})
    assert scene.event().result == "STEP_FINALIZE_CONFLICT"
    assert scene.step()["outputs"] == {"gcs_uri": "file:///elsewhere"}
    assert "error" not in scene.step()


def test_only_a_write_that_failed_is_repeated(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.ready_report()
    real, tries = scene.artifacts._artifacts.put, []

    def put(name: str, content: bytes) -> Any:
        tries.append(name)
        if len(tries) < 4:
            raise STORAGE_UNAVAILABLE()
        return real(name, content)

    monkeypatch.setattr(scene.artifacts._artifacts, "put", put)
    assert scene.event().result == "SUCCEEDED"
    assert (len(tries), scene.model.calls) == (4, 1)


def test_a_write_that_fails_for_good_ends_the_step(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.ready_report()
    tries = []

    def put(name: str, content: bytes) -> Any:
        tries.append(name)
        raise STORAGE_UNAVAILABLE()

    monkeypatch.setattr(scene.artifacts._artifacts, "put", put)
    assert scene.event().result == "FAILED"
    assert scene.step()["error"]["code"] == GCS_WRITE_FAILED.code
    assert (len(tries), scene.model.calls) == (5, 1)
    assert scene.step()["usage"]["modelCalls"] == 1, "it was paid for all the same"


def test_a_store_that_is_down_is_a_failure_to_be_delivered_again(scene: Scene) -> None:
    scene.ready_report()
    real_get, real_patch = scene.runs.get, scene.runs.patch

    def down(*_: Any) -> Any:
        raise FIRESTORE_UNAVAILABLE(reason="down")

    scene.runs.get = down
    assert scene.outcome(scene.event) == "FIRESTORE_UNAVAILABLE"
    scene.runs.get, scene.runs.patch = real_get, down
    assert scene.outcome(scene.event) == "FIRESTORE_CLAIM_FAILED"
    scene.runs.patch = real_patch
    assert scene.model.calls == 0
    assert scene.event().result == "SUCCEEDED"


def test_a_document_that_is_not_a_run_has_the_error_on_the_run(scene: Scene) -> None:
    scene.runs.create(
        "run_odd", {"runId": "run_odd", "status": "RUNNING", "steps": {"a": {"dependsOn": ["a"], "stepType": "x"}}}
    )
    assert scene.event("run_odd").result == "FLOW_RUN_INVALID"
    document = scene.document("run_odd")
    assert (document["status"], document["error"]["code"]) == ("FAILED", "FLOW_RUN_INVALID")
    assert scene.event("run_odd").result == "FLOW_RUN_INVALID"


# -- retries by policy ---------------------------------------------------------------------------------------------


def test_a_transient_failure_may_be_tried_again_by_policy(make: Callable[..., Scene]) -> None:
    scene = make(step_attempts_max=2)
    scene.ready_report()

    def fail() -> None:
        raise GEMINI_REQUEST_FAILED(reason="HTTP 500")

    scene.model.before = fail
    first = scene.event()
    assert first.failure is not None, "the event is delivered again"
    assert (first.result, scene.step()["state"], scene.step()["error"]["code"]) == (
        "READY",
        "READY",
        "GEMINI_REQUEST_FAILED",
    )
    second = scene.event()
    assert (second.result, second.failure) == ("FAILED", None)
    assert scene.step()["state"] == "FAILED"
    assert scene.event().result == "NO_READY_STEP"
    assert scene.model.calls == 2


def test_invalid_structured_output_ends_automatic_runs(make: Callable[..., Scene]) -> None:
    scene = make(step_attempts_max=5)
    scene.ready_report()
    scene.model.output = {"summary": {}}
    assert scene.event().result == "FAILED"
    assert scene.step()["error"]["code"] == "INVALID_STRUCTURED_OUTPUT"
    assert scene.event().result == "NO_READY_STEP"
    assert scene.model.calls == 2, "the call and its one repair"


def test_a_bug_ends_the_step_and_is_not_told_to_anybody(scene: Scene) -> None:
    scene.ready_report()

    def broken() -> None:
        raise RuntimeError("a password is hunter2")

    scene.work._ways = {**scene.work._ways, "LLM_REPORT": lambda task: broken()}
    assert scene.event().result == "FAILED"
    assert scene.step()["error"]["code"] == "INTERNAL_ERROR"
    assert "hunter2" not in str(scene.document())


def test_inputs_that_cannot_be_read_are_read_again_and_then_end_the_step(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.ready_report()
    real, tries = scene.artifacts._artifacts.get, []

    def get(name: str, **options: Any) -> Any:
        tries.append(name)
        if name.endswith("charts.json"):
            raise STORAGE_UNAVAILABLE()
        return real(name, **options)

    monkeypatch.setattr(scene.artifacts._artifacts, "get", get)
    assert scene.event().result == "FAILED"
    assert scene.step()["error"]["code"] == "GCS_READ_FAILED"
    assert tries.count("flow_runs/run_1/charts.json") == 5
    assert scene.model.calls == 0


def test_charts_that_cannot_be_drawn_end_the_step(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> bytes:
        raise ModuleNotFoundError("matplotlib")

    monkeypatch.setattr(charts, "draw_volume", broken)
    scene.flows.submit(run_body("run_1"))
    scene.event()
    assert scene.event().result == "FAILED"
    assert scene.step(step_id="charts")["error"]["code"] == "CHART_FAILED"


def test_what_becomes_of_a_step_is_told_once_after_the_commit(scene: Scene) -> None:
    scene.ready_report()
    told: list[tuple[str, Any, Any]] = []
    stop = bus.listen(
        lambda verb, facts: told.append((verb, facts["step_id"], facts.get("code"))) if "step." in verb else None
    )
    try:
        scene.model.output = {"summary": {}}
        scene.event()
        scene.event()
    finally:
        stop()
    assert told == [("step.claimed", "report", None), ("step.failed", "report", "INVALID_STRUCTURED_OUTPUT")]
    counted = Meter()
    counted.hear("step.failed", {**REPORTS["INVALID_STRUCTURED_OUTPUT"].facts})
    assert [one.metric.name for one in counted.take()] == ["errors_total"]


def test_a_failure_of_the_store_raises_one_of_our_codes(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any, **__: Any) -> Any:
        raise CORE["DATABASE_CONNECTION_ERROR"]()

    monkeypatch.setattr(scene.store, "look", away)
    with pytest.raises(Failure, match="FIRESTORE_UNAVAILABLE"):
        scene.runs.get("run_1")
