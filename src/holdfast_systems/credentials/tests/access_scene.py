"""Endpoints, events and people, ours and those of others, for the table of who may ask for what.

All routes take the operator's token. What belongs to another tenant of the deliveries, or to another platform, is
answered to the operator here as if it were not there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx

from holdfast.base import new_id
from holdfast.delivery import Deliveries
from holdfast.store import Store
from holdfast.worker import Jobs

from .live import created, settings_file, signature

PLATFORM, OTHER = "gotong_royong", "other_platform"
SECRETS = {PLATFORM: "a secret of the first", OTHER: "a secret of the other"}


def environment(folder: Path) -> dict[str, str]:
    """Two platforms."""
    tables = [f'[platforms.{name}]\nsecrets = ["{secret}"]\n' for name, secret in SECRETS.items()]
    return settings_file(folder, "".join(tables))


async def scene(client: httpx.AsyncClient, operator: dict[str, str], store: Store) -> dict[str, Any]:
    """An endpoint and an event of each tenant; a person, a contribution and an event of each platform."""

    async def ask(path: str, body: Any) -> Any:
        reply = await client.post(f"/credentials/platform/v1{path}", json=body, headers=operator)
        assert reply.is_success, reply.text
        return reply.json()

    async def known(platform: str) -> dict[str, str]:
        event_id, user_id, contribution_id = (f"{kind}_{new_id()}" for kind in ("evt", "user", "contribution"))
        body = json.dumps(created(event_id, contribution_id, user=user_id)).encode()
        headers = {**signature(body, SECRETS[platform]), "Content-Type": "application/json"}
        path = f"/credentials/engine/v1/platforms/{platform}/webhook"
        reply = await client.post(path, content=body, headers=headers)
        assert reply.is_success, reply.text
        return {"engine event_id": event_id, "user_id": user_id, "contribution_id": contribution_id}

    strangers = Deliveries(store, Jobs(store), tenant="somebody_else")
    theirs = strangers.endpoints.add("http://127.0.0.1:9/theirs")
    published = strangers.publish("credential.created", {"a": 1})

    event = await ask("/events", created(f"evt_{new_id()}"))
    endpoint = await ask("/endpoints", {"url": "http://127.0.0.1:9/ours"})
    ours, others = await known(PLATFORM), await known(OTHER)
    return {
        "params": {
            "platform event_id": event["event_id"],
            "endpoint_id": endpoint["endpoint_id"],
            "platform": PLATFORM,
            **ours,
        },
        "bodies": {"PATCH /v1/endpoints/{endpoint_id}": {"event_types": []}},
        "other": operator,
        "foreign": {"platform event_id": published.id, "endpoint_id": theirs.id, **others},
    }
