"""Keys that were finished in a transaction which outlives the work: they are free as soon as that transaction is gone.

Only the owner of a joined transaction knows how it ends, and a rollback takes the answer with it while the lease still
runs. Such keys are followed until they are answered, released or their lease is over. A twin in this process looks at
once; for twins in other processes a thread looks, several times a second. It ends by itself when nothing is left.

No reference to the caller's connection is kept: one that is dropped without a commit must be able to close.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from holdfast.base import REAL, World, limits, replaced, world
from holdfast.guard import key_ledger
from holdfast.guard.key_ledger import Claim, Outcome
from holdfast.lifecycle.idempotency import Started

if TYPE_CHECKING:
    from holdfast.store import Store

LOOK_S = 0.05
LOOK_S_MAX = 0.25
LOOK_FACTOR = 1.5

Place = tuple[int, str, str, str]


@dataclass(slots=True)
class _Open:
    store: Store
    world: World
    started: Started
    until_s: float
    """The end of the lease: after that the key is free in any case."""
    work_over: bool
    """Whether the holder is done with the key. One that is not may finish it in another transaction."""
    due_s: float
    pause_s: float = LOOK_S


class OpenKeys:
    """The keys of this process whose transactions go on."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start anew; in a forked process, whose parent goes on with its transactions."""
        self._changed = threading.Condition()
        self._open: dict[Place, _Open] = {}
        self._thread: threading.Thread | None = None

    def follow(self, store: Store, started: Started, *, lease_s: float, work_over: bool) -> None:
        """Free the key when its transaction is rolled back. Beyond the limit of held keys, the lease decides."""
        now_s = REAL.monotonic_s()
        with self._changed:
            self._open = {place: one for place, one in self._open.items() if one.until_s > now_s}
            if len(self._open) >= limits().keys_held_max:
                return
            alone = replace(started, within=None, answer=None)
            known = _Open(store, world(), alone, now_s + lease_s, work_over, now_s + LOOK_S)
            self._open[_place(store, started)] = known
            if work_over and self._thread is None:
                self._thread = threading.Thread(target=self._run, name="holdfast-open-keys", daemon=True)
                self._thread.start()

    def knows(self, store: Store, claim: Claim) -> bool:
        """Whether the key is followed here."""
        return _place(store, claim) in self._open

    def freed(self, store: Store, claim: Claim) -> bool:
        """Look now, for a twin that found the key taken: True when its transaction is gone and the key is free.

        Raises:
            Failure: the database's own.
        """
        known = self._open.get(_place(store, claim))
        return known is not None and self._look(known) is Outcome.ROLLED_BACK

    def _look(self, known: _Open) -> Outcome:
        outcome = known.store.atomic(lambda tx: key_ledger.settle_open(tx, known.started), repeatable=True)
        if outcome is not Outcome.OPEN:
            self._drop(known)
        return outcome

    def _drop(self, known: _Open) -> None:
        with self._changed:
            place = _place(known.store, known.started)
            if self._open.get(place) is known:
                del self._open[place]

    def _run(self) -> None:
        while (due := self._next()) is not None:
            for known in due:
                try:
                    with replaced(known.world):
                        self._look(known)
                except Exception:  # noqa: BLE001, S112 - asked again; at the latest the lease frees the key
                    continue

    def _next(self) -> list[_Open] | None:
        """Wait until keys are due; None when none is left to look at."""
        with self._changed:
            while True:
                now_s = REAL.monotonic_s()
                self._open = {place: one for place, one in self._open.items() if one.until_s > now_s}
                watched = [one for one in self._open.values() if one.work_over]
                if not watched:
                    self._thread = None
                    return None
                due = [one for one in watched if one.due_s <= now_s]
                for one in due:
                    one.due_s = now_s + one.pause_s
                    one.pause_s = min(one.pause_s * LOOK_FACTOR, LOOK_S_MAX)
                if due:
                    return due
                self._changed.wait(min(one.due_s for one in watched) - now_s)


OPEN_KEYS = OpenKeys()
"""The one of this process."""
os.register_at_fork(after_in_child=OPEN_KEYS.forget)


def _place(store: Store, held: Claim | Started) -> Place:
    return id(store), held.tenant, held.operation, held.key
