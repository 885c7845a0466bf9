"""What is sold: offerings (a flow with its tools) and plans (a product code of the shop, and what it buys)."""

from __future__ import annotations

from typing import Any

from holdfast.base import decode, encode, utc_text
from holdfast.store import Store, Tx
from holdfast_systems.commerce.faults import OFFERING_NOT_FOUND, PLAN_NOT_FOUND
from holdfast_systems.commerce.model import PlanKind

LISTED_MAX = 500
RUN_TIMEOUT_S = 60.0
DEMO_OFFERING = "assistant"
DEMO_TOOLS = ["weather.read", "crm.note", "crm.order"]

OFFERINGS: tuple[dict[str, Any], ...] = (
    {"id": DEMO_OFFERING, "title": "Assistant", "flow": "assistant", "tools": DEMO_TOOLS},
)
"""Those that exist on the first start."""


def limits_of(requests: int, runs: int, tools: int, *, sessions: int = 60, chats: int = 30) -> dict[str, int]:
    """The limits of a plan: per minute, but for the runs at once."""
    return {
        "requestsPerMinute": requests,
        "concurrentRuns": runs,
        "toolCallsPerMinute": tools,
        "sessionsPerMinute": sessions,
        "chatsPerMinute": chats,
    }


DEFAULT_LIMITS = limits_of(60, 5, 60)


def _plan(sku: str, kind: PlanKind, title: str, credits: int, **more: Any) -> dict[str, Any]:
    return {
        "sku": sku,
        "kind": kind.value,
        "title": title,
        "credits": credits,
        "offering": DEMO_OFFERING if kind is PlanKind.AGENT else None,
        "softFail": False,
        "runBudget": 5,
        "runTimeoutS": RUN_TIMEOUT_S,
        "limits": DEFAULT_LIMITS,
        "capabilities": ["tools", "rag"],
        **more,
    }


PLANS = (
    _plan("agent-trial", PlanKind.AGENT, "Trial", 20, softFail=True, runBudget=2, limits=limits_of(20, 2, 20)),
    _plan("agent-basic", PlanKind.AGENT, "Basic", 100),
    _plan("credits-100", PlanKind.TOPUP, "100 credits", 100, capabilities=[]),
)
"""Those that exist on the first start."""


def seed(store: Store) -> None:
    """Create what a newcomer needs, unless it exists; what an operator has changed stays as it is."""

    def phase(tx: Tx) -> None:
        for offering in OFFERINGS:
            tx.run("control_plane.seed_offering", **_offering_row(offering))
        for plan in PLANS:
            tx.run("control_plane.seed_plan", **_plan_row(plan))

    store.atomic(phase, repeatable=True)


def offerings(tx: Tx) -> list[dict[str, Any]]:
    """Every offering."""
    return [_offering(row) for row in tx.records("control_plane.offerings", count=LISTED_MAX)]


def offering(tx: Tx, offering_id: str) -> dict[str, Any]:
    """An offering.

    Raises:
        Failure: OFFERING_NOT_FOUND.
    """
    found = tx.records("control_plane.offering", id=offering_id)
    if not found:
        raise OFFERING_NOT_FOUND(offering=offering_id)
    return _offering(found[0])


def put_offering(tx: Tx, document: dict[str, Any]) -> dict[str, Any]:
    """Create an offering, or replace it."""
    tx.run("control_plane.put_offering", **_offering_row(document))
    return offering(tx, document["id"])


def plans(tx: Tx) -> list[dict[str, Any]]:
    """Every plan."""
    return [_shown(row) for row in tx.records("control_plane.plans", count=LISTED_MAX)]


def plan(tx: Tx, sku: str) -> dict[str, Any]:
    """A plan.

    Raises:
        Failure: PLAN_NOT_FOUND.
    """
    found = find_plan(tx, sku)
    if found is None:
        raise PLAN_NOT_FOUND(sku=sku)
    return found


def find_plan(tx: Tx, sku: str) -> dict[str, Any] | None:
    """A plan; None when there is none of this product code."""
    found = tx.records("control_plane.plan", sku=sku)
    return _shown(found[0]) if found else None


def put_plan(tx: Tx, document: dict[str, Any]) -> dict[str, Any]:
    """Create a plan, or replace it; instances and credits that were sold before keep what they have.

    Raises:
        Failure: OFFERING_NOT_FOUND.
    """
    if document["offering"] is not None:
        offering(tx, document["offering"])
    tx.run("control_plane.put_plan", **_plan_row(document))
    return plan(tx, document["sku"])


def _offering_row(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "tools": encode(document["tools"])}


def _offering(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "offering": row["id"],
        "title": row["title"],
        "flow": row["flow"],
        "tools": decode(row["tools"]),
        "updatedAt": utc_text(row["updated_us"]),
    }


def _plan_row(document: dict[str, Any]) -> dict[str, Any]:
    return {
        "sku": document["sku"],
        "kind": document["kind"],
        "title": document["title"],
        "credits": document["credits"],
        "offering_id": document["offering"],
        "soft_fail": int(document["softFail"]),
        "run_budget": document["runBudget"],
        "run_timeout_us": round(document["runTimeoutS"] * 1_000_000),
        "limits": encode(document["limits"]),
        "capabilities": encode(document["capabilities"]),
    }


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "sku": row["sku"],
        "kind": row["kind"],
        "title": row["title"],
        "credits": row["credits"],
        "offering": row["offering_id"],
        "softFail": bool(row["soft_fail"]),
        "runBudget": row["run_budget"],
        "runTimeoutS": row["run_timeout_us"] / 1_000_000,
        "limits": decode(row["limits"]),
        "capabilities": decode(row["capabilities"]),
        "updatedAt": utc_text(row["updated_us"]),
    }
