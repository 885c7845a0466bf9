"""Deliveries among dead letters: one whose endpoint is disabled would only die again, so it is left as it is."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.console.filters import Filter
from holdfast.console.graves import COUNT_MAX, COUNT_WALK_MAX
from holdfast.console.listing import death_filter, death_span
from holdfast.store import Store, Tx
from holdfast.worker.dead_filter import EARLIEST_US, LATEST_US
from holdfast.worker.dead_moves import Letter, revive_free
from holdfast.worker.queues import wake_workers


class Reviver:
    """Revives what somebody would receive, and counts what nobody would."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.left = 0
        """So many were left because their endpoint is disabled."""

    def __call__(self, tx: Tx, letters: Sequence[Letter], reason: str | None) -> int:
        """An act for one batch."""
        lost = {row[0] for row in tx.rows("console.disabled", ids=[letter.id for letter in letters])} if letters else ()
        able = [letter for letter in letters if letter.id not in lost]
        revived = revive_free(tx, able, reason) if able else 0
        tx.after_commit.append(lambda: self._follow(able, len(letters) - len(able)))
        return revived

    def _follow(self, able: Sequence[Letter], left: int) -> None:
        # Not before the commit: a batch that is run again must not be counted twice.
        self.left += left
        wake_workers(self._store, {letter.queue for letter in able})


def count_unreceivable(tx: Tx, wanted: Filter) -> int:
    """How many of those that match nobody would receive; counted as far as `count_dead` counts."""
    if tx.row("console.any_disabled") is None:
        return 0
    span = death_span(wanted)
    end = tx.row("console.failed_end", **span, before_us=LATEST_US, before_id="", scan=COUNT_WALK_MAX)
    end_us, end_id = (EARLIEST_US, "") if end is None else end
    asked = {**span, **death_filter(wanted), "end_us": end_us, "end_id": end_id, "most": COUNT_MAX}
    found = tx.row("console.unreceivable_count", **asked)
    return int(found[0]) if found else 0
