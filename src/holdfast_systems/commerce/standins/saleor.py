"""A stand-in for the shop (Saleor): it publishes its key, signs its webhooks, and repeats those that fail.

Its page pays an order with one click. `POST /orders` pays one too, `GET /orders/{id}` shows what became of its webhook,
`POST /orders/{id}/redeliver` sends it once more, `POST /apps/install` installs an app by its manifest. As the real
shop, it waits 20 seconds for an answer, repeats up to five times when the answer is a 5xx or does not come, and gives
up at once after a 3xx or 4xx. What it knows it keeps in memory.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel, ConfigDict, Field

from holdfast.base import Secret, decode, encode, new_id, world
from holdfast.catalog import Failure
from holdfast.http import Reply, Timeouts
from holdfast.http.asgi import Application
from holdfast.testing import Faulty
from holdfast_systems.commerce.loop_client import LoopClient
from holdfast_systems.commerce.pages.shop import Enter, shop_page
from holdfast_systems.commerce.standins.saleor_keys import ShopKeys

WAIT_S = 20.0
RETRIES_MAX = 5
ORDERS_MAX = 1_000
EVENT = "order_fully_paid"
TOKEN_BYTES = 24

Text = Annotated[str, Field(min_length=1, max_length=200)]


class OrderedLine(BaseModel):
    """What is bought."""

    model_config = ConfigDict(extra="forbid")
    productSku: Text  # noqa: N815 - the names that clients send
    quantity: Annotated[int, Field(ge=1, le=10_000)] = 1


class NewOrder(BaseModel):
    """An order that is paid in this moment."""

    model_config = ConfigDict(extra="forbid")
    userId: Text  # noqa: N815
    email: Text = "buyer@shop.example"
    lines: list[OrderedLine] = Field(min_length=1, max_length=100)


class Install(BaseModel):
    """An app to install."""

    model_config = ConfigDict(extra="forbid")
    manifestUrl: Text  # noqa: N815


@dataclass
class Paid:
    """An order, and what became of its webhook."""

    id: str
    body: bytes
    status: str = "pending"
    attempts: list[dict[str, Any]] = field(default_factory=list)
    reply: Any = None

    def told(self) -> dict[str, Any]:
        delivery = {"status": self.status, "attempts": self.attempts, "reply": self.reply}
        order: Any = decode(self.body)
        return {"orderId": self.id, **order, "delivery": delivery}


class Shop:
    """The shop's orders, its key and the apps that it has installed."""

    def __init__(self, *, address: str, webhook: str, secret: Secret, retry_s: float) -> None:
        """
        Args:
            webhook: where paid orders are sent, until an app is installed that names another place.
            secret: the webhooks' secret; without one they are signed with the shop's key.
        """
        self.keys = ShopKeys(secret)
        self._address = address
        self._webhook = webhook
        self._retry_s = retry_s
        self._client = LoopClient(Timeouts(connect_s=WAIT_S, read_s=WAIT_S, total_s=WAIT_S))
        self._orders: OrderedDict[str, Paid] = OrderedDict()
        self._apps: dict[str, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def pay(self, new: NewOrder) -> Paid:
        """Take an order, and tell of it; repeats follow in the background."""
        order = {
            "id": _global_id("Order"),
            "user": {"id": new.userId, "email": new.email},
            "lines": [{"id": _global_id("OrderLine"), **line.model_dump()} for line in new.lines],
        }
        paid = Paid(str(order["id"]), encode({"order": order}).encode())
        self._orders[paid.id] = paid
        while len(self._orders) > ORDERS_MAX:
            self._orders.popitem(last=False)
        await self.deliver(paid)
        if paid.status == "pending":
            task = asyncio.create_task(self._repeat(paid))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return paid

    def order(self, order_id: str) -> Paid:
        """An order.

        Raises:
            HTTPException: there is none.
        """
        if order_id not in self._orders:
            raise HTTPException(404, "There is no such order.")
        return self._orders[order_id]

    async def deliver(self, paid: Paid) -> None:
        """Send the webhook once, and note what came of it."""
        headers = {
            "content-type": "application/json",
            "saleor-event": EVENT,
            "saleor-domain": self._address.partition("://")[2].partition("/")[0],
            "saleor-api-url": f"{self._address}/graphql/",
            "saleor-signature": self.keys.signature(paid.body),
        }
        try:
            reply = await self._client.here.send("POST", self._webhook, body=paid.body, headers=headers)
        except Failure as failure:
            paid.attempts.append({"error": failure.code})
            return
        paid.attempts.append({"status": reply.status})
        if reply.ok:
            paid.status, paid.reply = "delivered", _json_of(reply)
        elif reply.status < 500 and paid.status != "delivered":
            paid.status = "failed"

    async def _repeat(self, paid: Paid) -> None:
        for number in range(RETRIES_MAX):
            await world().pause(self._retry_s * 2**number)
            await self.deliver(paid)
            if paid.status != "pending":
                return
        paid.status = "failed"

    async def install(self, manifest_url: str) -> dict[str, Any]:
        """Read the manifest, make a token and hand it over.

        Raises:
            HTTPException: the app did not take it.
        """
        manifest: Any = (await self._client.here.send("GET", manifest_url)).json()
        token, app_id = world().token_bytes(TOKEN_BYTES).hex(), _global_id("App")
        self._apps[token] = app_id
        headers = {"saleor-api-url": f"{self._address}/graphql/"}
        given = {"auth_token": token}
        reply = await self._client.here.send("POST", manifest["tokenTargetUrl"], json=given, headers=headers)
        if not reply.ok:
            del self._apps[token]
            raise HTTPException(502, "The app did not take its token.")
        self._webhook = str(manifest["webhooks"][0]["targetUrl"])
        return {"appId": app_id, "webhook": self._webhook}

    def app_of(self, authorization: str) -> dict[str, str] | None:
        """The app that a token was given to."""
        found = self._apps.get(authorization.removeprefix("Bearer "))
        return None if found is None else {"id": found}


def saleor_standin(*, address: str, webhook: str, secret: Secret, retry_s: float, enter: Enter) -> Application:
    """The stand-in, with switches for its faults.

    Args:
        enter: makes the link into a buyer's account, for the page.
    """
    shop = Shop(address=address, webhook=webhook, secret=secret, retry_s=retry_s)
    app = FastAPI(title="Stand-in for Saleor", docs_url=None, redoc_url=None, openapi_url=None)
    app.include_router(shop_page(enter))

    @app.get("/.well-known/jwks.json")
    async def key_set() -> dict[str, Any]:
        return shop.keys.published()

    @app.post("/graphql/")
    async def graphql(request: Request) -> dict[str, Any]:
        return {"data": {"app": shop.app_of(request.headers.get("authorization", ""))}}

    @app.post("/apps/install", status_code=201)
    async def install(asked: Install) -> dict[str, Any]:
        return await shop.install(asked.manifestUrl)

    @app.post("/orders", status_code=201)
    async def pay(new: NewOrder) -> dict[str, Any]:
        return (await shop.pay(new)).told()

    @app.get("/orders/{order_id}")
    async def show(order_id: str) -> dict[str, Any]:
        return shop.order(order_id).told()

    @app.post("/orders/{order_id}/redeliver")
    async def redeliver(order_id: str) -> dict[str, Any]:
        paid = shop.order(order_id)
        await shop.deliver(paid)
        return paid.told()

    return Faulty(app)


def _global_id(kind: str) -> str:
    """An id as the shop writes them."""
    return b64encode(f"{kind}:{new_id()}".encode()).decode()


def _json_of(reply: Reply) -> Any:
    try:
        return reply.json()
    except Failure:
        return None
