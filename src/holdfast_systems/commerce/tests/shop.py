"""What tests buy and bill, in few words."""

from __future__ import annotations

from typing import Any

import httpx

from .live import Live

PLANE = "control-plane"


def line(
    order: str = "O1", number: str = "L1", sku: str = "agent-basic", quantity: int = 1, user: str = "u1"
) -> dict[str, Any]:
    buyer = {"id": user, "email": f"{user}@shop.example"}
    return {"orderId": order, "lineId": number, "productSku": sku, "quantity": quantity, "user": buyer}


def pay(live: Live, **given: Any) -> httpx.Response:
    """Send one line of a paid order to the control plane, under its own key."""
    body = line(**given)
    key = f"saleor:{body['orderId']}:{body['lineId']}"
    return live.post(PLANE, "/integrations/saleor/order-paid", body, key=key)


def bought(live: Live, **given: Any) -> dict[str, Any]:
    """The ids of a line that was provisioned."""
    reply = pay(live, **given)
    assert reply.status_code == 200, reply.text
    return dict(reply.json())


def authorize(live: Live, instance: str, run: str, budget: int = 5, **given: Any) -> httpx.Response:
    asked = {"instanceId": instance, "requestedBudget": budget, "runId": run}
    return live.post(PLANE, "/billing/authorize", asked, **given)


def held(live: Live, instance: str, run: str, budget: int = 5) -> str:
    """The id of a reservation."""
    reply = authorize(live, instance, run, budget)
    assert reply.status_code == 200, reply.text
    assert reply.json()["allowed"], reply.text
    return str(reply.json()["reservationId"])


def settle(live: Live, reservation: str, amount: int, **given: Any) -> httpx.Response:
    return live.post(PLANE, "/billing/settle", {"reservationId": reservation, "amount": amount}, **given)


def release(live: Live, reservation: str, **given: Any) -> httpx.Response:
    return live.post(PLANE, "/billing/release", {"reservationId": reservation}, **given)


def wallet(live: Live, wallet_id: str) -> tuple[int, int, int, int]:
    """What is available, held, spent and paid in."""
    found = live.get(PLANE, f"/wallets/{wallet_id}").json()
    return found["available"], found["held"], found["spent"], found["paidIn"]


def code(reply: httpx.Response) -> tuple[int, str]:
    """The status and the code of an error."""
    error = reply.json()["error"]
    assert error["message"]
    assert error["traceId"]
    return reply.status_code, error["code"]
