"""The conformance suite of the port `FlowRuns` and of `Definitions`: whoever implements them passes it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from holdfast.base import REAL, utc_text
from holdfast.store import Store
from holdfast.worker import Jobs
from holdfast_systems.reports import tables
from holdfast_systems.reports.firestore import FirestoreDefinitions, FirestoreRuns, connect
from holdfast_systems.reports.model import ABSENT
from holdfast_systems.reports.ports import Definitions, FlowRuns

from .firestore_standin import FirestoreStandIn, firestore_standin

Ports = tuple[FlowRuns, Definitions]

HOST = os.environ.get("FIRESTORE_EMULATOR_HOST", "")


def _sql(request: pytest.FixtureRequest, engine: str) -> Ports:
    url = (
        f"sqlite:///{request.getfixturevalue('tmp_path') / 'runs.db'}"
        if engine == "sqlite"
        else request.getfixturevalue("emptied_dsn")
    )
    store = Store.open(url)
    store.migrate()
    request.addfinalizer(store.close)
    tables.prepare(store)
    return tables.SqlRuns(store, Jobs(store), lease_s=900), tables.SqlDefinitions(store)


def _firestore(request: pytest.FixtureRequest) -> Ports:
    standin = request.getfixturevalue("firestore")
    return _connected(request, standin.host, "p")


def _emulator(request: pytest.FixtureRequest) -> Ports:
    return _connected(request, HOST, f"p-{REAL.wall_us()}")


def _connected(request: pytest.FixtureRequest, host: str, project: str) -> Ports:
    client = connect(project, host=host)
    runs = FirestoreRuns(client, lease_s=900)
    request.addfinalizer(runs.close)
    return runs, FirestoreDefinitions(client)


PORTS: dict[str, Callable[[pytest.FixtureRequest], Ports]] = {
    "sqlite": lambda request: _sql(request, "sqlite"),
    "postgresql": lambda request: _sql(request, "postgresql"),
    "firestore": _firestore,
    **({"emulator": _emulator} if HOST else {}),
}


def test_the_official_emulator_passes_the_suite_too() -> None:
    if not HOST:
        pytest.skip("NO FIRESTORE EMULATOR here: start one and name it in FIRESTORE_EMULATOR_HOST")
    assert "emulator" in PORTS


@pytest.fixture
def firestore() -> Iterator[FirestoreStandIn]:
    with firestore_standin() as standin:
        yield standin


@pytest.fixture(params=PORTS)
def ports(request: pytest.FixtureRequest) -> Iterator[Ports]:
    with ExitStack():
        yield PORTS[request.param](request)


@pytest.fixture
def runs(ports: Ports) -> FlowRuns:
    return ports[0]


@pytest.fixture
def definitions(ports: Ports) -> Definitions:
    return ports[1]


def document(run_id: str, *, created_us: int = 1_700_000_000_000_000, **step: Any) -> dict[str, Any]:
    return {
        "runId": run_id,
        "status": "RUNNING",
        "error": None,
        "createdAt": utc_text(created_us),
        "steps": {"a": {"stepType": "OHLCV_IMPORT", "state": "READY", "dependsOn": [], "inputs": {"n": 1.5}, **step}},
    }


def test_what_was_created_is_read_as_it_was(runs: FlowRuns) -> None:
    wanted = document("run_1", inputs={"text": "ä", "list": [1, {"x": None}], "flag": True, "empty": {}})
    created = runs.create("run_1", wanted)
    found = runs.get("run_1")
    assert created is not None
    assert found is not None
    assert found.document == created.document == wanted
    assert found.update_time == created.update_time
    assert runs.get("run_2") is None


def test_an_id_is_taken_once(runs: FlowRuns) -> None:
    assert runs.create("run_1", document("run_1")) is not None
    assert runs.create("run_1", document("run_1", state="PENDING")) is None
    found = runs.get("run_1")
    assert found is not None
    assert found.document["steps"]["a"]["state"] == "READY"


def test_a_patch_changes_these_fields_and_no_others(runs: FlowRuns) -> None:
    created = runs.create("run_1", document("run_1", error={"code": "X"}))
    assert created is not None
    patch = {
        ("steps", "a", "state"): "RUNNING",
        ("steps", "a", "error"): ABSENT,
        ("steps", "a", "startedAt"): "2026-01-01T00:00:00.000000Z",
        ("steps", "b-2"): {"stepType": "LLM_REPORT"},
    }
    written = runs.patch(created, patch)
    found = runs.get("run_1")
    assert written is not None
    assert found is not None
    assert found.document == written.document
    assert found.update_time == written.update_time != created.update_time
    assert found.document["steps"] == {
        "a": {
            "stepType": "OHLCV_IMPORT",
            "state": "RUNNING",
            "dependsOn": [],
            "inputs": {"n": 1.5},
            "startedAt": "2026-01-01T00:00:00.000000Z",
        },
        "b-2": {"stepType": "LLM_REPORT"},
    }


def test_a_patch_of_an_older_document_is_refused_and_changes_nothing(runs: FlowRuns) -> None:
    created = runs.create("run_1", document("run_1"))
    assert created is not None
    assert runs.patch(created, {("steps", "a", "state"): "RUNNING"}) is not None
    assert runs.patch(created, {("steps", "a", "state"): "FAILED"}) is None
    # Also one that would change nothing: the document is not the one that was read.
    assert runs.patch(created, {("steps", "a", "state"): "RUNNING"}) is None
    found = runs.get("run_1")
    assert found is not None
    assert found.document["steps"]["a"]["state"] == "RUNNING"


def test_a_patch_of_a_run_that_is_not_there_is_refused(runs: FlowRuns) -> None:
    created = runs.create("run_1", document("run_1"))
    assert created is not None
    assert runs.patch(created._replace(run_id="run_2"), {("status",): "FAILED"}) is None
    assert runs.get("run_2") is None


def test_of_many_patches_at_once_one_is_written(runs: FlowRuns) -> None:
    created = runs.create("run_1", document("run_1"))
    assert created is not None
    with ThreadPoolExecutor(16) as racers:
        written = list(racers.map(lambda n: runs.patch(created, {("steps", "a", "by"): n}), range(16)))
    assert sum(one is not None for one in written) == 1


def test_pages_lead_through_all_runs_newest_first(runs: FlowRuns) -> None:
    for number in range(7):
        at_us = 1_700_000_000_000_000 + 1_000_000 * (number // 2)
        assert runs.create(f"run_{number}", document(f"run_{number}", created_us=at_us)) is not None
    seen, after = [], None
    for _ in range(10):
        page = runs.page(count=3, after=after)
        seen += [run["runId"] for run in page.runs]
        after = page.next
        if after is None:
            break
    assert seen == [f"run_{number}" for number in (6, 5, 4, 3, 2, 1, 0)]
    assert "inputs" not in page.runs[0]["steps"]["a"]


def test_only_runs_with_a_lease_that_has_ended_are_overdue(runs: FlowRuns) -> None:
    now_us = REAL.wall_us()
    for name, until_us, state in (
        ("run_past", now_us - 1_000_000, "RUNNING"),
        ("run_future", now_us + 60_000_000, "RUNNING"),
        ("run_ended", now_us - 1_000_000, "SUCCEEDED"),
    ):
        assert runs.create(name, document(name, state=state, leaseUntil=utc_text(until_us))) is not None
    assert [found.run_id for found in runs.overdue(count=10)] == ["run_past"]


def test_the_time_of_a_read_is_the_stores(runs: FlowRuns) -> None:
    assert runs.create("run_1", document("run_1")) is not None
    found = runs.get("run_1")
    assert found is not None
    assert abs(found.read_us - REAL.wall_us()) < 60_000_000


def test_versions_of_definitions_are_immutable_and_the_newest_counts(definitions: Definitions) -> None:
    first = definitions.put_prompt("daily", "one")
    assert (first.version, first.created) == (1, True)
    again = definitions.put_prompt("daily", "one")
    assert (again.version, again.created) == (1, False)
    assert definitions.put_prompt("daily", "two").version == 2
    found = definitions.prompt("daily")
    assert found is not None
    assert (found.version, found.content) == (2, "two")
    old = definitions.prompt("daily", 1)
    assert old is not None
    assert old.content == "one"
    assert definitions.prompt("daily", 3) is None
    assert definitions.prompt("nightly") is None
    # What was there before the newest is a new version again.
    assert definitions.put_prompt("daily", "one").version == 3


def test_schemas_are_kept_as_they_are(definitions: Definitions) -> None:
    schema = {"type": "object", "$defs": {"a/b": {"enum": [1, None, "x"]}}, "required": ["summary"]}
    assert definitions.put_schema("llm_report_output_v1", schema).version == 1
    found = definitions.schema("llm_report_output_v1")
    assert found is not None
    assert found.content == schema
    assert definitions.prompt("llm_report_output_v1") is None


def test_definitions_that_are_put_at_once_get_versions_of_their_own(definitions: Definitions) -> None:
    with ThreadPoolExecutor(8) as racers:
        made = list(racers.map(lambda n: definitions.put_prompt("daily", f"text {n}"), range(8)))
    assert sorted(one.version for one in made) == list(range(1, 9))
