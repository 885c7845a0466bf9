"""Invocations in this process: a store of runs, artifacts in memory or on disk, and a model that counts its calls."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any

from holdfast.base import encode
from holdfast.catalog import Failure
from holdfast.store import Store
from holdfast.worker import Jobs
from holdfast_systems.reports import tables
from holdfast_systems.reports.artifacts import RunArtifacts
from holdfast_systems.reports.flows import Flows
from holdfast_systems.reports.invocation import Invocations, Outcome
from holdfast_systems.reports.links import Links
from holdfast_systems.reports.ports import Answer, Definitions, FlowRuns, Request
from holdfast_systems.reports.reaper import Reaper
from holdfast_systems.reports.settings import Settings
from holdfast_systems.reports.work import Work

from .system import SCHEMA, SCHEMA_ID, TEMPLATE, run_body

GOOD = {"summary": {"markdown": "# Fine"}, "details": {"trend": "up"}}


class CountingModel:
    """A model without latency: it answers what it is told to, and counts."""

    def __init__(self, output: Any = GOOD) -> None:
        self.calls = 0
        self.output = output
        self.before: Callable[[], None] = lambda: None
        """Called before each answer, for example to wait or to fail."""
        self._lock = Lock()

    def generate(self, request: Request) -> Answer:
        with self._lock:
            self.calls += 1
            number = self.calls
        self.before()
        # Every answer is another one, so that a second artifact would be seen.
        output = (
            {**self.output, "details": {**self.output["details"], "call": number}}
            if self.output is GOOD
            else self.output
        )
        return Answer(text=encode(output), input_tokens=100, output_tokens=10)

    def close(self) -> None:
        """Nothing is open."""


class Scene:
    """Everything an invocation needs."""

    def __init__(
        self,
        store: Store,
        folder: Path,
        *,
        runs: FlowRuns | None = None,
        definitions: Definitions | None = None,
        artifacts: str | None = None,
        **settings: Any,
    ) -> None:
        tables.prepare(store)
        self.settings = Settings(
            **{
                "retry_base_s": 0.001,
                "retry_max_s": 0.002,
                "claim_delay_min_s": 0.001,
                "claim_delay_max_s": 0.01,
                **settings,
            }
        )
        self.jobs = Jobs(store)
        self.store = store
        self.links = Links(self.settings)
        self.model = CountingModel()
        self.runs: Any = runs or tables.SqlRuns(store, self.jobs, lease_s=self.settings.lease_s, feeds=False)
        self.definitions: Any = definitions or tables.SqlDefinitions(store)
        self.artifacts: Any = RunArtifacts.open(artifacts or str(folder / "artifacts"), self.links)
        self.definitions.put_prompt("daily", TEMPLATE)
        self.definitions.put_schema(SCHEMA_ID, SCHEMA)
        self.flows = Flows(self.runs, self.definitions, self.artifacts, store=store)
        self.work = Work(self.artifacts, self.definitions, self.model, self.links, self.settings)
        self.reaper = Reaper(self.runs, self.work, self.links, self.settings)
        self.invocations = Invocations(self.runs, self.work, self.reaper, self.links, self.settings)

    def ready_report(self, run_id: str = "run_1", **changes: Any) -> str:
        """A run whose market data and charts are done and whose report is ready."""
        self.flows.submit(run_body(run_id, **changes))
        assert [self.event(run_id).result for _ in range(2)] == ["SUCCEEDED"] * 2
        self.event_followed(run_id)
        assert self.step(run_id)["state"] == "READY"
        return run_id

    def event_followed(self, run_id: str) -> None:
        """Let the orchestrator follow what has ended, without starting anything."""
        self.invocations.run(run_id, owner="job:orchestrator", is_event=False)

    def event(self, run_id: str = "run_1") -> Outcome:
        return self.invocations.run(run_id, owner="event:1")

    def job(self, run_id: str = "run_1", *, job_id: str = "1") -> Outcome:
        return self.invocations.run(run_id, owner=f"job:{job_id}", is_event=False)

    def document(self, run_id: str = "run_1") -> dict[str, Any]:
        found = self.runs.get(run_id)
        assert found is not None
        return dict(found.document)

    def step(self, run_id: str = "run_1", step_id: str = "report") -> dict[str, Any]:
        return dict(self.document(run_id)["steps"][step_id])

    def patch(self, run_id: str = "run_1", step_id: str = "report", **fields: Any) -> None:
        """Change fields of a step, as somebody else might."""
        found = self.runs.get(run_id)
        assert found is not None
        assert self.runs.patch(found, {("steps", step_id, name): value for name, value in fields.items()}) is not None

    def outcome(self, work: Callable[[], Outcome]) -> str:
        """The result, or the code of the failure that would be a 5xx."""
        try:
            return work().result
        except Failure as failure:
            return failure.code
