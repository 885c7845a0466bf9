"""Two buyers, one of them with everything that can be bought."""

from __future__ import annotations

from typing import Any

import httpx

PLANE = "/commerce/control-plane"


async def scene(client: httpx.AsyncClient, operator: dict[str, str]) -> dict[str, Any]:
    async def ask(method: str, path: str, body: Any = None, **headers: str) -> Any:
        reply = await client.request(method, f"{PLANE}{path}", json=body, headers={**operator, **headers})
        assert reply.is_success, reply.text
        return reply.json()

    async def buyer(user: str) -> dict[str, str]:
        session = await ask("POST", "/buyers/sessions", {"userId": user})
        return {"Authorization": f"Bearer {session['token']}"}

    line = {"orderId": "O1", "lineId": "L1", "productSku": "agent-basic", "quantity": 1, "user": {"id": "u1"}}
    made = await ask("POST", "/integrations/saleor/order-paid", line, **{"Idempotency-Key": "saleor:O1:L1"})
    await ask("PUT", f"/instances/{made['instanceId']}/bindings/weather.read", {"fields": {}})
    owner = await buyer("u1")
    plan = await ask("GET", "/plans/agent-basic")
    file = {"filename": "notes.txt", "contentType": "text/plain", "size": 5}
    upload = await ask("POST", f"/instances/{made['instanceId']}/uploads", file)
    sent = await client.put(upload["url"], content=b"hello", headers=upload["headers"])
    assert sent.is_success, sent.text
    asked = {"uploadId": upload["uploadId"]}
    ingestion = await ask("POST", f"/instances/{made['instanceId']}/ingestions", asked)
    return {
        "params": {
            "instance_id": made["instanceId"],
            "wallet_id": made["walletId"],
            "tool": "weather.read",
            "sku": "agent-basic",
            "offering_id": plan["offering"],
            "upload_id": upload["uploadId"],
            "ingestion_id": ingestion["ingestionId"],
        },
        "bodies": {
            "POST /instances/{instance_id}/uploads": file,
            "POST /instances/{instance_id}/ingestions": asked,
        },
        "owner": owner,
        "other": await buyer("u2"),
        "lower": {"": owner},
    }
