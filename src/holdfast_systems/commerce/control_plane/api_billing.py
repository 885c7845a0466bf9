"""The routes that gateways bill by, and those of wallets and paid orders."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from holdfast.guard import Answer
from holdfast.http import documented
from holdfast.store import Tx
from holdfast_systems.commerce.admission import caller_of
from holdfast_systems.commerce.control_plane import orders, wallets
from holdfast_systems.commerce.control_plane.billing import Authorize, Operation, Release, Settle
from holdfast_systems.commerce.control_plane.cursors import Cursors
from holdfast_systems.commerce.control_plane.fields import (
    CREDITS_MAX,
    PAGE_ROWS,
    QUANTITY_MAX,
    Credits,
    Cursor,
    Identifier,
    IdPath,
    Limit,
)
from holdfast_systems.commerce.control_plane.ledger import Ledger
from holdfast_systems.commerce.control_plane.service import Service, Told, require_key, told
from holdfast_systems.commerce.faults import (
    COMMERCE,
    IDEMPOTENCY_KEY_MALFORMED,
    IDEMPOTENCY_KEY_REQUIRED,
    INSTANCE_NOT_FOUND,
    INSTANCE_PAUSED,
    NOT_ENTITLED,
    RESERVATION_NOT_FOUND,
    RESERVATION_RELEASED,
    RESERVATION_SETTLED,
    SETTLE_EXCEEDS_RESERVATION,
    UNKNOWN_SKU,
    WALLET_NOT_FOUND,
)

MISMATCH = COMMERCE["IDEMPOTENCY_PAYLOAD_MISMATCH"]


class AuthorizeBody(BaseModel):
    """A run that wants to hold credits."""

    model_config = ConfigDict(extra="forbid")
    instanceId: Identifier  # noqa: N815 - the names that clients send
    requestedBudget: Credits  # noqa: N815
    runId: Identifier  # noqa: N815


class SettleBody(BaseModel):
    """What a run used."""

    model_config = ConfigDict(extra="forbid")
    reservationId: Identifier  # noqa: N815
    amount: Annotated[int, Field(ge=0, le=CREDITS_MAX, strict=True)]


class ReleaseBody(BaseModel):
    """A run that did not happen."""

    model_config = ConfigDict(extra="forbid")
    reservationId: Identifier  # noqa: N815


class TopUp(BaseModel):
    """Credits to add."""

    model_config = ConfigDict(extra="forbid")
    credits: Credits


class User(BaseModel):
    """Who bought."""

    id: Identifier
    email: Annotated[str, Field(max_length=320)] = ""


class PaidLine(BaseModel):
    """One line of a paid order."""

    model_config = ConfigDict(extra="forbid")
    orderId: Identifier  # noqa: N815
    lineId: Identifier  # noqa: N815
    productSku: Identifier  # noqa: N815
    quantity: Annotated[int, Field(ge=1, le=QUANTITY_MAX, strict=True)]
    user: User


def billing_routes(ledger: Ledger) -> APIRouter:
    """Authorize, settle, release: idempotent by the run and the reservation, without a key."""
    routes = APIRouter(prefix="/billing", tags=["billing"])

    async def booked(operation: Operation) -> Response:
        return told(Answer.of_json(await ledger.book_async(operation)))

    @routes.post(
        "/authorize",
        summary="Hold credits for a run",
        responses=documented(INSTANCE_NOT_FOUND, INSTANCE_PAUSED, MISMATCH),
    )
    async def authorize(request: Request, asked: AuthorizeBody) -> Response:
        tenant = caller_of(request.scope).tenant
        return await booked(Authorize(asked.instanceId, asked.runId, asked.requestedBudget, tenant))

    @routes.post(
        "/settle",
        summary="Charge a run",
        responses=documented(RESERVATION_NOT_FOUND, RESERVATION_RELEASED, SETTLE_EXCEEDS_RESERVATION, MISMATCH),
    )
    async def settle(request: Request, asked: SettleBody) -> Response:
        return await booked(Settle(asked.reservationId, asked.amount, caller_of(request.scope).tenant))

    @routes.post(
        "/release",
        summary="Give back what a run holds",
        responses=documented(RESERVATION_NOT_FOUND, RESERVATION_SETTLED),
    )
    async def release(request: Request, asked: ReleaseBody) -> Response:
        return await booked(Release(asked.reservationId, caller_of(request.scope).tenant))

    return routes


def wallet_routes(service: Service, cursors: Cursors) -> APIRouter:
    """Wallets, their entries, and credits that an operator adds."""
    routes = APIRouter(prefix="/wallets", tags=["wallets"])

    @routes.get("/{wallet_id}", summary="A wallet", responses=documented(WALLET_NOT_FOUND))
    async def show(request: Request, wallet_id: IdPath) -> Response:
        caller = caller_of(request.scope)
        return await service.read(lambda tx: wallets.show(tx, wallet_id, caller))

    @routes.get("/{wallet_id}/entries", summary="The ledger of a wallet", responses=documented(WALLET_NOT_FOUND))
    async def entries(request: Request, wallet_id: IdPath, cursor: Cursor = None, limit: Limit = PAGE_ROWS) -> Response:
        caller = caller_of(request.scope)
        before = int(cursors.read(cursor, of=f"entries:{wallet_id}") or wallets.FIRST)

        def page(tx: Tx) -> dict[str, Any]:
            wallets.show(tx, wallet_id, caller)
            found = wallets.entries(tx, wallet_id, before=before, count=limit + 1)
            following = None
            if len(found) > limit:
                following = cursors.write(str(found[limit - 1]["number"]), of=f"entries:{wallet_id}")
            return {"walletId": wallet_id, "entries": found[:limit], "nextCursor": following}

        return await service.read(page)

    @routes.post(
        "/{wallet_id}/topups",
        status_code=201,
        summary="Add credits",
        responses=documented(WALLET_NOT_FOUND, IDEMPOTENCY_KEY_REQUIRED, MISMATCH),
    )
    async def top_up(request: Request, wallet_id: IdPath, asked: TopUp) -> Response:
        caller, key = caller_of(request.scope), require_key(request)

        def phase(tx: Tx) -> Told:
            made = wallets.top_up(tx, wallet_id, caller, credits=asked.credits, key=key)
            return Told(made, 201, {"ledgerEntryId": made["ledgerEntryId"]})

        return await service.operate(request, "top_up", f"wallet:{wallet_id}", phase)

    return routes


def order_routes(service: Service) -> APIRouter:
    """Paid orders of the shop, line by line."""
    routes = APIRouter(prefix="/integrations/saleor", tags=["orders"])

    @routes.post(
        "/order-paid",
        summary="Provision one line of a paid order",
        responses=documented(IDEMPOTENCY_KEY_REQUIRED, IDEMPOTENCY_KEY_MALFORMED, UNKNOWN_SKU, MISMATCH),
    )
    async def order_paid(request: Request, paid: PaidLine) -> Response:
        line = orders.Line(
            order_id=paid.orderId,
            line_id=paid.lineId,
            sku=paid.productSku,
            quantity=paid.quantity,
            tenant=paid.user.id,
        )
        if not caller_of(request.scope).sees(line.tenant):
            raise NOT_ENTITLED()
        if require_key(request) != line.key:
            raise IDEMPOTENCY_KEY_MALFORMED(expected=line.key)

        def phase(tx: Tx) -> Told:
            made = orders.provision(tx, line)
            created = {"instanceId": made["instanceId"], "ledgerEntryId": made["ledgerEntryId"]}
            resources = {name: value for name, value in created.items() if value is not None}
            # A caller that repeats the request is told so.
            return Told(made, resources=resources, again={**made, "status": orders.ALREADY_PROCESSED})

        return await service.write(request, phase)

    return routes
