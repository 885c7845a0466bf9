"""Pruning: what was done by hand is kept for a year, then deleted in small batches by the workers' housekeeping."""

from __future__ import annotations

from holdfast.store import Store
from holdfast.worker.retention import DAY_S, also_prune

NAME = "audit"
KEPT_S = 365 * DAY_S
"""Longer than what it speaks of: somebody may ask next quarter who discarded a letter."""


def prune(store: Store, older_s: float, count: int) -> int:
    """Delete up to so many deeds, so old or older; how many."""
    asked = {"older_us": int(older_s * 1_000_000), "count": count}
    return store.atomic(lambda tx: tx.run("console.prune", **asked), repeatable=True)


also_prune(NAME, prune, kept_s=KEPT_S)
