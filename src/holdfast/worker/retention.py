"""Retention: what is over is kept for a while, then pruned in small batches. Every process may prune at any time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from math import isfinite

from holdfast.base.arguments import numeric
from holdfast.policy import PolicyInvalid
from holdfast.store import Store

DAY_S = 86_400.0
BATCH_ROWS = 1_000
BATCHES_MAX = 50
"""Maximum number of batches of each sort in one run; the next run goes on."""

Prune = Callable[[Store, float, int], int]
"""Deletes what ended at least this many seconds ago, at most this many rows; returns how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """How many rows one run deleted."""

    finished: int = 0
    failed: int = 0
    journal: int = 0
    workers: int = 0
    others: Mapping[str, int] = field(default_factory=dict)
    """What other parts had to delete, by their names."""
    more: bool = False
    """Whether the run stopped at its bound: another one soon is worth while."""


_others: dict[str, tuple[Prune, float]] = {}


def also_prune(name: str, prune: Prune, *, kept_s: float) -> None:
    """Let every run of this process prune something else too; how long it is kept unless a `Retention` says more.

    For parts that build on the worker, which does not know them. Saying it twice is saying it once.
    """
    _others[name] = prune, kept_s


def other_names() -> list[str]:
    """What other parts of this process have asked to have pruned."""
    return sorted(_others)


@dataclass(slots=True, kw_only=True)
class Retention:
    """How long things are kept; None is for ever. It is used with one store, and remembers how far it got."""

    finished_s: float | None = 7 * DAY_S
    """Complete jobs with their results, and with them their dedupe keys."""
    failed_s: float | None = None
    """Dead letters."""
    journal_s: float | None = 30 * DAY_S
    """Events; those of jobs that are queued, processing or dead are kept."""
    workers_s: float = DAY_S
    """Workers that have not been heard of."""
    others_s: Mapping[str, float | None] = field(default_factory=dict)
    """What other parts keep, by their names: `{"webhook events": 86_400}`; those not named are kept as they say."""
    batch_rows: int = BATCH_ROWS
    batches_max: int = BATCHES_MAX
    _journal_after: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        named = {name: getattr(self, name) for name in ("finished_s", "failed_s", "journal_s", "workers_s")}
        for name, seconds in (named | dict(self.others_s)).items():
            if seconds is not None:
                numeric(name, seconds, raises=PolicyInvalid)
            if seconds is not None and not (isfinite(seconds) and seconds >= 0):
                raise PolicyInvalid(f"{name}: {seconds} is not a number of seconds")
        for name in ("batch_rows", "batches_max"):
            numeric(name, getattr(self, name), whole=True, raises=PolicyInvalid)
            if getattr(self, name) < 1:
                raise PolicyInvalid(f"{name}: {getattr(self, name)} is not at least 1")

    def prune(self, store: Store) -> Pruned:
        """Delete what is too old, each batch in a transaction of its own.

        Raises:
            Failure: the database's own; what was deleted before stays deleted.
        """
        finished, finished_more = self._jobs(store, "job.prune_finished", self.finished_s)
        failed, failed_more = self._jobs(store, "retention.failed", self.failed_s)
        journal, journal_more = self._journal(store)
        others, others_more = self._others(store)
        older_us = _us(self.workers_s)
        workers = store.atomic(lambda tx: tx.run("retention.workers", older_us=older_us), repeatable=True)
        return Pruned(
            finished=finished,
            failed=failed,
            journal=journal,
            workers=workers,
            others=others,
            more=finished_more or failed_more or journal_more or others_more,
        )

    def _others(self, store: Store) -> tuple[dict[str, int], bool]:
        """What other parts have to delete: how many of each, where there were any."""
        pruned, more = {}, False
        for name, (prune, usual_s) in sorted(_others.items()):
            kept_s = self.others_s.get(name, usual_s)
            if kept_s is None:
                continue
            deleted, bound = self._bounded(partial(self._other, store, prune, kept_s))
            more = more or bound
            if deleted:
                pruned[name] = deleted
        return pruned, more

    def _other(self, store: Store, prune: Prune, kept_s: float) -> tuple[int, bool]:
        deleted = prune(store, kept_s, self.batch_rows)
        return deleted, deleted >= self.batch_rows

    def _jobs(self, store: Store, statement: str, older_s: float | None) -> tuple[int, bool]:
        if older_s is None:
            return 0, False

        def batch() -> tuple[int, bool]:
            asked = {"older_us": _us(older_s), "count": self.batch_rows}
            deleted = store.atomic(lambda tx: tx.run(statement, **asked), repeatable=True)
            return deleted, deleted == self.batch_rows

        return self._bounded(batch)

    def _journal(self, store: Store) -> tuple[int, bool]:
        if self.journal_s is None:
            return 0, False
        older_us = _us(self.journal_s)
        return self._bounded(lambda: self._journal_batch(store, older_us))

    def _journal_batch(self, store: Store, older_us: int) -> tuple[int, bool]:
        """Look at the next page of the journal, oldest rows first, and delete what may go."""
        after = self._journal_after
        page = store.atomic(
            lambda tx: tx.row("retention.journal_page", after=after, older_us=older_us, count=self.batch_rows),
            write=False,
        )
        if page is None or not page[2]:
            # Nothing old on this page, and all that follows is younger: the next run begins again at the front,
            # where jobs may have ended whose history was kept so far.
            self._journal_after = 0
            return 0, False
        last = page[1]
        asked = {"after": after, "last": last, "older_us": older_us}
        deleted = store.atomic(lambda tx: tx.run("retention.journal", **asked), repeatable=True)
        self._journal_after = last if page[0] == self.batch_rows else 0
        return deleted, page[0] == self.batch_rows

    def _bounded(self, batch: Callable[[], tuple[int, bool]]) -> tuple[int, bool]:
        """Repeat the batch while it says that there is more; how many rows in all, and whether the bound was met."""
        total = 0
        for _ in range(self.batches_max):
            deleted, more = batch()
            total += deleted
            if not more:
                return total, False
        return total, True


def _us(seconds: float) -> int:
    return int(seconds * 1_000_000)
