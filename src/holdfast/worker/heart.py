"""Renews a worker's lease, and does what no single job can: reclaims jobs of dead workers and lets due jobs through.

Leases are measured on the database's clock. The worker itself relies only on the time since its last renewal began: a
worker that could not renew for a whole lease stops claiming and settling by itself, before others take its jobs. If
they are still its own when it can renew again, it keeps them.

While the database was away, no worker could renew; and when its clock has jumped ahead, as after a failover to a server
with another clock, valid leases look expired. In both cases no worker is declared dead before every worker has had one
lease to renew.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial

from holdfast.base import bus, monotonic_s, new_id
from holdfast.catalog import Failure
from holdfast.store import Store, Tx
from holdfast.worker import joined, ledger, sequences, telling
from holdfast.worker.handlers import Handlers

SWEEP_SHARE = 0.1
"""Interval between sweeps, as a share of a lease: the jobs of dead workers come back within 1.2 leases. A renewal that
failed is repeated after the same time."""
BEATS_PER_LEASE = 3
RENEWAL_SHARE = 1 / 3
"""A renewal without an answer for this part of a lease is tried again, at whichever server takes writes."""
SILENCE_SHARE = 0.5
"""A database that did not answer for this part of a lease was away."""
PROMOTE_MAX = 1_000
EXPIRED_MAX = 10
REST_S = 1.0


class Heart:
    """Renews one worker's lease, and reclaims the jobs of workers that died."""

    def __init__(
        self,
        store: Store,
        handlers: Handlers,
        *,
        lease_s: float,
        queues: str,
        wake: Callable[[], None],
        lost: Callable[[], None],
        cancel: Callable[[set[str]], None],
        tend: Callable[[], None],
        trouble: Callable[[Failure], None],
    ) -> None:
        """
        Args:
            wake: called when there may be jobs to claim.
            lost: called when the lease could not be renewed because others have taken the jobs.
            cancel: called with the ids of jobs of this worker that an operator has cancelled.
            tend: called after each sweep.
            trouble: called when a renewal or a sweep failed.
        """
        self._store = store
        self._handlers = handlers
        self._lease_s = lease_s
        self._queues = queues
        self._wake = wake
        self._lost = lost
        self._cancel = cancel
        self._tend = tend
        self._trouble = trouble
        self.away = False
        """Whether the last query to the database has failed."""
        self._renewed_s = float("-inf")
        self._answered_s = float("inf")
        """When the database last answered."""
        self._ahead_s: float | None = None
        """Difference of the database's clock and that of this process."""
        self._patient_until_s = float("-inf")
        """Until then no worker is declared dead."""
        self._looked_gone_s = float("-inf")
        self._looked_blocked_s = float("-inf")
        self._sequences_after = ""
        self._stopping = threading.Event()
        self._nudge = threading.Event()
        self._threads = [
            threading.Thread(target=self._beat, name="holdfast-heart", daemon=True),
            threading.Thread(target=self._sweep, name="holdfast-sweep", daemon=True),
        ]
        self.worker = ""

    def start(self) -> None:
        """Register the worker, and start the threads that renew and sweep.

        Raises:
            Failure: the database cannot be reached.
        """
        self.register()
        ((others, alive),) = self._store.look("worker.others", id=self.worker)
        if others > 1 and not alive:
            # Several do not die at once: the database was away before this one came.
            self._patient_until_s = monotonic_s() + self._lease_s
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop renewing, and give the lease back."""
        self._stopping.set()
        self._nudge.set()
        for thread in self._threads:
            thread.join(timeout=self._lease_s)
        if self.away or not self.beating:
            return  # the lease runs out by itself
        try:
            self._store.single("worker.leave", id=self.worker, repeatable=True)
        except Failure:
            return  # the lease runs out by itself

    def register(self) -> None:
        """Register under a new id; ids are never used twice."""
        import socket

        asked_s = monotonic_s()
        worker = new_id()
        self._store.single(
            "worker.register",
            id=worker,
            host=socket.gethostname(),
            process=os.getpid(),
            queues=self._queues,
            lease_us=int(self._lease_s * 1_000_000),
        )
        self.worker = worker
        self._renewed_s = asked_s

    @property
    def beating(self) -> bool:
        """Whether the lease certainly still holds."""
        return monotonic_s() - self._renewed_s < self._lease_s

    def nudge(self) -> None:
        """Sweep soon: a job may be due earlier than expected."""
        self._nudge.set()

    def _beat(self) -> None:
        usual_s = rest_s = self._lease_s / BEATS_PER_LEASE
        while not self._stopping.wait(rest_s):
            try:
                self._renew()
                rest_s = usual_s
            except Failure as failure:
                self._trouble(failure)
                # Repeated soon, before the lease expires; `beating` says when it is too late.
                rest_s = min(usual_s, self._lease_s * SWEEP_SHARE)

    def _renew(self) -> None:
        asked_s = monotonic_s()
        lease_us = int(self._lease_s * 1_000_000)
        # Shorter than the limit of other calls: a server that hangs is left while the lease can still be kept.
        within_s = self._lease_s * RENEWAL_SHARE
        renewed = self._store.single(
            "worker.renew", id=self.worker, lease_us=lease_us, repeatable=True, within_s=within_s
        )
        self._answered()
        if renewed:
            self._renewed_s = asked_s
        else:
            self._lost()

    def _answered(self) -> None:
        """Note that the database answered. If it had not for a while, other workers could not renew either."""
        now_s = monotonic_s()
        if now_s - self._answered_s > self._lease_s * SILENCE_SHARE:
            self._patient_until_s = now_s + self._lease_s
        self._answered_s = now_s

    def _compare_clocks(self, database_us: int) -> None:
        """Notice a clock that jumped ahead, as after a failover: valid leases would look expired."""
        now_s = monotonic_s()
        ahead_s = database_us / 1_000_000 - now_s
        if self._ahead_s is not None and ahead_s - self._ahead_s > self._lease_s * SILENCE_SHARE:
            self._patient_until_s = now_s + self._lease_s
        self._ahead_s = ahead_s

    def _sweep(self) -> None:
        rest_s = min(REST_S, self._lease_s * SWEEP_SHARE)
        while not self._stopping.is_set():
            try:
                next_s = self._sweep_once()
                self.away = False
                self._tend()
            except Failure as failure:
                self._trouble(failure)
                self.away = True
                next_s = rest_s
            self._nudge.wait(max(0.001, min(rest_s, next_s)))
            self._nudge.clear()

    def _sweep_once(self) -> float:
        """Sweep if there is something to sweep; return the seconds until the next sweep. Idle, this is one query."""
        ((database_us, expired, due_us, cancels, unseen, blocked),) = self._store.look(
            "worker.look", owner=self.worker, left_us=joined.LEFT_US
        )
        self._answered()
        self._compare_clocks(database_us)
        now_s = monotonic_s()
        expired = expired and now_s >= self._patient_until_s
        unsure = now_s - self._looked_gone_s >= self._lease_s
        # A mark that tells nobody anything is left to a worker that somebody listens to.
        unseen = unseen and bool(bus.listeners)
        if blocked and now_s - self._looked_blocked_s >= REST_S:
            self._start_sequences()
            self._looked_blocked_s = now_s
        if expired or cancels or unsure or unseen or (due_us is not None and due_us <= 0):
            with telling.first() if unseen else nullcontext():
                rest_s = self._store.atomic(lambda tx: self._round(tx, unsure=unsure, unseen=unseen))
            self._looked_gone_s = now_s if unsure else self._looked_gone_s
            return rest_s
        return REST_S if due_us is None else due_us / 1_000_000

    def _start_sequences(self) -> None:
        """Start stalled sequences: the transaction that should have unblocked their first job has missed it."""
        started, self._sequences_after = self._store.atomic(lambda tx: sequences.sweep(tx, self._sequences_after))
        if started:
            self._wake()

    def _round(self, tx: Tx, *, unsure: bool, unseen: bool) -> float:
        """Sweep expired workers, let due jobs through, look for cancels; the seconds until the next one is due."""
        woken = False
        # Holders of jobs that nobody knows any more are looked for once in a lease: it all but never happens.
        gone = tx.rows("worker.gone", count=EXPIRED_MAX) if unsure else []
        patient = monotonic_s() < self._patient_until_s
        expired = [] if patient else tx.rows("worker.expired", count=EXPIRED_MAX, asking=self.worker)
        for (dead,) in [*expired, *gone]:
            taken = ledger.reclaim(tx, dead, self.worker, self._handlers.rule_of)
            tx.after_commit.append(partial(telling.settled, (), taken, ([], [])))
            woken = True
        seen = joined.see(tx) if unseen else []
        if seen:
            tx.after_commit.append(partial(telling.seen, seen))
        # Also after new jobs were seen: a worker that wanted to claim them meanwhile has skipped them.
        woken = bool(tx.rows("job.promote", count=PROMOTE_MAX)) or woken or bool(seen)
        cancels = {row[0] for row in tx.rows("job.cancels", owner=self.worker)}
        if cancels:
            tx.after_commit.append(lambda: self._cancel(cancels))
        if woken:
            tx.after_commit.append(self._wake)
        due = tx.row("job.next_due")
        return REST_S if due is None or due[0] is None else due[0] / 1_000_000
