"""The routes that the shop calls. The signature is the proof; there is no token.

Always true: nothing of a message is believed before its signature is verified, and a failure of our own is never
answered with a 4xx, after which the shop would not send the order again.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, Field

from holdfast.base import Secret
from holdfast.catalog import Catalog, Failure
from holdfast.delivery import SaleorSignature
from holdfast.guard import Answer
from holdfast.http import BodyRule, Edge, describe, documented
from holdfast.http.asgi import Application, Scope
from holdfast.http.aside import aside
from holdfast.http.origin import origin_of
from holdfast.store import Store, Tx
from holdfast.store.sealing import seal
from holdfast_systems.commerce.faults import (
    INSTALLATION_REFUSED,
    INVALID_REQUEST,
    INVALID_SIGNATURE,
    PROVISIONING_INCOMPLETE,
    REMAP,
)
from holdfast_systems.commerce.provisioner.links import Shop
from holdfast_systems.commerce.provisioner.provisioning import Provisioning

EVENT = "order_fully_paid"
ORDER_PAID = "/webhooks/saleor/order-fully-paid"
INSTALL = "/webhooks/saleor/app-install"
BODY_BYTES_MAX = 1_048_576
QUERY = (
    "subscription { event { ... on OrderFullyPaid { order { id user { id email } userEmail "
    "lines { id productSku quantity } } } } }"
)
JSON = "application/json"
REFUSED = 401


class Installation(BaseModel):
    """What the shop hands over when the app is installed."""

    auth_token: Annotated[str, Field(min_length=1, max_length=500)]


class Signatures:
    """Whether the shop made a signature: with its published key or, where a secret is set, with that."""

    def __init__(self, shop: Shop, address: str, secret: Secret) -> None:
        origins = [origin_of(address)] if address else []
        self._published = SaleorSignature(origins=origins, fetch=shop.keys) if origins else None
        self._shared = SaleorSignature()
        self._secrets = [secret] if secret else []

    async def check(self, scope: Scope, body: bytes) -> None:
        """Refuse a message that the shop did not sign.

        Raises:
            Failure: INVALID_SIGNATURE; SIGNING_KEYS_UNAVAILABLE when nobody can tell at the moment.
        """
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
        detached = any(name.lower() == "saleor-signature" and ".." in value for name, value in headers)
        try:
            if self._secrets and not detached:
                self._shared.verify(headers, body, secrets=self._secrets)
            elif self._published is not None:
                published = self._published
                # It may have to fetch the keys.
                await aside(lambda: published.verify(headers, body))
            else:
                raise INVALID_SIGNATURE()
        except Failure as failure:
            raise INVALID_SIGNATURE() if failure.status == REFUSED else failure from None


def application(
    provisioning: Provisioning,
    signatures: Signatures,
    shop: Shop,
    *,
    store: Store,
    catalog: Catalog,
    address: str,
    saleor: str,
) -> Application:
    """The provisioner as an ASGI application."""
    app = FastAPI(title="Provisioner", docs_url=None, redoc_url=None, redirect_slashes=False)

    @app.post(
        ORDER_PAID,
        summary="An order was paid in full",
        responses=documented(INVALID_SIGNATURE, INVALID_REQUEST, PROVISIONING_INCOMPLETE),
    )
    async def order_paid(request: Request) -> Response:
        body = await request.body()
        await signatures.check(request.scope, body)
        if request.headers.get("saleor-event", EVENT).lower() != EVENT:
            raise INVALID_REQUEST("This address takes {expected}.", field="Saleor-Event", expected=EVENT)
        return _json(await provisioning.take(body))

    @app.post(INSTALL, summary="The app was installed in the shop", responses=documented(INSTALLATION_REFUSED))
    async def install(request: Request, given: Installation) -> Response:
        named = request.headers.get("saleor-api-url", "")
        origin = origin_of(saleor) if saleor else ""
        if not origin or (named and origin_of(named) != origin):
            raise INSTALLATION_REFUSED()
        token = Secret(given.auth_token)
        app_id = await aside(lambda: shop.app_id(token))

        def keep(tx: Tx) -> None:
            tx.run("provisioner.keep_shop", origin=origin, app_id=app_id, token=seal(token, f"shop:{origin}"))

        await store.atomic_async(keep, repeatable=True)
        return _json({"success": True})

    @app.get("/manifest", summary="What the shop needs to install this app")
    async def manifest() -> Response:
        return _json(_manifest(address))

    describe(app, catalog=catalog, remap=REMAP)
    signed = BodyRule(bytes_max=BODY_BYTES_MAX, json_checked=False)
    plain = BodyRule(bytes_max=BODY_BYTES_MAX)
    return Edge(
        app,
        catalog=catalog,
        remap=REMAP,
        body=lambda scope: signed if str(scope["path"]).endswith(ORDER_PAID) else plain,
    )


def _manifest(address: str) -> dict[str, Any]:
    return {
        "id": "holdfast.commerce",
        "version": "1.0.0",
        "name": "Holdfast provisioner",
        "permissions": ["MANAGE_ORDERS"],
        "appUrl": address,
        "tokenTargetUrl": f"{address}{INSTALL}",
        "webhooks": [
            {
                "name": "Order fully paid",
                "asyncEvents": ["ORDER_FULLY_PAID"],
                "query": QUERY,
                "targetUrl": f"{address}{ORDER_PAID}",
                "isActive": True,
            }
        ],
    }


def _json(document: Any) -> Response:
    return Response(Answer.of_json(document).body, media_type=JSON, headers={"cache-control": "no-store"})
