"""Crash at every boundary of an invocation, enumerated by machine; then the event again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.base import REAL, replaced
from holdfast.store import Store
from holdfast.testing.postgres import PostgresAddress
from holdfast.testing.processes import wait_until

from .recorder import Died, Recorder
from .scene import Scene

STEPS = ("ohlcv", "charts", "report")
AGAIN_MAX = 12
LEASE_S = 901.0
KILLED = ("before storage.put", "after storage.put", "after model.generate", "after runs.patch")


def quiet(scene: Scene, step_id: str) -> str:
    """A run whose next step is this one."""
    if step_id == "report":
        return scene.ready_report()
    from .system import run_body

    scene.flows.submit(run_body("run_1"))
    if step_id == "charts":
        assert scene.event().result == "SUCCEEDED"
    return "run_1"


def final(scene: Scene) -> dict[str, Any]:
    """What must not depend on whether anything died: states, outputs, artifacts."""
    document = scene.document()
    return {
        "status": document["status"],
        "error": document["error"],
        "steps": {
            step_id: (step["state"], step.get("outputs"), step.get("error"))
            for step_id, step in document["steps"].items()
        },
    }


def goes_on(scene: Scene, at: Callable[[float], Any], *, seconds: float) -> None:
    """Events and the reaper, until the run has ended."""
    for number in range(AGAIN_MAX):
        with at(seconds + number):
            scene.reaper.sweep()
            scene.event()
        if scene.document()["status"] != "RUNNING":
            return
    raise AssertionError(scene.document())


def boundaries(store: Store, folder: Path, step_id: str) -> list[str]:
    """Every boundary of the invocation that does this step, from a quiet run."""
    scene = Scene(store, folder)
    quiet(scene, step_id)
    recorder = Recorder(scene)
    assert scene.event().result == "SUCCEEDED"
    return recorder.names


def later(seconds: float) -> Any:
    return replaced(replace(REAL, wall_us=lambda: REAL.wall_us() + int(seconds * 1e6)))


Fresh = Callable[[str], str]


@pytest.fixture(params=["sqlite", "postgresql"])
def fresh_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fresh]:
    """Makes empty databases, on each engine in turn."""
    if request.param == "sqlite":
        yield lambda name: f"sqlite:///{tmp_path / name}.db"
        return
    server: PostgresAddress = request.getfixturevalue("postgres_server")
    template: str = request.getfixturevalue("postgres_template")
    made: list[str] = []

    def create(name: str) -> str:
        made.append(f"reports_{name}_{REAL.token_bytes(6).hex()}")
        return server.create_database(made[-1], template=template)

    yield create
    for name in made:
        server.drop_database(name)


def opened(url: str) -> Store:
    """A store on the injected clock, so that leases end when the test says so."""
    store = Store.open(url, database_clock=False)
    store.migrate()
    return store


@pytest.mark.parametrize("step_id", STEPS)
def test_a_crash_at_any_boundary_ends_as_the_quiet_run_does(fresh_url: Fresh, tmp_path: Path, step_id: str) -> None:
    store = opened(fresh_url("quiet"))
    names = boundaries(store, tmp_path / "quiet", step_id)
    store.close()
    assert len(names) >= 8, names
    # Enumerated twice: the same invocation has the same boundaries.
    for number, name in enumerate(names):
        store = opened(fresh_url(f"crash{number}"))
        scene = Scene(store, tmp_path / f"crash{number}")
        quiet(scene, step_id)
        recorder = Recorder(scene)
        recorder.die_at = number
        with pytest.raises(Died, match=name):
            scene.event()
        recorder.die_at = None
        calls, before = scene.model.calls, _bytes(tmp_path / f"crash{number}")
        # The event again, at once; then whatever else comes, until the run has ended.
        scene.event()
        goes_on(scene, later, seconds=LEASE_S)
        after = final(scene)
        assert after["status"] == "SUCCEEDED", (name, after)
        assert all(step[0] == "SUCCEEDED" and step[2] is None for step in after["steps"].values()), name
        assert scene.model.calls <= 1 + scene.settings.crash_reruns_max, name
        kept = _bytes(tmp_path / f"crash{number}")
        assert before.items() <= kept.items(), f"{name}: an artifact was changed"
        assert len(kept) == 5, name
        if "artifacts/flow_runs/run_1/report.json" in before:
            assert scene.model.calls == calls, f"{name}: what was written was paid for again"
        # A late duplicate changes nothing any more.
        document = scene.document()
        assert scene.event().result == "NO_READY_STEP"
        assert scene.document() == document
        store.close()


def test_a_crash_at_any_boundary_of_a_job_is_taken_up_by_the_same_job(fresh_url: Fresh, tmp_path: Path) -> None:
    store = opened(fresh_url("quiet"))
    names = boundaries(store, tmp_path / "quiet", "report")
    store.close()
    for number, name in enumerate(names):
        store = opened(fresh_url(f"job{number}"))
        scene = Scene(store, tmp_path / f"job{number}")
        scene.ready_report()
        recorder = Recorder(scene)
        recorder.die_at = number
        try:
            scene.job(job_id="7")
        except Died:
            recorder.die_at = None
            # No lease has to end: a job runs once at a time, so its earlier attempt is dead.
            for _ in range(3):
                scene.job(job_id="7")
        assert scene.step()["state"] == "SUCCEEDED", name
        assert scene.model.calls <= 2, name
        assert scene.document()["status"] == "SUCCEEDED", name
        store.close()


@pytest.mark.parametrize("boundary", KILLED)
def test_a_process_that_is_killed_leaves_what_the_next_one_finishes(
    fresh_url: Fresh, tmp_path: Path, boundary: str
) -> None:
    url = fresh_url("killed")
    words = [sys.executable, "-m", f"{__package__}.crash_program", url, str(tmp_path), boundary]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])}
    reached = tmp_path / "reached"
    process = subprocess.Popen(words, env=environment, cwd=Path(__file__).parents[4])
    try:
        wait_until(reached.exists, within_s=60, what=f"the process is {boundary}")
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    store = Store.open(url, database_clock=False)
    scene = Scene(store, tmp_path)
    before = _bytes(tmp_path)
    scene.event()
    goes_on(scene, later, seconds=LEASE_S)
    assert final(scene)["status"] == "SUCCEEDED"
    assert before.items() <= _bytes(tmp_path).items()
    assert scene.model.calls <= 1, "once before the kill, and at most once more"
    store.close()


def _bytes(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.glob("artifacts/flow_runs/**/*")
        if path.is_file()
    }
