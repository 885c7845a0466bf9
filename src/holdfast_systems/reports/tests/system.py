"""The system as its users meet it: served over HTTP with its stand-in, and a worker of its own where wanted."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from holdfast.base import REAL, Secret
from holdfast.http.front import Front, Mount
from holdfast.http.system import Ground, System
from holdfast.store import Store
from holdfast.testing.ports import listening_socket
from holdfast.testing.processes import wait_until
from holdfast.worker import Worker
from holdfast_systems.reports.main import build
from holdfast_systems.reports.settings import PREFIX
from holdfast_systems.reports.standins import GeminiStandIn

PATIENCE_S = 60.0
LOOK_S = 0.02
TOKEN = "the operator's token"
QUICK = {
    "RETRY_BASE_S": "0.01",
    "RETRY_MAX_S": "0.02",
    "CLAIM_DELAY_MIN_S": "0.005",
    "CLAIM_DELAY_MAX_S": "0.03",
    "GEMINI_TIMEOUT_S": "5",
}
"""Waits that are over at once."""

SCHEMA_ID = "llm_report_output_v1"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["summary", "details"],
    "additionalProperties": False,
    "properties": {
        "summary": {
            "type": "object",
            "required": ["markdown"],
            "additionalProperties": False,
            "properties": {"markdown": {"type": "string", "minLength": 1}},
        },
        "details": {
            "type": "object",
            "required": ["trend"],
            "properties": {
                "trend": {"enum": ["up", "down", "sideways"]},
                "support": {"type": "number"},
                "points": {"type": "array", "items": {"type": "string"}, "minItems": 2},
            },
        },
    },
}
TEMPLATE = "Write a report.\n{ohlcv}\nCharts: {charts}\nBefore: {previousReports}"
PROFILE: dict[str, Any] = {
    "model": "gemini-2.5-flash",
    "responseMimeType": "application/json",
    "candidateCount": 1,
    "structuredOutput": {"schemaId": SCHEMA_ID, "schemaSha256": "0" * 64},
}
CSV = "time,open,high,low,close,volume\n" + "\n".join(
    f"2026-01-{day:02d},{100 + day},{104 + day},{98 + day},{102 + day},{1_000 * day}" for day in range(1, 31)
)


def run_body(run_id: str | None = None, *, csv: str = CSV, **changes: Any) -> dict[str, Any]:
    """A whole run: market data, charts, report. `profile={…}` and `report={…}` change the last step."""
    profile = {**deepcopy(PROFILE), **changes.pop("profile", {})}
    inputs = {
        "ohlcvStepId": "ohlcv",
        "chartsManifestStepId": "charts",
        "previousReportStepIds": [],
        "llm": {"promptId": "daily", "llmProfile": {name: one for name, one in profile.items() if one is not None}},
        **changes.pop("report", {}),
    }
    body = {
        "steps": {
            "ohlcv": {"stepType": "OHLCV_IMPORT", "dependsOn": [], "inputs": {"csv": csv}},
            "charts": {"stepType": "CHARTS_MANIFEST", "dependsOn": ["ohlcv"], "inputs": {"ohlcvStepId": "ohlcv"}},
            "report": {
                "stepType": "LLM_REPORT",
                "dependsOn": ["ohlcv", "charts"],
                "inputs": {name: one for name, one in inputs.items() if one is not None},
            },
        },
        **changes,
    }
    return body if run_id is None else {"runId": run_id, **body}


def cloud_event(run_id: str, *, event_id: str = "event-1") -> dict[str, Any]:
    """An update of a run, as a structured event."""
    name = f"projects/p/databases/(default)/documents/flow_runs/{run_id}"
    return {
        "specversion": "1.0",
        "id": event_id,
        "source": "//firestore.googleapis.com/projects/p/databases/(default)",
        "type": "google.cloud.firestore.document.v1.updated",
        "subject": f"documents/flow_runs/{run_id}",
        "datacontenttype": "application/json",
        "data": {"value": {"name": name, "fields": {}}},
    }


@dataclass
class Running:
    """The system, served."""

    system: System
    address: str
    store: Store
    folder: Path
    http: httpx.Client
    standin: GeminiStandIn

    def define(self, schema: Any = SCHEMA, schema_id: str = SCHEMA_ID) -> None:
        """Store the prompt and a schema."""
        assert self.http.put("/v1/prompts/daily", json={"template": TEMPLATE}).status_code in (200, 201)
        reply = self.http.put(f"/v1/schemas/{schema_id}", json={"jsonSchema": schema})
        assert reply.status_code in (200, 201), reply.text

    def submit(self, body: dict[str, Any] | None = None) -> str:
        """Submit a run; its id."""
        reply = self.http.post("/v1/flow-runs", json=body or run_body())
        assert reply.status_code == 201, reply.text
        return str(reply.json()["runId"])

    def run(self, run_id: str) -> dict[str, Any]:
        reply = self.http.get(f"/v1/flow-runs/{run_id}")
        assert reply.status_code == 200, reply.text
        return dict(reply.json())

    def ended(self, run_id: str) -> dict[str, Any]:
        """The run as soon as it has ended."""
        found: list[dict[str, Any]] = []

        def look() -> bool:
            found[:] = [self.run(run_id)]
            if found[0]["status"] != "RUNNING":
                return True
            REAL.sleep(LOOK_S)
            return False

        try:
            wait_until(look, within_s=PATIENCE_S, what=f"run {run_id} has ended")
        except TimeoutError:
            raise AssertionError({name: step.get("state") for name, step in found[0]["steps"].items()}) from None
        return found[0]

    def done(self, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Submit a run and wait for its end, with a worker for so long."""
        with self.working():
            return self.ended(self.submit(body))

    def event(self, run_id: str, **said: Any) -> httpx.Response:
        """Deliver an event of the run."""
        headers = {"content-type": "application/cloudevents+json"}
        return self.http.post("/v1/events", json=cloud_event(run_id, **said), headers=headers)

    def result(self, run_id: str) -> str:
        """Deliver an event, and what came of it."""
        reply = self.event(run_id)
        assert reply.status_code == 200, reply.text
        return str(reply.json()["result"])

    def artifacts(self) -> dict[str, bytes]:
        """Every artifact by its name."""
        root = self.folder / "artifacts"
        return {
            path.relative_to(root).as_posix(): path.read_bytes()
            for path in sorted(root.glob("flow_runs/**/*"))
            if path.is_file()
        }

    @contextmanager
    def working(self, **settings: Any) -> Iterator[Worker]:
        """A worker in this process, for the length of the block."""
        assert self.system.handlers is not None
        worker = Worker(self.store, self.system.handlers, **{"lease_s": 10.0, "grace_s": 10.0, **settings})
        worker.start()
        try:
            yield worker
        finally:
            worker.stop()
            assert worker.join(PATIENCE_S)


@contextmanager
def served(app: Any, listener: Any) -> Iterator[None]:
    config = uvicorn.Config(
        app, log_level="critical", access_log=False, ws="none", lifespan="off", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)


@contextmanager
def running(store: Store, folder: Path, **environment: str) -> Iterator[Running]:
    """The system on this store at `/reports`, with its stand-in; settings by their names without the prefix."""
    folder.mkdir(exist_ok=True)
    settings = {PREFIX + name: value for name, value in {**QUICK, **environment}.items()}
    with ExitStack() as stack:
        listener = stack.enter_context(listening_socket())
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        system = build(
            Ground(
                store=store,
                folder=folder,
                address=f"{address}/reports",
                token=Secret(TOKEN),
                environment=settings,
                standins=True,
            )
        )
        system.start()
        stack.callback(system.stop)
        standin = system.standins["gemini"]
        assert isinstance(standin, GeminiStandIn)
        front = Front(
            [
                Mount(path="/reports", app=system.parts[""], name="reports"),
                Mount(path="/standins/gemini", app=standin, name="gemini", loopback=True),
            ]
        )
        stack.enter_context(served(front, listener))
        http = stack.enter_context(
            httpx.Client(
                base_url=f"{address}/reports",
                headers={"Authorization": f"Bearer {TOKEN}"},
                timeout=PATIENCE_S,
                verify=False,
            )
        )
        yield Running(system, address, store, folder, http, standin)
