"""The conformance suite of artifacts: on disk, in memory, S3 and GCS."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from holdfast.catalog import Failure
from holdfast.testing.gcs import gcs_standin
from holdfast_systems.reports.artifacts import RunArtifacts, artifact_name, chart_name
from holdfast_systems.reports.links import Links
from holdfast_systems.reports.settings import Settings

SETTINGS = Settings(retry_base_s=0.001, retry_max_s=0.002)


def always(_: Any) -> bool:
    return True


def _address(request: pytest.FixtureRequest, stack: ExitStack) -> tuple[str, str]:
    """Where artifacts are kept, and what their URIs begin with."""
    folder = request.getfixturevalue("tmp_path")
    match request.param:
        case "local":
            return str(folder / "artifacts"), f"file://{folder}/artifacts/"
        case "memory":
            return "memory://", "memory://"
        case "s3":
            return str(request.getfixturevalue("s3_url")), "s3://"
    gcs = stack.enter_context(gcs_standin())
    gcs.create_bucket("reports")
    return gcs.url("reports", "here"), "gs://reports/here/"


@pytest.fixture(params=["local", "memory", "s3", "gcs"])
def kept(request: pytest.FixtureRequest) -> Iterator[tuple[RunArtifacts, str]]:
    with ExitStack() as stack:
        address, prefix = _address(request, stack)
        yield RunArtifacts.open(address, Links(SETTINGS)), prefix


def document(run_id: str = "run_1", step_id: str = "report", **more: Any) -> dict[str, Any]:
    return {"summary": {"markdown": "#"}, "metadata": {"runId": run_id, "stepId": step_id}, **more}


def test_an_artifact_is_kept_under_the_name_of_its_step(kept: tuple[RunArtifacts, str]) -> None:
    artifacts, prefix = kept
    assert artifacts.find("run_1", "report", is_valid=always) is None
    made = artifacts.keep("run_1", "report", document(), is_valid=always)
    assert made.created
    assert made.uri.startswith(prefix)
    assert made.uri.endswith(artifact_name("run_1", "report"))
    assert artifacts.fetch("other", made.uri) == document()


def test_the_first_one_counts_and_later_ones_are_given_it(kept: tuple[RunArtifacts, str]) -> None:
    artifacts, _ = kept
    artifacts.keep("run_1", "report", document(call=1), is_valid=always)
    again = artifacts.keep("run_1", "report", document(call=2), is_valid=always)
    assert not again.created
    assert again.document == document(call=1)
    found = artifacts.find("run_1", "report", is_valid=always)
    assert found is not None
    assert found.document == document(call=1)


@pytest.mark.parametrize("why", ["another run", "another step", "no metadata", "invalid"])
def test_what_is_not_ours_is_neither_adopted_nor_overwritten(kept: tuple[RunArtifacts, str], why: str) -> None:
    artifacts, _ = kept
    foreign: dict[str, Callable[[], dict[str, Any]]] = {
        "another run": lambda: document("run_2"),
        "another step": lambda: document(step_id="charts"),
        "no metadata": lambda: {"summary": {}},
        "invalid": document,
    }
    there = foreign[why]()
    artifacts._artifacts.put(artifact_name("run_1", "report"), _bytes(there))
    fits = why != "invalid"
    with pytest.raises(Failure, match="ARTIFACT_CONFLICT"):
        artifacts.keep("run_1", "report", document(call=1), is_valid=lambda _: fits)
    with pytest.raises(Failure, match="ARTIFACT_CONFLICT"):
        artifacts.find("run_1", "report", is_valid=lambda _: fits)
    assert artifacts._artifacts.get(artifact_name("run_1", "report")) == _bytes(there)


def test_charts_are_kept_once_too(kept: tuple[RunArtifacts, str]) -> None:
    artifacts, _ = kept
    name = chart_name("run_1", "charts", "candles")
    uri = artifacts.keep_chart(name, b"first", is_ours=always)
    assert artifacts.keep_chart(name, b"first", is_ours=lambda _: False) == uri
    assert artifacts.keep_chart(name, b"second", is_ours=lambda found: found == b"first") == uri
    with pytest.raises(Failure, match="ARTIFACT_CONFLICT"):
        artifacts.keep_chart(name, b"second", is_ours=lambda _: False)
    assert artifacts.chart_at("report", uri) == b"first"


def test_an_input_that_is_elsewhere_or_missing_cannot_be_used(kept: tuple[RunArtifacts, str]) -> None:
    artifacts, _ = kept
    for uri in (artifacts.uri(artifact_name("run_9", "report")), "file:///etc/passwd", "gs://other/flow_runs/x.json"):
        with pytest.raises(Failure, match="INVALID_STEP_INPUTS"):
            artifacts.fetch("report", uri)


def _bytes(content: dict[str, Any]) -> bytes:
    return json.dumps(content).encode()
