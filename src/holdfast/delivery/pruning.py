"""Pruning: events that everybody has got are kept for a while, then deleted with all that was known of them."""

from __future__ import annotations

from holdfast.store import Store, Tx
from holdfast.worker.retention import DAY_S, also_prune

NAME = "webhook events"
KEPT_S = 7 * DAY_S
"""As long as the jobs that brought them."""
PRUNE_MAX = 1_000


def prune(store: Store, older_s: float, count: int) -> int:
    """Delete events of which every delivery came through, this old or older, at most `count`; returns how many."""

    def phase(tx: Tx) -> int:
        old = tx.rows("delivery.old_events", older_us=int(older_s * 1_000_000), count=count)
        for tenant in sorted({row[0] for row in old}):
            ids = [event_id for whose, event_id in old if whose == tenant]
            tx.run("delivery.prune_deliveries", tenant=tenant, ids=ids)
            tx.run("delivery.prune_events", tenant=tenant, ids=ids)
        return len(old)

    return store.atomic(phase, repeatable=True)


also_prune(NAME, prune, kept_s=KEPT_S)
