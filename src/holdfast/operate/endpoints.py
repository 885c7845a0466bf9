"""Webhook endpoints: disable, enable, remove."""

from __future__ import annotations

from holdfast.catalog.core import BAD_REQUEST
from holdfast.delivery.endpoints import disable_endpoint, enable_endpoint, remove_endpoint
from holdfast.operate.actor import Actor
from holdfast.operate.audit import Outcome, new_action, perform
from holdfast.store import Store


def disable(store: Store, endpoint_id: str, *, actor: Actor, reason: str | None, tenant: str | None = None) -> Outcome:
    """Send nothing more to it; what is under way ends as a dead letter.

    Raises:
        Failure: ENDPOINT_NOT_FOUND; BAD_REQUEST when there is no reason.
    """
    action = new_action(actor, "disable", f"endpoint:{endpoint_id}", reason)
    if not reason:
        raise BAD_REQUEST("{field} is missing: everybody who looks at the endpoint reads it.", field="reason")
    changed = perform(store, action, lambda tx: disable_endpoint(tx, endpoint_id, reason, tenant=tenant))
    return Outcome(action.id, changed)


def enable(
    store: Store, endpoint_id: str, *, actor: Actor, reason: str | None = None, tenant: str | None = None
) -> Outcome:
    """Send to it again; what it missed meanwhile is among the dead letters.

    Raises:
        Failure: ENDPOINT_NOT_FOUND.
    """
    action = new_action(actor, "enable", f"endpoint:{endpoint_id}", reason)
    changed = perform(store, action, lambda tx: enable_endpoint(tx, endpoint_id, reason, tenant=tenant))
    return Outcome(action.id, changed)


def remove(
    store: Store, endpoint_id: str, *, actor: Actor, reason: str | None = None, tenant: str | None = None
) -> Outcome:
    """Delete it and its secrets for good; what is under way ends as a dead letter.

    Raises:
        Failure: ENDPOINT_NOT_FOUND.
    """
    action = new_action(actor, "remove", f"endpoint:{endpoint_id}", reason)
    perform(store, action, lambda tx: remove_endpoint(tx, endpoint_id, reason, tenant=tenant))
    return Outcome(action.id)
