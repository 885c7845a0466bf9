"""API keys: create and revoke."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.catalog.core import BAD_REQUEST
from holdfast.http.keys import BRAND, ApiKeys, Issued
from holdfast.operate.actor import Actor
from holdfast.operate.audit import Outcome, new_action, perform
from holdfast.operate.faults import API_KEY_NOT_FOUND
from holdfast.store import Store, Tx


def create(
    store: Store,
    name: str,
    *,
    actor: Actor,
    tenant: str = "",
    expires_s: float | None = None,
    reason: str | None = None,
    brand: str = BRAND,
    also: Callable[[Tx, Issued], object] | None = None,
) -> tuple[Outcome, Issued]:
    """A new key; its text is in the answer and nowhere else.

    Args:
        also: what a system stores with the key, in the same transaction.

    Raises:
        Failure: BAD_REQUEST when the name, the tenant or the time is not usable.
    """
    keys = ApiKeys(store, brand=brand)
    try:
        draft = keys.draft(name, tenant=tenant, expires_s=expires_s)
    except ValueError as invalid:
        raise BAD_REQUEST("{problem}", problem=str(invalid)) from None
    action = new_action(actor, "create", f"api_key:{draft.id}", reason or f"for {name}")

    def change(tx: Tx) -> Issued:
        issued = keys.insert(tx, draft)
        assert issued is not None, "a prefix of eight random letters is taken about never"
        if also is not None:
            also(tx, issued)
        return issued

    return Outcome(action.id), perform(store, action, change)


def revoke(
    store: Store,
    key_id: str,
    *,
    actor: Actor,
    reason: str | None = None,
    check: Callable[[Tx], object] | None = None,
) -> Outcome:
    """Refuse a key from now on, in every process within a second.

    Args:
        check: raises when the key is not one that this caller may revoke.

    Raises:
        Failure: API_KEY_NOT_FOUND; or what `check` raises.
    """
    action = new_action(actor, "revoke", f"api_key:{key_id}", reason)
    keys = ApiKeys(store)

    def change(tx: Tx) -> bool:
        if check is not None:
            check(tx)
        revoked = keys.revoke_within(tx, key_id)
        if not revoked and tx.row("api_key.exists", id=key_id) is None:
            raise API_KEY_NOT_FOUND(id=key_id)
        return revoked

    return Outcome(action.id, perform(store, action, change))
