"""Pruning: by hand what workers do by themselves, and the audit's own age."""

from __future__ import annotations

from contextlib import suppress

from holdfast.catalog import Failure
from holdfast.operate.actor import Actor
from holdfast.operate.audit import DONE, REFUSED, RUNNING, Outcome, new_action, write
from holdfast.store import Store
from holdfast.worker.retention import DAY_S, Pruned, Retention, also_prune

AUDIT = "audit"
KEPT_S = 365 * DAY_S
"""Longer than what it speaks of: somebody may ask next quarter who discarded a letter."""


def prune(store: Store, retention: Retention, *, actor: Actor, reason: str | None = None) -> tuple[Outcome, Pruned]:
    """Delete what is too old, each batch in a transaction of its own; the row of the audit says when it has ended.

    Raises:
        Failure: the database's own; what was deleted before stays deleted.
    """
    action = new_action(actor, "prune", "retention:", reason)
    store.atomic(lambda tx: write(tx, action, state=RUNNING, result=""), repeatable=True)
    try:
        pruned = retention.prune(store)
    except Failure as failure:
        code = failure.code
        with suppress(Failure):
            store.atomic(lambda tx: tx.run("audit.ended", id=action.id, state=REFUSED, result=code), repeatable=True)
        raise
    total = pruned.finished + pruned.failed + pruned.journal + pruned.workers + sum(pruned.others.values())
    result = f"{total} rows"
    store.atomic(lambda tx: tx.run("audit.ended", id=action.id, state=DONE, result=result), repeatable=True)
    return Outcome(action.id, changed=total > 0), pruned


def prune_audit(store: Store, older_s: float, count: int) -> int:
    """Delete entries that are at least this old, at most `count`; returns how many."""
    asked = {"older_us": int(older_s * 1_000_000), "count": count}
    return store.atomic(lambda tx: tx.run("audit.prune", **asked), repeatable=True)


also_prune(AUDIT, prune_audit, kept_s=KEPT_S)
