"""What a worker does beside its jobs: fire what is periodic, and prune what is over."""

from __future__ import annotations

import threading

from holdfast.base import monotonic_s
from holdfast.catalog import Failure
from holdfast.guard.idempotency import Keys
from holdfast.store import Store
from holdfast.worker.handlers import Handlers
from holdfast.worker.jobs import Jobs
from holdfast.worker.periodic import Periodic
from holdfast.worker.retention import Retention

LOOK_S = 1.0
LOOK_S_MIN = 0.05
"""Also when something stays due: its schedule may be one that only a newer version reads."""
PRUNE_S = 600.0
KEYS_MAX = 1_000
PRUNE_MORE_S = 5.0
"""While there is more to prune than one run takes, the next one follows soon."""


def scheduled(store: Store, handlers: Handlers) -> Periodic | None:
    """What the handlers want to be enqueued by the clock, if anything."""
    if not handlers.schedules:
        return None
    periodic = Periodic(store, Jobs(store))
    for one in handlers.schedules:
        periodic.declare(
            one.name, one.schedule, every_s=one.every_s, kind=one.kind, payload=one.payload, queue=one.queue
        )
    return periodic


class Housekeeper:
    """A thread that tidies up; every worker may have one, they do not get into each other's way."""

    def __init__(self, store: Store, *, periodic: Periodic | None, retention: Retention | None) -> None:
        self._store = store
        self._periodic = periodic
        self._retention = retention
        self._keys = Keys(store)
        self._prune_at_s = monotonic_s() + PRUNE_MORE_S
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="holdfast-housekeeping", daemon=True)

    def start(self) -> None:
        if self._periodic is not None or self._retention is not None:
            self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=PRUNE_MORE_S)

    def _run(self) -> None:
        wait_s = 0.0
        while not self._stopping.wait(wait_s):
            wait_s = LOOK_S
            try:
                wait_s = self._fire()
                self._prune()
            except Failure:
                continue  # the database is away for a moment; nothing is lost by doing this later

    def _fire(self) -> float:
        """Enqueue what is due; the seconds until the next look."""
        if self._periodic is None:
            return PRUNE_MORE_S
        self._periodic.fire_due()
        due_s = self._periodic.next_due_s()
        return LOOK_S if due_s is None else min(LOOK_S, max(LOOK_S_MIN, due_s))

    def _prune(self) -> None:
        if self._retention is None or monotonic_s() < self._prune_at_s:
            return
        more = self._retention.prune(self._store).more
        more = self._keys.prune(KEYS_MAX) == KEYS_MAX or more
        self._prune_at_s = monotonic_s() + (PRUNE_MORE_S if more else PRUNE_S)
