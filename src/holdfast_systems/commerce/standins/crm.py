"""A stand-in for a customer system: notes, which cannot recognise a repeat, and orders, which do by their key.

`POST /v1/notes {"text"}`, `POST /v1/orders {"item", "quantity"}` with `Idempotency-Key`; `GET` on both shows what is
there. The tools `add_note` and `place_order` do the same over MCP.
"""

from __future__ import annotations

from threading import Lock

from holdfast.base import Json
from holdfast.testing import Faulty
from holdfast_systems.commerce.standins.json_service import Answer, Asked, JsonService
from holdfast_systems.commerce.standins.mcp_tools import McpTools, RemoteTool

KEPT_MAX = 10_000


def standin() -> Faulty:
    """The service with switches for its faults."""
    crm = _Crm()
    service = JsonService(
        [
            ("GET", "/v1/notes", lambda _: (200, {"notes": list(crm.notes)})),
            ("POST", "/v1/notes", crm.post_note),
            ("GET", "/v1/orders", lambda _: (200, {"orders": list(crm.orders.values())})),
            ("POST", "/v1/orders", crm.post_order),
        ]
    )
    tools = [
        RemoteTool(name="add_note", description="Adds a note.", call=lambda arguments, _: crm.note(arguments)),
        RemoteTool(name="place_order", description="Orders something.", call=crm.order),
    ]
    return Faulty(McpTools(tools, otherwise=service))


class _Crm:
    """What was written."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.notes: list[Json] = []
        self.orders: dict[str, Json] = {}

    def post_note(self, asked: Asked) -> Answer:
        if not isinstance(asked.json.get("text"), str):
            return 400, {"error": "text is missing"}
        return 201, self.note(asked.json)

    def post_order(self, asked: Asked) -> Answer:
        if not isinstance(asked.json.get("item"), str):
            return 400, {"error": "item is missing"}
        return 201, self.order(asked.json, asked.headers.get("idempotency-key", ""))

    def note(self, arguments: dict[str, Json]) -> dict[str, Json]:
        with self._lock:
            if len(self.notes) >= KEPT_MAX:
                self.notes.clear()
            made: dict[str, Json] = {"noteId": f"note_{len(self.notes) + 1}", "text": arguments.get("text")}
            self.notes.append(made)
            return made

    def order(self, arguments: dict[str, Json], key: str) -> dict[str, Json]:
        with self._lock:
            if len(self.orders) >= KEPT_MAX:
                self.orders.clear()
            number = len(self.orders) + 1
            known = self.orders.get(key) if key else None
            if isinstance(known, dict):
                return known
            made: dict[str, Json] = {
                "orderId": f"order_{number}",
                "item": arguments.get("item"),
                "quantity": arguments.get("quantity", 1),
            }
            self.orders[key or f"without a key {number}"] = made
            return made
