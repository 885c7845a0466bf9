"""A run with a step that has ended, for the table of who may ask for what. There is one tenant: the operators."""

from __future__ import annotations

from typing import Any

import httpx

from holdfast.base import new_id

from .system import SCHEMA, SCHEMA_ID, TEMPLATE, cloud_event, run_body


async def scene(client: httpx.AsyncClient, operator: dict[str, str]) -> dict[str, Any]:
    """Definitions, and a run whose first step was worked on by an event."""

    async def ask(method: str, path: str, body: Any, **headers: str) -> Any:
        reply = await client.request(method, f"/reports/v1{path}", json=body, headers={**operator, **headers})
        assert reply.is_success, reply.text
        return reply.json()

    await ask("PUT", "/prompts/daily", {"template": TEMPLATE})
    await ask("PUT", f"/schemas/{SCHEMA_ID}", {"jsonSchema": SCHEMA})
    run_id = (await ask("POST", "/flow-runs", run_body()))["runId"]
    event = {"Content-Type": "application/cloudevents+json"}
    done = await ask("POST", "/events", cloud_event(run_id, event_id=new_id()), **event)
    assert done["result"] == "SUCCEEDED"
    return {"params": {"prompt_id": "daily", "schema_id": SCHEMA_ID, "run_id": run_id, "step_id": "ohlcv"}}
