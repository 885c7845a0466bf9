"""One thread that renews every idempotency key this process holds.

It runs while there is something to renew, and ends by itself some seconds later. A lease is real time: the thread
waits on the real clock, and renews each key in the world of its holder.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from holdfast.base import REAL, World, replaced, world
from holdfast.catalog.core import CONCURRENCY_EXCEEDED
from holdfast.guard import key_ledger
from holdfast.guard.key_ledger import LOCK_TRIES, LOCK_WAIT_S, Renewal
from holdfast.lifecycle.idempotency import Started

if TYPE_CHECKING:
    from holdfast.store import Store, Tx

BEATS_PER_LEASE = 3
BATCH_MAX = 200
IDLE_S = 5.0
"""How long the thread waits for another key before it ends: to start one for each moment without a key costs more than
the keys themselves."""


@dataclass(slots=True)
class _Held:
    store: Store
    world: World
    started: Started
    lease_s: float
    due_s: float


class Heartbeat:
    """The keys that are held, and the thread that renews them."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start anew; in a forked process, whose parent goes on holding its keys."""
        self._changed = threading.Condition()
        self._held: dict[int, _Held] = {}
        self._thread: threading.Thread | None = None
        self._wakes_s = 0.0

    def hold(self, store: Store, started: Started, *, lease_s: float) -> None:
        """Renew this key three times in a lease, until it is dropped.

        Raises:
            Failure: CONCURRENCY_EXCEEDED when the process holds too many keys.
        """
        here = world()
        most = here.limits.keys_held_max
        if len(self._held) >= most:
            raise CONCURRENCY_EXCEEDED(retry_after_s=1.0, keys_held=most)
        due_s = REAL.monotonic_s() + lease_s / BEATS_PER_LEASE
        # Entered before the thread is looked at, and the thread looks once more before it ends: nothing is locked.
        self._held[started.token] = _Held(store, here, started, lease_s, due_s)
        if self._thread is None or due_s < self._wakes_s:
            self._wake(due_s)

    def _wake(self, due_s: float) -> None:
        with self._changed:
            if self._thread is None:
                self._wakes_s = due_s
                self._thread = threading.Thread(target=self._run, name="holdfast-keys", daemon=True)
                self._thread.start()
            else:
                self._changed.notify()

    def drop(self, started: Started) -> None:
        """Renew this key no longer."""
        self._held.pop(started.token, None)

    def holds(self, started: Started) -> bool:
        """Whether this key is renewed."""
        return started.token in self._held

    def _run(self) -> None:
        while (due := self._next()) is not None:
            _beat(due)

    def _next(self) -> list[_Held] | None:
        """Wait until keys are due; None when none was held for a while."""
        idle_until_s: float | None = None
        with self._changed:
            while True:
                now_s = REAL.monotonic_s()
                known = list(self._held.values())
                due = [held for held in known if held.due_s <= now_s]
                if due:
                    for held in due:
                        held.due_s = now_s + held.lease_s / BEATS_PER_LEASE
                    return due
                if known:
                    idle_until_s = None
                    self._wakes_s = min(held.due_s for held in known)
                elif idle_until_s is None:
                    self._wakes_s = idle_until_s = now_s + IDLE_S
                elif now_s >= idle_until_s:
                    thread, self._thread = self._thread, None
                    if not self._held:
                        return None
                    self._thread = thread  # a key came in this moment, and may have been told that a thread is there
                    continue
                # A key that is dropped meanwhile is left to this moment, so that short work wakes nobody.
                self._changed.wait(min(self._wakes_s - now_s, threading.TIMEOUT_MAX))


class Held:
    """What `Keys.held` answers: the block in which a lease is renewed."""

    __slots__ = ("_lease_s", "_started", "_store")

    def __init__(self, store: Store, started: Started, *, lease_s: float) -> None:
        self._store = store
        self._started = started
        self._lease_s = lease_s

    def __enter__(self) -> Started:
        HEARTBEAT.hold(self._store, self._started, lease_s=self._lease_s)
        return self._started

    def __exit__(self, *_: object) -> None:
        HEARTBEAT.drop(self._started)


HEARTBEAT = Heartbeat()
"""The one of this process."""
os.register_at_fork(after_in_child=HEARTBEAT.forget)


def renew(store: Store, held: Iterable[Started], *, lease_s: float) -> None:
    """Extend the leases in one transaction, and mark what is lost.

    A row that a twin has locked for a moment is tried again; one that stays locked is being finished by its holder.

    Raises:
        Failure: the database's own.
    """
    lease_us = int(lease_s * 1_000_000)
    left = sorted(held, key=lambda started: (started.tenant, started.operation, started.key))
    for tries in range(LOCK_TRIES):
        if tries:
            world().sleep(LOCK_WAIT_S)
        found = store.atomic(partial(_renewals, held=left, lease_us=lease_us), repeatable=True)
        for started, renewal in zip(left, found, strict=True):
            started.lost = renewal is Renewal.LOST
        left = [started for started, renewal in zip(left, found, strict=True) if renewal is Renewal.LOCKED]
        if not left:
            return


def _renewals(tx: Tx, *, held: list[Started], lease_us: int) -> list[Renewal]:
    return [key_ledger.renew(tx, started, lease_us=lease_us) for started in held]


def _beat(due: list[_Held]) -> None:
    """Renew what is due, a batch of one store, world and lease at a time."""
    groups: dict[tuple[int, int, float], list[_Held]] = {}
    for held in due:
        groups.setdefault((id(held.store), id(held.world), held.lease_s), []).append(held)
    for group in groups.values():
        for first in range(0, len(group), BATCH_MAX):
            batch = group[first : first + BATCH_MAX]
            try:
                with replaced(batch[0].world):
                    renew(batch[0].store, [held.started for held in batch], lease_s=batch[0].lease_s)
            except Exception:  # noqa: BLE001, S112 - asked again at the next beat; the other stores must not wait for it
                continue
