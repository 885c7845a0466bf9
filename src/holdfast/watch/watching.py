"""Watching, switched on: this process listens to its bus, and a thread brings the numbers to the store."""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Iterable
from math import inf
from typing import TYPE_CHECKING
from weakref import WeakSet

from holdfast.base import bus, monotonic_s
from holdfast.base.bus import report
from holdfast.catalog import Failure
from holdfast.guard import links as links_alive
from holdfast.store import Store
from holdfast.watch import names
from holdfast.watch.flush import BEAT_S, Flusher
from holdfast.watch.gauges import Gauges
from holdfast.watch.meter import Meter
from holdfast.watch.upkeep import Upkeep

if TYPE_CHECKING:
    from holdfast.guard import Link

FLUSH_S = 3.0
"""Interval between flushes: the longest time that counts are in memory alone while the store can be reached."""
STOP_S = 10.0
"""Maximum time that `stop` waits for a flush that is under way."""


class Watching:
    """This process, watched: its numbers go to the store until it is stopped."""

    def __init__(self, store: Store, *, flush_s: float, links: Iterable[Link]) -> None:
        self.meter = Meter()
        self._store = store
        self._flush_s = flush_s
        self._links: WeakSet[Link] = WeakSet(links)
        self._deaf = bus.listen(self.meter.hear)
        self._begin()
        _watching.add(self)

    def watch(self, *links: Link) -> None:
        """Show the breakers and the budgets of these links too; live ones of this process are shown anyway."""
        self._links.update(links)

    def counts_for(self, store: Store) -> bool:
        """Whether its numbers go to this store."""
        return self._store is store

    def flush(self) -> bool:
        """Bring everything to the store now; False when it could not be reached, and is kept for the next time."""
        with self._flushing:
            self._look_at_links()
            return self._flusher.flush()

    def stop(self) -> None:
        """Listen no longer, and flush for the last time. What the store does not take now is lost."""
        if self._stopping.is_set():
            return
        self._deaf()
        self._stopping.set()
        _watching.discard(self)
        self._thread.join(timeout=STOP_S)
        if self._thread.is_alive():
            return  # the store does not answer, and nobody should wait for it any longer
        self.flush()
        try:
            self._flusher.leave()
        except Failure:
            return  # what this process showed is forgotten when it has not been heard of for a while

    def _begin(self) -> None:
        self._stopping = threading.Event()
        self._flushing = threading.Lock()
        self._flusher = Flusher(self._store, self.meter)
        self._upkeep = Upkeep(self._store, Gauges(self._store))
        self._beat_at_s = 0.0
        # The thread lives in the `World` of the code that starts it.
        run = contextvars.copy_context().run
        self._thread = threading.Thread(target=run, args=(self._run,), name="holdfast-watch", daemon=True)
        self._thread.start()

    def begin_anew(self) -> None:
        """After a fork: the parent keeps what was counted, the child counts for itself."""
        self.meter.forget()
        self._begin()

    def _run(self) -> None:
        told = False
        while not self._stopping.wait(self._flush_s):
            try:
                self.flush()
                if monotonic_s() >= self._beat_at_s:
                    self._beat_at_s = monotonic_s() + BEAT_S
                    self._flusher.beat()
                self._upkeep.run()
            except Failure:
                continue  # the database is away for a moment; what was counted is kept
            except Exception as broken:  # noqa: BLE001 - watching must not end, nor disturb what is watched
                if not told:
                    report(broken, "watching failed, and goes on", self)
                told = True

    def _look_at_links(self) -> None:
        levels: dict[str, float] = {}
        budgets: dict[str, float] = {}
        # Links may share a name: the one that is worst off is shown.
        for link in {*self._links, *links_alive()}:
            circuit, purse = link.gate.circuit, link.gate.purse
            if circuit is not None:
                levels[link.name] = max(names.BREAKER_LEVELS[circuit.state], levels.get(link.name, 0.0))
            if purse is not None:
                budgets[link.name] = min(round(purse.left(monotonic_s()), 1), budgets.get(link.name, inf))
        for name, level in levels.items():
            self.meter.set(names.LINK_BREAKER, name, value=level)
        for name, left in budgets.items():
            self.meter.set(names.LINK_BUDGET, name, value=left)


_watching: WeakSet[Watching] = WeakSet()


def start(store: Store, *, flush_s: float = FLUSH_S, links: Iterable[Link] = ()) -> Watching:
    """Count what happens in this process, for all to see; `stop()` ends it.

    Args:
        store: with the schema in place.
        flush_s: interval between flushes to the store; numbers since the last one are lost when the process is killed.
        links: whose breakers and budgets are shown besides those of all links that are alive in this process.
    """
    return Watching(store, flush_s=flush_s, links=links)


def bring_in(store: Store) -> None:
    """Bring to the store what this process has counted for it so far: a reader now finds all of it."""
    for one in list(_watching):
        if one.counts_for(store):
            one.flush()


def _after_fork() -> None:
    for one in list(_watching):
        one.begin_anew()


os.register_at_fork(after_in_child=_after_fork)
