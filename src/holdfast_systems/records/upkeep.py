"""Upkeep: what nobody needs any more is forgotten now and then."""

from __future__ import annotations

from holdfast.artifact import Artifacts
from holdfast.base import Json, now_us
from holdfast.store import Store
from holdfast.worker import Handlers, Job, QueueSettings
from holdfast_systems.records.quotas import periods

QUEUE = "records.upkeep"
KIND = "records.upkeep"
EVERY_S = 3_600.0
PARTS_KEPT_S = 30 * 86_400.0
"""How long parts of unfinished imports are kept."""
USAGE_KEPT_US = 400 * 86_400_000_000


class Upkeep:
    """Forgets old parts of imports and old counts of requests."""

    def __init__(self, store: Store, artifacts: Artifacts) -> None:
        self._store = store
        self._artifacts = artifacts

    def run(self, job: Job) -> Json:  # noqa: ARG002 - it has no payload
        """Forget what is old; how much that was."""
        before, _ = periods(now_us() - USAGE_KEPT_US)
        pruned = self._artifacts.prune("imports", older_than_s=PARTS_KEPT_S)
        self._store.single("records_access.forget_usage", repeatable=True, before=before)
        return {"parts": pruned, "swept": self._artifacts.sweep()}


def add_upkeep(handlers: Handlers, upkeep: Upkeep) -> None:
    """Let the clock enqueue it, once across all processes."""
    handlers.serve(QueueSettings(QUEUE, concurrency=1))
    handlers.handle(KIND)(upkeep.run)
    handlers.enqueue_by_clock(KIND, every_s=EVERY_S, kind=KIND, queue=QUEUE)
