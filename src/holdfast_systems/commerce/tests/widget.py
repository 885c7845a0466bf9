"""A widget on a website, and the people who use it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import httpx

from holdfast.testing.processes import wait_until

from .live import PATIENCE_S, Live

ORIGIN = "http://127.0.0.1:8000"
STREAM = {"Accept": "text/event-stream"}


@dataclass
class Bought:
    """What a paid line of an order has brought."""

    live: Live
    tenant: str
    instance_id: str
    wallet_id: str

    def wallet(self) -> dict[str, int]:
        reply = self.live.get("control-plane", f"/wallets/{self.wallet_id}")
        assert reply.status_code == 200, reply.text
        found: dict[str, int] = reply.json()
        return found

    def charges(self) -> list[dict[str, Any]]:
        """The charges in the ledger, oldest first."""
        reply = self.live.get("control-plane", f"/wallets/{self.wallet_id}/entries")
        assert reply.status_code == 200, reply.text
        return [entry for entry in reversed(reply.json()["entries"]) if entry["kind"] == "charge"]

    def charges_all(self) -> list[dict[str, Any]]:
        """Every charge in the ledger, page by page."""
        path = f"/wallets/{self.wallet_id}/entries"
        return [one for one in self._pages("control-plane", path, "entries") if one["kind"] == "charge"]

    def runs(self) -> list[dict[str, Any]]:
        """Every run of the instance, page by page."""
        return self._pages("gateway", f"/v1/instances/{self.instance_id}/runs", "runs")

    def _pages(self, part: str, path: str, rows: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        cursor: str | None = ""
        while cursor is not None:
            page = self.live.get(part, path, params={"cursor": cursor} if cursor else {}).json()
            found += page[rows]
            cursor = page["nextCursor"]
        return found

    def widget(self, user: str = "visitor", origin: str = ORIGIN) -> Widget:
        reply = self.session(user, origin)
        assert reply.status_code == 200, reply.text
        return Widget(self, user, origin, reply.json()["token"])

    def session(self, user: str = "visitor", origin: str = ORIGIN) -> httpx.Response:
        body = {"instanceId": self.instance_id, "userId": user}
        headers = {"Origin": origin} if origin else {}
        return self.live.post("gateway", "/v1/widget/sessions", body, token={}, headers=headers)

    def settled(self, spent: int) -> dict[str, int]:
        """The wallet, as soon as so much is spent and nothing is held."""
        found: dict[str, int] = {}

        def look() -> bool:
            found.update(self.wallet())
            return found["spent"] == spent and found["held"] == 0

        try:
            wait_until(look, within_s=PATIENCE_S, what=f"{spent} are spent and nothing is held")
        except TimeoutError:
            raise AssertionError(found) from None
        return found


@dataclass
class Widget:
    """A session of one person with one instance."""

    bought: Bought
    user: str
    origin: str
    token: str

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}", "Origin": self.origin}

    def run(self, client_run_id: str, text: str = "Hello", **headers: str) -> httpx.Response:
        path = f"/v1/instances/{self.bought.instance_id}/runs"
        body = {"input": text, "clientRunId": client_run_id}
        return self.bought.live.post("gateway", path, body, token=self.headers, headers=headers)

    def show(self, run_id: str) -> httpx.Response:
        return self.bought.live.get("gateway", f"/v1/runs/{run_id}", token=self.headers)


def buy(live: Live, user: str = "u1", sku: str = "agent-basic", order: str = "O1") -> Bought:
    """Pay for one line of an order."""
    line = {"orderId": order, "lineId": "L1", "productSku": sku, "quantity": 1, "user": {"id": user}}
    path = "/integrations/saleor/order-paid"
    reply = live.post("control-plane", path, line, key=f"saleor:{order}:L1")
    assert reply.status_code == 200, reply.text
    return Bought(live, user, reply.json()["instanceId"], reply.json()["walletId"])


def events(text: str) -> list[dict[str, Any]]:
    """The events of a stream."""
    return [json.loads(line[5:]) for line in text.splitlines() if line.startswith("data:")]


def code(reply: httpx.Response) -> tuple[int, str]:
    """The status and the code of a refusal."""
    return reply.status_code, reply.json()["error"]["code"]
