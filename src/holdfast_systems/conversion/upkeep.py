"""Retention: files are deleted some time after their job has ended, rows later; what belongs to nobody goes too.

Every step can be repeated. A row says that its files are gone before they are: who dies in between leaves files that
belong to nobody, and the next run finds them by their names.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.artifact import Artifacts, Entry
from holdfast.base import Json, now_us
from holdfast.catalog import Failure
from holdfast.catalog.durable import NO_DEAD_LETTER
from holdfast.store import Store
from holdfast.worker import DeadLetters, Job
from holdfast_systems.conversion.model import CONVERT, QUEUE, RESULTS, SOURCES, result_name, source_name, upload_of
from holdfast_systems.conversion.settings import Settings

BATCH_ROWS = 200
BATCHES_MAX = 50
"""Maximum number of batches of each sort in one run; the next run goes on."""
PAGES_MAX = 50
"""Maximum number of pages of files that are looked at in one run; the next run goes on after them."""


class Upkeep:
    """Keeps the rows and the files of conversions from growing for ever."""

    def __init__(self, store: Store, artifacts: Artifacts, settings: Settings) -> None:
        self._store = store
        self._artifacts = artifacts
        self._settings = settings
        self._dead = DeadLetters(store)
        self._reached: dict[str, str | None] = {SOURCES: None, RESULTS: None}

    def run(self, job: Job | None = None) -> Json:  # noqa: ARG002 - it is a handler, and there is one such job
        """Do all of it once; how much was deleted."""
        return {
            "purged": self._repeated(self._purge),
            "forgotten": self._repeated(self._forget),
            "discarded": self._repeated(self._discard),
            "swept": self._sweep(SOURCES) + self._sweep(RESULTS),
            "interrupted": self._artifacts.sweep(),
        }

    def _purge(self) -> int:
        """Delete the files of some uploads whose time is over."""
        older_us, failed_us = (
            int(seconds * 1_000_000) for seconds in (self._settings.retention_s, self._settings.failed_retention_s)
        )
        times = {"older_us": older_us, "failed_us": failed_us, "sooner_us": min(older_us, failed_us)}
        rows = self._store.atomic(lambda tx: tx.rows("conversion.over", **times, count=BATCH_ROWS), write=False)
        for upload_id, _ in rows:
            if self._store.single("conversion.purge", repeatable=True, id=upload_id):
                self._artifacts.delete(source_name(upload_id))
                self._artifacts.delete(result_name(upload_id))
        return len(rows)

    def _forget(self) -> int:
        """Delete some rows whose files are long gone."""
        older_us = int(self._settings.forget_s * 1_000_000)
        rows = self._store.atomic(
            lambda tx: tx.rows("conversion.forgettable", older_us=older_us, count=BATCH_ROWS), write=False
        )
        for upload_id, _ in rows:
            self._store.single("conversion.forget", repeatable=True, id=upload_id)
        return len(rows)

    def _discard(self) -> int:
        """Discard some dead letters whose upload was deleted."""
        rows = self._store.atomic(
            lambda tx: tx.rows("conversion.ownerless", queue=QUEUE, kind=CONVERT, count=BATCH_ROWS), write=False
        )
        for (job_id,) in rows:
            try:
                self._dead.discard(job_id, reason="its upload was deleted")
            except Failure as failure:
                if failure.code not in NO_DEAD_LETTER:
                    raise
        return len(rows)

    def _sweep(self, folder: str) -> int:
        """Delete files that belong to no row, or to one that says that they are gone."""
        swept = 0
        for _ in range(PAGES_MAX):
            page = self._artifacts.page(folder, after=self._reached[folder])
            self._reached[folder] = page.after
            swept += self._swept(page.entries)
            if page.after is None:
                break
        return swept

    def _swept(self, entries: tuple[Entry, ...]) -> int:
        # A young file may belong to an upload that is about to be written down.
        before_us = now_us() - int(self._settings.orphan_s * 1_000_000)
        old = {entry.name: upload_of(entry.name) for entry in entries if entry.modified_us < before_us}
        if not old:
            return 0
        ids = list(set(old.values()))
        kept = {row[0] for row in self._store.atomic(lambda tx: tx.rows("conversion.kept", ids=ids), write=False)}
        orphans = [name for name, upload_id in old.items() if upload_id not in kept]
        for name in orphans:
            self._artifacts.delete(name)
        return len(orphans)

    @staticmethod
    def _repeated(batch: Callable[[], int]) -> int:
        total = 0
        for _ in range(BATCHES_MAX):
            done = batch()
            total += done
            if done < BATCH_ROWS:
                break
        return total
