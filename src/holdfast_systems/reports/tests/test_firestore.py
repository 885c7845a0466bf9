"""What is Firestore's own: contention, lost replies, documents that others wrote; through the public surface."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from holdfast.operate.audit_log import entries
from holdfast.store import Store
from holdfast.testing.processes import wait_until
from holdfast_systems.reports.firestore import FirestoreDefinitions, FirestoreRuns, connect

from .firestore_standin import FirestoreStandIn, firestore_standin
from .scene import Scene
from .system import Running, run_body, running


@pytest.fixture
def firestore() -> Iterator[FirestoreStandIn]:
    with firestore_standin() as standin:
        yield standin


@pytest.fixture
def here(firestore: FirestoreStandIn, sqlite_store: Store, tmp_path: Path) -> Iterator[Running]:
    """The system on Firestore; nobody but the test sends events."""
    with running(sqlite_store, tmp_path / "reports", FIRESTORE="p", FIRESTORE_HOST=firestore.host) as served:
        served.define()
        yield served


@pytest.fixture
def written(firestore: FirestoreStandIn) -> Iterator[Callable[[str, dict[str, Any]], None]]:
    """Writes a run's document as another program would."""
    with ExitStack() as stack:
        client = connect("p", host=firestore.host)
        stack.callback(client.close)
        yield lambda run_id, document: client.collection("flow_runs").document(run_id).set(document)


def test_events_bring_a_run_in_firestore_to_its_end(here: Running, firestore: FirestoreStandIn) -> None:
    here.submit(run_body("run_1"))
    results = [here.result("run_1") for _ in range(5)]
    assert results == ["SUCCEEDED"] * 3 + ["NO_READY_STEP"] * 2
    run = here.run("run_1")
    assert run["status"] == "SUCCEEDED"
    assert here.standin.call_count == 1
    assert here.http.get("/v1/flow-runs/run_1/steps/report/report").json()["details"]["trend"] == "up"
    assert [one["runId"] for one in here.http.get("/v1/flow-runs").json()["flowRuns"]] == ["run_1"]
    assert here.http.post("/v1/flow-runs", json=run_body("run_1")).status_code == 201
    assert here.http.post("/v1/flow-runs", json=run_body("run_1", budgetUsd=1)).status_code == 409


def test_contention_is_waited_for_and_then_left_to_others(here: Running, firestore: FirestoreStandIn) -> None:
    here.submit(run_body("run_1"))
    firestore.aborted = 3
    assert here.result("run_1") == "SUCCEEDED", "three ABORTED are fewer than the tries of a claim"
    here.result("run_1")
    firestore.aborted = 4
    before = here.run("run_1")
    # The orchestrator's patch meets the first of them, the claim the others.
    assert here.result("run_1") in ("STEP_CLAIM_CONFLICT", "SUCCEEDED", "NO_READY_STEP")
    firestore.aborted = 0
    assert before["steps"]["ohlcv"] == here.run("run_1")["steps"]["ohlcv"]


def test_a_claim_that_meets_contention_all_the_time_is_a_conflict_and_no_failure(
    here: Running, firestore: FirestoreStandIn
) -> None:
    here.submit(run_body("run_1"))
    firestore.aborted = 1_000
    assert here.result("run_1") == "STEP_CLAIM_CONFLICT"
    firestore.aborted = 0
    step = here.run("run_1")["steps"]["ohlcv"]
    assert (step["state"], step.get("error")) == ("READY", None)


def test_an_outage_of_firestore_is_a_5xx_with_the_code_of_where_it_was(
    here: Running, firestore: FirestoreStandIn
) -> None:
    here.submit(run_body("run_1"))
    firestore.unavailable = 1_000
    reply = here.event("run_1")
    assert (reply.status_code, reply.json()["error"]["code"]) == (503, "FIRESTORE_UNAVAILABLE")
    reply = here.http.get("/v1/flow-runs/run_1")
    assert (reply.status_code, reply.json()["error"]["code"]) == (503, "FIRESTORE_UNAVAILABLE")
    firestore.unavailable = 4
    assert here.result("run_1") == "SUCCEEDED", "a short one is waited for"


def test_claim_and_finalise_have_codes_of_their_own(
    firestore: FirestoreStandIn, here: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.submit(run_body("run_1"))
    real = FirestoreRuns.patch
    wanted = "RUNNING"

    def patch(self: FirestoreRuns, snapshot: Any, patch: Any) -> Any:
        # Firestore goes away in the moment in which this patch is sent.
        firestore.unavailable = 1_000 if wanted in patch.values() else 0
        return real(self, snapshot, patch)

    monkeypatch.setattr(FirestoreRuns, "patch", patch)
    reply = here.event("run_1")
    assert (reply.status_code, reply.json()["error"]["code"]) == (503, "FIRESTORE_CLAIM_FAILED")
    firestore.unavailable, wanted = 0, "SUCCEEDED"
    reply = here.event("run_1")
    assert (reply.status_code, reply.json()["error"]["code"]) == (503, "FIRESTORE_FINALIZE_FAILED")
    firestore.unavailable, wanted = 0, "never"
    assert here.run("run_1")["steps"]["ohlcv"]["state"] == "RUNNING"
    # The next event finds the artifact and says so.
    assert here.result("run_1") == "SUCCEEDED"
    assert here.run("run_1")["steps"]["ohlcv"]["attempts"] == 1


def test_a_commit_whose_reply_was_lost_has_one_effect(here: Running, firestore: FirestoreStandIn) -> None:
    here.submit(run_body("run_1"))
    results = []
    for _ in range(3):
        firestore.lost = 1
        results.append(here.result("run_1"))
    assert results == ["SUCCEEDED"] * 3
    run = here.run("run_1")
    assert [step["attempts"] for step in run["steps"].values()] == [1, 1, 1]
    assert here.standin.call_count == 1


def test_a_step_that_somebody_else_has_ended_meanwhile_is_step_finalize_conflict(
    here: Running, written: Callable[[str, dict[str, Any]], None]
) -> None:
    here.submit(run_body("run_1"))
    assert [here.result("run_1") for _ in range(2)] == ["SUCCEEDED"] * 2
    here.standin.faults.switch(delay_s=0.5)
    with ThreadPoolExecutor(1) as threads:
        under_way = threads.submit(here.result, "run_1")
        wait_until(
            lambda: here.run("run_1")["steps"]["report"]["state"] == "RUNNING", within_s=30, what="the step has begun"
        )
        document = {name: value for name, value in here.run("run_1").items() if name != "usage"}
        document["steps"]["report"] |= {"state": "SUCCEEDED", "outputs": {"gcs_uri": "gs://elsewhere/report.json"}}
        written("run_1", document)
        assert under_way.result() == "STEP_FINALIZE_CONFLICT"
    step = here.run("run_1")["steps"]["report"]
    assert (step["outputs"], step.get("error")) == ({"gcs_uri": "gs://elsewhere/report.json"}, None)


def test_a_step_that_somebody_made_ready_too_early_is_dependency_not_succeeded(
    here: Running, written: Callable[[str, dict[str, Any]], None]
) -> None:
    body = run_body("run_1")
    body["status"] = "RUNNING"
    body["steps"]["ohlcv"]["state"] = "RUNNING"
    body["steps"]["report"]["state"] = "READY"
    written("run_1", body)
    assert here.result("run_1") == "DEPENDENCY_NOT_SUCCEEDED"
    assert "error" not in here.run("run_1")["steps"]["report"]


def test_a_run_without_states_gets_them_from_the_orchestrator(
    here: Running, written: Callable[[str, dict[str, Any]], None]
) -> None:
    written("run_1", run_body("run_1"))
    assert here.result("run_1") == "SUCCEEDED"
    run = here.run("run_1")
    assert run["status"] == "RUNNING"
    assert [step["state"] for step in run["steps"].values()].count("PENDING") == 2


def test_a_document_that_is_not_a_run_holds_the_error_itself(
    here: Running, written: Callable[[str, dict[str, Any]], None]
) -> None:
    written("run_1", {"runId": "run_1", "steps": "none"})
    assert here.result("run_1") == "FLOW_RUN_INVALID"
    run = here.run("run_1")
    assert (run["status"], run["error"]["code"]) == ("FAILED", "FLOW_RUN_INVALID")


def test_a_step_of_a_type_that_is_not_ours_is_left_to_its_own_worker(
    here: Running, written: Callable[[str, dict[str, Any]], None]
) -> None:
    written("run_1", {"runId": "run_1", "status": "RUNNING", "steps": {"mail": {"stepType": "SEND_MAIL"}}})
    assert here.result("run_1") == "NO_READY_STEP"
    assert here.run("run_1")["steps"]["mail"]["state"] == "READY"


def test_what_firestore_cannot_hold_is_refused_at_submission(here: Running) -> None:
    body = run_body("run_1")
    body["steps"]["ohlcv"]["inputs"] = {"rows": [["2026-01-01", 1, 2, 1, 2, 3]]}
    reply = here.http.post("/v1/flow-runs", json=body)
    assert (reply.status_code, reply.json()["error"]["code"]) == (422, "FLOW_RUN_INVALID")


def test_the_reaper_takes_up_steps_in_firestore(
    firestore: FirestoreStandIn, sqlite_store: Store, tmp_path: Path
) -> None:
    client = connect("p", host=firestore.host)
    scene = Scene(
        sqlite_store,
        tmp_path,
        runs=FirestoreRuns(client, lease_s=900),
        definitions=FirestoreDefinitions(client),
    )
    scene.ready_report()
    scene.patch(state="RUNNING", invocationId="gone", leaseUntil="2020-01-01T00:00:00Z")
    assert scene.reaper.sweep() == ["run_1"]
    assert scene.event().result == "SUCCEEDED"
    client.close()


def test_what_operators_do_is_written_down_before_and_after(here: Running, firestore: FirestoreStandIn) -> None:
    here.http.put("/v1/prompts/other", json={"template": "{ohlcv}"})
    firestore.unavailable = 1_000
    assert here.http.put("/v1/prompts/other", json={"template": "{charts}"}).status_code == 503
    firestore.unavailable = 0
    found = [row for row in here.store.atomic(entries, write=False) if row.subject == "prompt:other"][::-1]
    assert [(row.verb, row.state, row.result, row.done) for row in found] == [
        ("put", "done", "done", 1),
        ("put", "refused", "FIRESTORE_UNAVAILABLE", 0),
    ]
