"""Wallets: shown, paid into, and their entries page by page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holdfast.base import utc_text
from holdfast.catalog.core import TRANSACTION_ROLLED_BACK
from holdfast.store import Tx
from holdfast_systems.commerce.admission import Caller
from holdfast_systems.commerce.control_plane.billing import Wallet
from holdfast_systems.commerce.faults import COMMERCE, WALLET_NOT_FOUND
from holdfast_systems.commerce.model import ENTRY, WALLET, EntryKind, make_id

FIRST = 2**62
"""Above every number of an entry: where the first page begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Payment:
    """Credits that come into a wallet, and what for."""

    kind: EntryKind
    credits: int
    instance_id: str | None = None
    order_id: str | None = None
    line_id: str | None = None
    sku: str | None = None
    quantity: int | None = None
    key: str | None = None
    """Of a top-up: what makes a repeat the same one for ever."""


def show(tx: Tx, wallet_id: str, caller: Caller) -> dict[str, Any]:
    """A wallet.

    Raises:
        Failure: WALLET_NOT_FOUND, also for one of another tenant.
    """
    found = tx.records("ledger.wallet", id=wallet_id)
    if not found or not caller.sees(found[0]["tenant"]):
        raise WALLET_NOT_FOUND(walletId=wallet_id)
    return shown(found[0])


def of_tenant(tx: Tx, tenant: str) -> dict[str, Any] | None:
    """The wallet of a tenant; None before the first order."""
    found = tx.records("ledger.wallet_of", tenant=tenant)
    return shown(found[0]) if found else None


def shown(row: dict[str, Any]) -> dict[str, Any]:
    """A wallet as the API tells it."""
    return {
        "walletId": row["id"],
        "tenant": row["tenant"],
        "available": row["available"],
        "held": row["held"],
        "spent": row["spent"],
        "paidIn": row["paid_in"],
    }


def opened(tx: Tx, tenant: str) -> Wallet:
    """The wallet of a tenant, locked; a new one where there is none."""
    tx.run("ledger.open_wallet", id=make_id(WALLET), tenant=tenant)
    row = tx.row("ledger.lock_wallet_of", tenant=tenant)
    assert row is not None
    return Wallet(*row)


def locked(tx: Tx, wallet_id: str, caller: Caller) -> Wallet:
    """A wallet, locked.

    Raises:
        Failure: WALLET_NOT_FOUND, also for one of another tenant.
    """
    row = tx.row("ledger.lock_wallets", ids=[wallet_id])
    if row is None or not caller.sees(row[1]):
        raise WALLET_NOT_FOUND(walletId=wallet_id)
    return Wallet(*row)


def pay_in(tx: Tx, wallet: Wallet, payment: Payment) -> str:
    """Add credits to a wallet that is locked, with their entry; the id of the entry.

    Raises:
        Failure: TRANSACTION_ROLLED_BACK when the wallet is not as it was read.
    """
    after = tx.row("ledger.pay_in", id=wallet.id, credits=payment.credits, entry_count=wallet.entry_count)
    if after is None:
        raise TRANSACTION_ROLLED_BACK()
    wallet.available, wallet.held, wallet.spent, wallet.paid_in, wallet.entry_count = after
    entry_id = make_id(ENTRY)
    tx.run(
        "ledger.add_entry",
        wallet_id=wallet.id,
        number=wallet.entry_count,
        id=entry_id,
        kind=payment.kind.value,
        credits=payment.credits,
        available=wallet.available,
        held=wallet.held,
        spent=wallet.spent,
        paid_in=wallet.paid_in,
        instance_id=payment.instance_id,
        order_id=payment.order_id,
        line_id=payment.line_id,
        sku=payment.sku,
        quantity=payment.quantity,
        key=payment.key,
    )
    return entry_id


def top_up(tx: Tx, wallet_id: str, caller: Caller, *, credits: int, key: str) -> dict[str, Any]:
    """Add credits; under the same key, once for ever.

    Raises:
        Failure: WALLET_NOT_FOUND; IDEMPOTENCY_PAYLOAD_MISMATCH when the key paid in another amount before.
    """
    wallet = locked(tx, wallet_id, caller)
    known = tx.row("ledger.entry_of_key", wallet_id=wallet.id, key=key)
    if known is not None and known[1] != credits:
        raise COMMERCE["IDEMPOTENCY_PAYLOAD_MISMATCH"](walletId=wallet.id)
    entry_id = (
        pay_in(tx, wallet, Payment(kind=EntryKind.TOPUP, credits=credits, key=key)) if known is None else known[0]
    )
    found = tx.records("ledger.wallet", id=wallet.id)[0]
    return {**shown(found), "ledgerEntryId": entry_id, "credits": credits}


def entries(tx: Tx, wallet_id: str, *, before: int, count: int) -> list[dict[str, Any]]:
    """Entries of a wallet below a number, newest first."""
    found = tx.records("ledger.entries", wallet_id=wallet_id, before=before, count=count)
    return [_entry(row) for row in found]


def _entry(row: dict[str, Any]) -> dict[str, Any]:
    after = {"available": row["available"], "held": row["held"], "spent": row["spent"], "paidIn": row["paid_in"]}
    told: dict[str, Any] = {
        "ledgerEntryId": row["id"],
        "number": row["number"],
        "kind": row["kind"],
        "credits": row["credits"],
        "balance": after,
        "instanceId": row["instance_id"],
        "createdAt": utc_text(row["created_us"]),
    }
    if row["kind"] == EntryKind.CHARGE:
        told |= {"runId": row["run_id"], "reservationId": row["reservation_id"]}
    if row["order_id"] is not None:
        told |= {"orderId": row["order_id"], "lineId": row["line_id"], "sku": row["sku"], "quantity": row["quantity"]}
    return {**told, "late": True, "shortfall": row["shortfall"]} if row["late"] else told
