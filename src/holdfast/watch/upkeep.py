"""What one process does for all: note how the gauges stand, fold slices, and prune what is old in small batches."""

from __future__ import annotations

from holdfast.base import monotonic_s
from holdfast.store import Store
from holdfast.watch.folding import fold
from holdfast.watch.gauges import Gauges
from holdfast.watch.labels import label_text
from holdfast.watch.slices import FOLD_S, LEVELS, SHORT_S, Level

SAMPLE_S = 30.0
PRUNE_S = 600.0
BATCH_ROWS = 2_000
BATCHES_MAX = 20
"""Maximum number of batches of slices that are deleted in one turn; the next turn goes on."""
TOTALS_KEPT_S = 30 * 86_400
"""Time after which a series that has not grown is dropped; if it grows again it begins at zero."""
FLUSHES_KEPT_S = 14 * 86_400
"""How long a batch whose reply was lost may still be repeated."""


class Upkeep:
    """Takes a turn when it is due and no other process has taken it. One thread at a time uses it."""

    def __init__(self, store: Store, gauges: Gauges) -> None:
        self._store = store
        self._gauges = gauges
        self._sample_at_s = monotonic_s()
        self._fold_at_s = monotonic_s() + FOLD_S
        self._prune_at_s = monotonic_s() + PRUNE_S / 10

    def run(self) -> None:
        """Do what is due.

        Raises:
            Failure: the database's own; the next turn goes on.
        """
        if monotonic_s() >= self._sample_at_s:
            self._sample_at_s = monotonic_s() + SAMPLE_S
            if self._turn("sample", SAMPLE_S):
                self.sample()
        if monotonic_s() >= self._fold_at_s:
            self._fold_at_s = monotonic_s() + FOLD_S
            if self._turn("fold", FOLD_S):
                fold(self._store)
        if monotonic_s() >= self._prune_at_s:
            self._prune_at_s = monotonic_s() + PRUNE_S
            if self._turn("prune", PRUNE_S):
                self.prune()

    def sample(self) -> None:
        """Write down how the gauges stand."""
        rows = [(one.name, label_text(one.labels), one.value) for one in self._gauges.read()]
        if rows:
            asked = {"width_s": SHORT_S, "width_us": SHORT_S * 1_000_000}
            self._store.atomic(lambda tx: tx.many("metric.add_samples", rows, **asked), repeatable=True)

    def prune(self) -> int:
        """Delete what is too old, each batch in a transaction of its own; how many rows of slices went."""
        slices = self._batches(LEVELS[-1])
        older = {"prune_totals": TOTALS_KEPT_S, "prune_gauges": FLUSHES_KEPT_S, "prune_flushes": FLUSHES_KEPT_S}
        for statement, kept_s in older.items():
            asked = {"older_us": kept_s * 1_000_000}
            self._store.single(f"metric.{statement}", repeatable=True, **asked)
        return slices

    def _batches(self, level: Level) -> int:
        asked = {"width_s": level.width_s, "older_us": level.kept_s * 1_000_000, "count": BATCH_ROWS}
        total = 0
        for _ in range(BATCHES_MAX):
            deleted = self._store.atomic(lambda tx: tx.run("metric.prune_slices", **asked), repeatable=True)
            total += deleted
            if deleted < BATCH_ROWS:
                break
        return total

    def _turn(self, name: str, every_s: float) -> bool:
        # A little less than the pause, so that clocks that differ by a hair do not skip a turn.
        every_us = int(every_s * 900_000)
        return self._store.atomic(lambda tx: tx.row("metric.take_turn", name=name, every_us=every_us)) is not None
