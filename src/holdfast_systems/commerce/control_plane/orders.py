"""Paid orders: each line becomes one entry of the ledger and, where it buys an agent, one instance.

Always true: a line has one entry for ever, whatever keys it comes with, because the ledger holds its order and line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holdfast.store import Tx
from holdfast_systems.commerce.control_plane import instances, plans, wallets
from holdfast_systems.commerce.faults import COMMERCE, UNKNOWN_SKU
from holdfast_systems.commerce.model import EntryKind, PlanKind

CREATED, ALREADY_PROCESSED = "created", "already_processed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a paid order."""

    order_id: str
    line_id: str
    sku: str
    quantity: int
    tenant: str

    @property
    def key(self) -> str:
        """The idempotency key of this line."""
        return f"saleor:{self.order_id}:{self.line_id}"


def provision(tx: Tx, line: Line) -> dict[str, Any]:
    """Provision a line, unless that was done before.

    Raises:
        Failure: UNKNOWN_SKU; IDEMPOTENCY_PAYLOAD_MISMATCH when the line was provisioned as something else.
    """
    # A concurrent call with the same line waits here for the same wallet.
    wallet = wallets.opened(tx, line.tenant)
    known = tx.records("ledger.entry_of_line", order_id=line.order_id, line_id=line.line_id)
    if known:
        entry = known[0]
        if (entry["wallet_id"], entry["sku"], entry["quantity"]) != (wallet.id, line.sku, line.quantity):
            raise COMMERCE["IDEMPOTENCY_PAYLOAD_MISMATCH"](orderId=line.order_id, lineId=line.line_id)
        return _told(line, entry["instance_id"], wallet.id, entry["id"], ALREADY_PROCESSED)
    plan = plans.find_plan(tx, line.sku)
    if plan is None:
        raise UNKNOWN_SKU(productSku=line.sku)
    instance_id = None
    if plan["kind"] == PlanKind.AGENT:
        made_for = {"order_id": line.order_id, "line_id": line.line_id}
        new = instances.NewInstance(tenant=line.tenant, wallet_id=wallet.id, plan=plan, **made_for)
        instance_id = instances.add(tx, new)
    payment = wallets.Payment(
        kind=EntryKind.PURCHASE if instance_id else EntryKind.TOPUP,
        credits=plan["credits"] * line.quantity,
        instance_id=instance_id,
        order_id=line.order_id,
        line_id=line.line_id,
        sku=line.sku,
        quantity=line.quantity,
    )
    return _told(line, instance_id, wallet.id, wallets.pay_in(tx, wallet, payment), CREATED)


def _told(line: Line, instance_id: str | None, wallet_id: str, entry_id: str, status: str) -> dict[str, Any]:
    return {
        "lineId": line.line_id,
        "instanceId": instance_id,
        "walletId": wallet_id,
        "ledgerEntryId": entry_id,
        "status": status,
    }
