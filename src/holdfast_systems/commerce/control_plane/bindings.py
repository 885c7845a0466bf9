"""How an instance uses tools: its allowlist, its bindings, and what it is entitled to.

Always true: a binding holds the path of a secret, never the secret itself.
"""

from __future__ import annotations

from typing import Any

from holdfast.base import decode, encode, utc_text
from holdfast.store import Tx
from holdfast_systems.commerce.admission import Caller
from holdfast_systems.commerce.control_plane import instances, plans
from holdfast_systems.commerce.faults import BINDING_NOT_FOUND

LISTED_MAX = 200


def allowlist(tx: Tx, instance_id: str, caller: Caller) -> dict[str, Any]:
    """The tools that an instance may use, and the websites that may embed it.

    Raises:
        Failure: INSTANCE_NOT_FOUND.
    """
    row = instances.visible(tx, instance_id, caller)
    return {"instanceId": instance_id, "tools": decode(row["tools"]), "origins": decode(row["origins"])}


def put_allowlist(tx: Tx, instance_id: str, caller: Caller, *, tools: list[str], origins: list[str]) -> dict[str, Any]:
    """Replace both lists.

    Raises:
        Failure: INSTANCE_NOT_FOUND.
    """
    instances.visible(tx, instance_id, caller)
    tx.run("control_plane.set_allowlist", id=instance_id, tools=encode(tools), origins=encode(origins))
    return allowlist(tx, instance_id, caller)


def bindings(tx: Tx, instance_id: str, caller: Caller) -> list[dict[str, Any]]:
    """Every binding of an instance.

    Raises:
        Failure: INSTANCE_NOT_FOUND.
    """
    instances.visible(tx, instance_id, caller)
    found = tx.records("control_plane.bindings", instance_id=instance_id, count=LISTED_MAX)
    return [_shown(instance_id, row) for row in found]


def binding(tx: Tx, instance_id: str, tool: str, caller: Caller) -> dict[str, Any]:
    """How an instance uses a tool.

    Raises:
        Failure: INSTANCE_NOT_FOUND, BINDING_NOT_FOUND.
    """
    instances.visible(tx, instance_id, caller)
    found = tx.records("control_plane.binding", instance_id=instance_id, tool=tool)
    if not found:
        raise BINDING_NOT_FOUND(instanceId=instance_id, tool=tool)
    return _shown(instance_id, found[0])


def put_binding(tx: Tx, instance_id: str, tool: str, caller: Caller, document: dict[str, Any]) -> dict[str, Any]:
    """Create a binding, or replace it.

    Raises:
        Failure: INSTANCE_NOT_FOUND.
    """
    instances.visible(tx, instance_id, caller)
    tx.run(
        "control_plane.put_binding",
        instance_id=instance_id,
        tool=tool,
        status=document["status"],
        fields=encode(document["fields"]),
        secret_path=document["secretPath"],
    )
    return binding(tx, instance_id, tool, caller)


def entitlements(tx: Tx, instance_id: str, caller: Caller) -> dict[str, Any]:
    """What an instance may do: the capabilities of its plan, with what was granted or taken away since.

    Raises:
        Failure: INSTANCE_NOT_FOUND.
    """
    row = instances.visible(tx, instance_id, caller)
    plan = plans.plan(tx, row["plan_sku"])
    own = {name: bool(granted) for name, granted in tx.rows("control_plane.entitlements", instance_id=instance_id)}
    granted = {**dict.fromkeys(plan["capabilities"], True), **own}
    capabilities = sorted(name for name, given in granted.items() if given)
    return {"instanceId": instance_id, "plan": plan["sku"], "overrides": own, "capabilities": capabilities}


def put_entitlements(tx: Tx, instance_id: str, caller: Caller, overrides: dict[str, bool]) -> dict[str, Any]:
    """Replace what was granted or taken away beside the plan.

    Raises:
        Failure: INSTANCE_NOT_FOUND.
    """
    instances.visible(tx, instance_id, caller)
    tx.run("control_plane.clear_entitlements", instance_id=instance_id)
    for capability, granted in sorted(overrides.items()):
        tx.run("control_plane.put_entitlement", instance_id=instance_id, capability=capability, granted=int(granted))
    return entitlements(tx, instance_id, caller)


def _shown(instance_id: str, row: dict[str, Any]) -> dict[str, Any]:
    return {
        "instanceId": instance_id,
        "tool": row["tool"],
        "status": row["status"],
        "fields": decode(row["fields"]),
        "secretPath": row["secret_path"],
        "updatedAt": utc_text(row["updated_us"]),
    }
