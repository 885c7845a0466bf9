"""Pruning: events that everybody has got are kept for a while, then deleted with all that was known of them."""

from __future__ import annotations

from holdfast.store import Store, Tx
from holdfast.worker.retention import DAY_S, also_prune

NAME = "webhook events"
KEPT_S = 7 * DAY_S
"""As long as the jobs that brought them."""
PRUNE_MAX = 1_000


def prune(store: Store, older_s: float, count: int) -> int:
    """Delete up to so many events of which every delivery came through, so old or older; how many."""

    def phase(tx: Tx) -> int:
        old = tx.rows("delivery.old_events", older_us=int(older_s * 1_000_000), count=count)
        lines: set[tuple[str, str]] = set()
        for tenant in sorted({row[0] for row in old}):
            ids = [event_id for whose, event_id in old if whose == tenant]
            gone = tx.rows("delivery.prune_deliveries", tenant=tenant, ids=ids)
            lines |= {(endpoint_id, key) for endpoint_id, key in gone if key is not None}
            tx.run("delivery.prune_events", tenant=tenant, ids=ids)
        # In the order in which those who publish lock them, so that nobody waits crosswise.
        for endpoint_id, order_key in sorted(lines):
            _prune_line(tx, endpoint_id, order_key)
        return len(old)

    return store.atomic(phase, repeatable=True)


def _prune_line(tx: Tx, endpoint_id: str, order_key: str) -> None:
    """Forget how far a line was counted in which nobody stands any more; it begins at one again."""
    found = tx.row("delivery.sequence", endpoint_id=endpoint_id, order_key=order_key)
    if found is not None:
        tx.run("delivery.prune_sequence", endpoint_id=endpoint_id, order_key=order_key, position=found[0])


also_prune(NAME, prune, kept_s=KEPT_S)
