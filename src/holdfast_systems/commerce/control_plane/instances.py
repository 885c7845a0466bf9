"""Instances: an agent that a tenant has, with the plan and the offering that it came with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holdfast.base import decode, encode, utc_text
from holdfast.store import Tx
from holdfast_systems.commerce.admission import Caller
from holdfast_systems.commerce.control_plane import plans, wallets
from holdfast_systems.commerce.faults import INSTANCE_NOT_FOUND, NOT_ENTITLED
from holdfast_systems.commerce.model import INSTANCE, BindingStatus, InstanceStatus, PlanKind, make_id

SECRET_PATH = "offerings/{offering}/{tool}"  # noqa: S105 - where a secret is, not the secret
"""Where the vault has the secret of an offering's tool, until a binding of the instance names another place."""
LAST = f"{INSTANCE}_~"
"""Above every id: where the first page of a list begins, newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewInstance:
    """What an instance is made from."""

    tenant: str
    wallet_id: str
    plan: dict[str, Any]
    offering_id: str | None = None
    """Another one than the plan's."""
    name: str = ""
    order_id: str | None = None
    line_id: str | None = None


def add(tx: Tx, new: NewInstance) -> str:
    """Make an instance that may use the tools of its offering, with a binding for each; its id.

    Raises:
        Failure: OFFERING_NOT_FOUND.
    """
    offering = plans.offering(tx, new.offering_id or new.plan["offering"])
    identifier = make_id(INSTANCE)
    tx.run(
        "control_plane.add_instance",
        id=identifier,
        tenant=new.tenant,
        wallet_id=new.wallet_id,
        plan_sku=new.plan["sku"],
        offering_id=offering["offering"],
        name=new.name or offering["title"],
        order_id=new.order_id,
        line_id=new.line_id,
        tools=encode(offering["tools"]),
        origins="[]",
    )
    for tool in offering["tools"]:
        tx.run(
            "control_plane.put_binding",
            instance_id=identifier,
            tool=tool,
            status=BindingStatus.ACTIVE.value,
            fields="{}",
            secret_path=SECRET_PATH.format(offering=offering["offering"], tool=tool),
        )
    return identifier


def create(tx: Tx, *, tenant: str, sku: str, offering_id: str | None, name: str) -> dict[str, Any]:
    """Make an instance without an order: it brings no credits, since nobody paid for any.

    Raises:
        Failure: PLAN_NOT_FOUND, OFFERING_NOT_FOUND; NOT_ENTITLED for a plan that is not an agent.
    """
    plan = plans.plan(tx, sku)
    if plan["kind"] != PlanKind.AGENT:
        raise NOT_ENTITLED("A top-up makes no instance.", plan=sku)
    wallet = wallets.opened(tx, tenant)
    new = NewInstance(tenant=tenant, wallet_id=wallet.id, plan=plan, offering_id=offering_id, name=name)
    return shown(_row(tx, add(tx, new)))


def show(tx: Tx, instance_id: str, caller: Caller) -> dict[str, Any]:
    """An instance.

    Raises:
        Failure: INSTANCE_NOT_FOUND, also for one of another tenant.
    """
    return shown(visible(tx, instance_id, caller))


def visible(tx: Tx, instance_id: str, caller: Caller) -> dict[str, Any]:
    """The row of an instance that exists for the caller.

    Raises:
        Failure: INSTANCE_NOT_FOUND.
    """
    found = tx.records("control_plane.instance", id=instance_id)
    if not found or not caller.sees(found[0]["tenant"]):
        raise INSTANCE_NOT_FOUND(instanceId=instance_id)
    return found[0]


def listed(tx: Tx, tenant: str, *, before: str, count: int) -> list[dict[str, Any]]:
    """Instances of a tenant, newest first."""
    return [shown(row) for row in tx.records("control_plane.instances", tenant=tenant, before=before, count=count)]


def set_status(tx: Tx, instance_id: str, caller: Caller, status: InstanceStatus) -> dict[str, Any]:
    """Pause or resume; one that is in that state already stays in it.

    Raises:
        Failure: INSTANCE_NOT_FOUND.
    """
    row = visible(tx, instance_id, caller)
    was = InstanceStatus.PAUSED if status is InstanceStatus.ACTIVE else InstanceStatus.ACTIVE
    tx.run("control_plane.set_status", id=instance_id, status=status.value, was=was.value)
    return shown({**row, "status": status.value})


def shown(row: dict[str, Any]) -> dict[str, Any]:
    """An instance as the API tells it."""
    return {
        "instanceId": row["id"],
        "tenant": row["tenant"],
        "walletId": row["wallet_id"],
        "plan": row["plan_sku"],
        "offering": row["offering_id"],
        "name": row["name"],
        "status": row["status"],
        "softFail": bool(row["soft_fail"]),
        "limits": decode(row["limits"]),
        "runBudget": row["run_budget"],
        "runTimeoutS": row["run_timeout_us"] / 1_000_000,
        "flow": row["flow"],
        "origins": decode(row["origins"]),
        "ragDatasetId": row["rag_dataset_id"],
        "createdAt": utc_text(row["created_us"]),
    }


def _row(tx: Tx, instance_id: str) -> dict[str, Any]:
    return tx.records("control_plane.instance", id=instance_id)[0]
