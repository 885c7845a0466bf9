"""Folding: slices that are old enough become part of a coarser one, so that a series keeps a bounded number of rows.

Always true: rows leave one level and are added to the next in one transaction. A process that dies, repeats itself or
folds at the same time as another loses nothing and counts nothing twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

from holdfast.store import Row, Store, Tx
from holdfast.watch.names import BY_NAME, Kind
from holdfast.watch.slices import LEVELS, Level

BATCH_ROWS = 2_000
"""Approximate number of rows that are folded in one transaction; slices are not divided."""
BATCHES_MAX = 50
"""Maximum number of transactions for each level in one turn; the next turn goes on."""


def fold(store: Store, levels: Sequence[Level] = LEVELS) -> int:
    """Fold what is old enough, the finest first; how many rows were folded.

    Raises:
        Failure: the database's own; the next turn goes on.
    """
    folded = 0
    for level, coarser in pairwise(levels):
        for _ in range(BATCHES_MAX):
            # What a lost reply has folded is not there any more: to do it again folds the rest.
            rows = store.atomic(partial(_batch, level=level, coarser=coarser), repeatable=True)
            folded += rows
            if rows < BATCH_ROWS:
                break
    return folded


def _batch(tx: Tx, *, level: Level, coarser: Level) -> int:
    width_us = coarser.width_s * 1_000_000
    # Only whole slices of the next level: one of which a part is younger waits for it.
    before_us = (tx.now_us() - level.kept_s * 1_000_000) // width_us * width_us
    rows = tx.rows("metric.take_slices", width_s=level.width_s, before_us=before_us, count=BATCH_ROWS)
    counted, sampled = _merged(rows, width_us)
    if counted:
        tx.many("metric.fold_counted", counted, width_s=coarser.width_s)
    if sampled:
        tx.many("metric.fold_sampled", sampled, width_s=coarser.width_s)
    return len(rows)


def _merged(rows: Sequence[Row], width_us: int) -> tuple[list[Row], list[Row]]:
    """The rows of the coarser slices: sums of what was counted, and the highest samples of gauges."""
    counted: dict[tuple[str, int, str], float] = {}
    sampled: dict[tuple[str, int, str], float] = {}
    for name, slice_us, labels, value in rows:
        key = (name, slice_us // width_us * width_us, labels)
        metric = BY_NAME.get(name)
        if metric is not None and metric.kind is Kind.GAUGE:
            sampled[key] = max(value, sampled.get(key, value))
        else:
            counted[key] = counted.get(key, 0.0) + value
    return [(*key, value) for key, value in sorted(counted.items())], [
        (*key, value) for key, value in sorted(sampled.items())
    ]
