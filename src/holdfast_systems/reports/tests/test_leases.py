"""Leases: what a dead invocation leaves, the reaper, and zombies; on each engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.base import REAL, replaced
from holdfast.catalog import Failure
from holdfast.store import Store
from holdfast_systems.reports.faults import GEMINI_REQUEST_FAILED
from holdfast_systems.reports.ports import ModelClosed

from .scene import Scene


@pytest.fixture
def scene(store: Store, tmp_path: Path) -> Scene:
    return Scene(store, tmp_path)


class Died(BaseException):
    """The process is gone."""


def die() -> None:
    raise Died


@pytest.fixture
def later(virtual_store: Store, tmp_path: Path) -> Callable[..., tuple[Scene, Callable[[float], Any]]]:
    """A scene whose clock can be moved."""

    def made(**settings: Any) -> tuple[Scene, Callable[[float], Any]]:
        scene = Scene(virtual_store, tmp_path, **settings)
        return scene, lambda seconds: replaced(replace(REAL, wall_us=lambda: REAL.wall_us() + int(seconds * 1e6)))

    return made


def test_a_step_whose_process_died_is_started_again_after_its_lease(later: Any) -> None:
    scene, at = later()
    scene.ready_report()
    scene.model.before = die
    with pytest.raises(Died):
        scene.event()
    scene.model.before = lambda: None
    assert scene.event().result == "NO_READY_STEP"
    assert scene.reaper.sweep() == []
    with at(901):
        assert scene.reaper.sweep() == ["run_1"]
        assert (scene.step()["state"], scene.step()["lost"]) == ("READY", 1)
        assert scene.event().result == "SUCCEEDED"
    assert scene.model.calls == 2


def test_a_step_whose_process_dies_too_often_fails(later: Any) -> None:
    scene, at = later(crash_reruns_max=1)
    scene.ready_report()
    scene.model.before = die
    for seconds in (0, 901):
        with at(seconds):
            scene.reaper.sweep()
            with pytest.raises(Died):
                scene.event()
    with at(2_000):
        scene.reaper.sweep()
        assert scene.step()["error"]["code"] == "STEP_LEASE_EXPIRED"
        scene.event()
    assert scene.document()["status"] == "FAILED"
    assert scene.model.calls == 2


def test_by_policy_a_lost_step_fails_at_once(later: Any) -> None:
    scene, at = later(reap="failed")
    scene.ready_report()
    scene.model.before = die
    with pytest.raises(Died):
        scene.event()
    with at(901):
        scene.reaper.sweep()
    assert scene.step()["error"]["code"] == "STEP_LEASE_EXPIRED"


def test_the_reaper_finalises_a_step_whose_artifact_is_there(later: Any) -> None:
    scene, at = later()
    scene.ready_report()
    real = scene.runs.patch
    scene.runs.patch = lambda snapshot, patch: (
        die() if patch.get(("steps", "report", "state")) == "SUCCEEDED" else real(snapshot, patch)
    )
    with pytest.raises(Died):
        scene.event()
    scene.runs.patch = real
    with at(901):
        assert scene.reaper.sweep() == ["run_1"]
    assert (scene.step()["state"], scene.model.calls) == ("SUCCEEDED", 1)


def test_the_finalise_of_a_zombie_is_refused(later: Any) -> None:
    scene, at = later()
    scene.ready_report()

    def pause() -> None:
        # While this invocation sleeps, its lease ends and another one takes the step and finishes it.
        scene.model.before = lambda: None
        with at(901):
            assert scene.reaper.sweep() == ["run_1"]
            assert scene.event().result == "SUCCEEDED"

    scene.model.before = pause
    assert scene.event().result == "STEP_FINALIZE_CONFLICT"
    kept = scene.artifacts.find("run_1", "report", is_valid=lambda _: True)
    assert kept.document["details"]["call"] == 2, "the artifact of the one that was first"
    assert scene.step()["attempts"] == 2


def test_a_zombie_that_fails_does_not_fail_the_step_of_another(later: Any) -> None:
    scene, at = later()
    scene.ready_report()

    def pause() -> None:
        scene.model.before = die
        with at(901):
            scene.reaper.sweep()
            with pytest.raises(Died):
                scene.event()
        raise GEMINI_REQUEST_FAILED(reason="late")

    scene.model.before = pause
    assert scene.event().result == "STEP_FINALIZE_CONFLICT"
    assert scene.step()["state"] == "RUNNING"


def test_a_step_whose_process_stops_goes_on_in_the_next_one(scene: Scene) -> None:
    scene.ready_report()

    def closed() -> None:
        raise ModelClosed

    scene.model.before = closed
    with pytest.raises(Failure, match="SERVICE_UNAVAILABLE"):
        scene.job(job_id="7")
    assert (scene.step()["state"], scene.step().get("error")) == ("RUNNING", None)
    scene.model.before = lambda: None
    assert scene.job(job_id="7").result == "SUCCEEDED"


def test_a_job_that_is_run_again_takes_up_what_its_dead_attempt_left(scene: Scene) -> None:
    scene.ready_report()
    scene.model.before = die
    with pytest.raises(Died):
        scene.job(job_id="7")
    scene.model.before = lambda: None
    assert scene.job(job_id="8").result == "NO_READY_STEP", "another job has no right to it"
    assert scene.job(job_id="7").result == "SUCCEEDED"
    assert (scene.model.calls, scene.step()["attempts"], scene.step()["lost"]) == (2, 2, 1)
