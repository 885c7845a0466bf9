"""Webhook endpoints: add, change, give a new secret, disable, enable, remove."""

from __future__ import annotations

from typing import Any, Unpack

from holdfast.base import Secret
from holdfast.catalog.core import BAD_REQUEST
from holdfast.delivery.endpoint import Endpoint, EndpointSettings
from holdfast.delivery.endpoints import (
    Endpoints,
    disable_endpoint,
    enable_endpoint,
    new_endpoint_id,
    remove_endpoint,
)
from holdfast.operate.actor import Actor
from holdfast.operate.audit import Outcome, new_action, perform
from holdfast.store import Store


def add(
    endpoints: Endpoints,
    url: str,
    *,
    actor: Actor,
    reason: str | None = None,
    secret: Secret | None = None,
    **settings: Unpack[EndpointSettings],
) -> Endpoint:
    """Send events to one more address.

    Raises:
        Failure: BAD_REQUEST names the field.
    """
    made = new_endpoint_id()
    action = new_action(actor, "add", f"endpoint:{made}", reason)
    return perform(
        endpoints.store, action, lambda tx: endpoints.add(url, secret=secret, endpoint_id=made, tx=tx, **settings)
    )


def update(
    endpoints: Endpoints, endpoint_id: str, *, actor: Actor, reason: str | None = None, **changes: Any
) -> Endpoint:
    """Change settings.

    Raises:
        Failure: ENDPOINT_NOT_FOUND; BAD_REQUEST names the field.
    """
    action = new_action(actor, "update", f"endpoint:{endpoint_id}", reason)
    return perform(endpoints.store, action, lambda tx: endpoints.update(endpoint_id, tx=tx, **changes))


def rotate_secret(
    endpoints: Endpoints, endpoint_id: str, *, actor: Actor, reason: str | None = None, overlap_s: float
) -> Secret:
    """Put a new secret in force; the old ones stay so for the overlap.

    Raises:
        Failure: ENDPOINT_NOT_FOUND; BAD_REQUEST names the field.
    """
    action = new_action(actor, "rotate_secret", f"endpoint:{endpoint_id}", reason)
    return perform(endpoints.store, action, lambda tx: endpoints.rotate_secret(endpoint_id, overlap_s=overlap_s, tx=tx))


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
