"""A worker: claims jobs, runs their handlers, settles what came of them, and sweeps up after others.

```python
worker = Worker(Store.open(), handlers, queues=[QueueSettings("mail", concurrency=20)])
worker.run()
```
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from math import inf

from holdfast.base import monotonic_s, world
from holdfast.base.arguments import instance, number, refused
from holdfast.catalog import Failure
from holdfast.catalog.durable import HANDLERS_STUCK
from holdfast.store import Store
from holdfast.worker import ledger
from holdfast.worker.attempt import Outcome
from holdfast.worker.crew import Crew
from holdfast.worker.event_loop import EventLoop
from holdfast.worker.handlers import Handlers, QueueSettings, check_queues
from holdfast.worker.heart import Heart
from holdfast.worker.housekeeping import Housekeeper, scheduled
from holdfast.worker.job import Job
from holdfast.worker.periodic import Periodic
from holdfast.worker.pump import Pump
from holdfast.worker.retention import Retention
from holdfast.worker.trouble import Trouble
from holdfast.worker.wake import Listener

LEASE_S = 10.0
OWN_CONNECTIONS = 4
GRACE_S = 30.0
RESERVE_S = 8.0
RESERVE_SHARE = 0.5
"""While the database is away, `RESERVE_S` of the grace time, but at most this share of it, is kept for ending
everything else: each part that wants to write something once more has to find out for itself that it cannot."""
TURN_WAIT_S = 0.25
NUDGE_S = 0.005
"""Delay between a wake-up and the look for due jobs: what was claimed on the wake-up is begun first."""
TROUBLE_S = 0.2
"""Pause before the next turn after a database failure, so that the database is not flooded with attempts."""


class Worker:
    """One worker process's share of the queues. `stop()` finishes what runs, or releases it after the grace time."""

    def __init__(
        self,
        store: Store,
        handlers: Handlers,
        *,
        queues: Sequence[QueueSettings] | None = None,
        lease_s: float = LEASE_S,
        grace_s: float = GRACE_S,
        periodic: Periodic | None = None,
        retention: Retention | None = None,
    ) -> None:
        """
        Args:
            queues: which queues it serves, and how; None takes what the handlers say, else `default`.
            lease_s: how long its jobs stay its own without a renewal; other workers take them after 1.2 times that.
            grace_s: how long `stop` waits for running jobs before it gives them back.
            periodic: what is enqueued by the clock; None takes the schedules of the handlers.
            retention: how long things are kept; None is a week for complete jobs and dead letters for ever.

        Raises:
            CronInvalid: a schedule of the handlers cannot be meant; the text names the field.
            ArgumentInvalid: a part or a time cannot be meant, or a queue is given twice; it names which.
            TypeError: one of the queues is not a QueueSettings.
        """
        if not hasattr(store, "twin"):
            raise refused("store", store, "give the Store itself: Worker(Store.open(), handlers)")
        instance("handlers", handlers, Handlers, "give the Handlers() that the functions were registered with")
        number("lease_s", lease_s, above=0)
        number("grace_s", grace_s, least=0)
        for name, part, kind in (("periodic", periodic, Periodic), ("retention", retention, Retention)):
            if part is not None:
                instance(name, part, kind, f"give a {kind.__name__}(…)")
        queues = handlers.queues if queues is None else queues
        check_queues(queues)
        # Handlers may use up every connection of their store; the lease must not depend on theirs.
        self._store = store.twin(pool_max=OWN_CONNECTIONS)
        self._shared = self._store is store
        self._grace_s = grace_s
        self._reserve_s = min(RESERVE_S, grace_s * RESERVE_SHARE)
        self._end_s = inf
        self._loop = EventLoop()
        self._crews = [Crew(settings, handlers, self._done, self._loop.get) for settings in queues]
        self._stuck: list[Crew] = []
        self._trouble = Trouble(lambda: self.id)
        self._pump = Pump(self._store, self._crews, self._may_write)
        self._heart = Heart(
            self._store,
            handlers,
            lease_s=lease_s,
            queues=",".join(settings.name for settings in queues),
            wake=self._pump.wake,
            lost=self._lease_lost,
            cancel=self._cancel,
            tend=self._tend,
            trouble=self._trouble.tell_unless_told,
        )
        self._pump.due_soon = self._heart.nudge
        self._listener = Listener(store, self._woken, at=self._store)
        self._housekeeper = Housekeeper(
            self._store, periodic=periodic or scheduled(self._store, handlers), retention=retention or Retention()
        )
        self._woken_up = False
        self._nudge_s = inf
        self._fenced = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def id(self) -> str:
        """The worker's id; it changes when a lease was lost."""
        return self._heart.worker

    def start(self) -> None:
        """Begin to work, in threads of its own.

        Raises:
            Failure: the database cannot be reached.
        """
        for crew in self._crews:
            name = crew.settings.name
            self._store.single("queue.register", name=name, repeatable=True)
        self._heart.start()
        self._pump.worker = self._heart.worker
        self._listener.start()
        self._housekeeper.start()
        self._thread = threading.Thread(target=self._run, name="holdfast-pump", daemon=True)
        self._thread.start()

    def run(self) -> None:
        """Work until `stop()` is called from another thread; for signals see `holdfast worker`."""
        self.start()
        assert self._thread is not None
        while self._thread.is_alive():
            self._thread.join(1.0)

    def stop(self) -> None:
        """Claim nothing more; finish what runs, release what waits; returns at once."""
        self._end_s = min(self._end_s, monotonic_s() + self._grace_s)
        self._stopping.set()
        self._pump.wake()

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for the end; False when it has not come in time."""
        if self._thread is not None:
            self._thread.join(timeout_s)
        return self._thread is None or not self._thread.is_alive()

    def _run(self) -> None:
        settler = threading.Thread(target=self._settle, name="holdfast-settle", daemon=True)
        try:
            if self._pump.apart:
                settler.start()
            while not self._stopping.is_set():
                self._turn()
            if self._pump.apart:
                settler.join()
            self._wind_down()
        finally:
            for crew in self._crews:
                crew.close()
            self._listener.stop()
            self._housekeeper.stop()
            self._heart.stop()
            self._loop.stop()
            if not self._shared:
                self._store.close()

    def _turn(self) -> None:
        if self._fenced.is_set():
            self._start_anew()
        try:
            found = self._pump.claim() if self._pump.apart else self._pump.turn()
            self._nudge()
            if not found:
                wait = self._pump.wait_to_claim if self._pump.apart else self._pump.wait
                wait(TURN_WAIT_S if self._nudge_s == inf else NUDGE_S)
        except Failure as failure:
            self._pause_after(failure)

    def _nudge(self) -> None:
        """Have the heart look for what may be due, a moment after each wake-up."""
        now_s = monotonic_s()
        if now_s >= self._nudge_s:
            self._nudge_s = inf
            self._heart.nudge()
        if self._woken_up:
            self._woken_up = False
            self._nudge_s = min(self._nudge_s, now_s + NUDGE_S)

    def _settle(self) -> None:
        """The thread that settles while another claims."""
        while not self._stopping.is_set():
            try:
                if not self._pump.settle():
                    self._pump.wait_to_settle(TURN_WAIT_S)
            except Failure as failure:
                self._pause_after(failure)

    def _pause_after(self, failure: Failure) -> None:
        """The database failed: what was to be written is kept, and tried again after a moment."""
        self._trouble.tell(failure)
        self._stopping.wait(TROUBLE_S)

    def _start_anew(self) -> None:
        """The lease was lost: what is held belongs to others. Take a new identity and begin again."""
        for crew in self._crews:
            crew.take_back()
        self._pump.forget()
        try:
            self._heart.register()
        except Failure as failure:
            self._pause_after(failure)
            return
        self._pump.worker = self._heart.worker
        self._fenced.clear()

    def _wind_down(self) -> None:
        self._pump.claiming = False
        waiting = [job for crew in self._crews for job in crew.take_back()]
        if not self._is_away():
            self._release(waiting, "the worker stops")
        while not self._is_done() and monotonic_s() < self._end_s - (self._reserve_s if self._is_away() else 0.0):
            try:
                if not self._pump.turn():
                    self._pump.wait_to_settle(0.05)
            except Failure:
                world().sleep(TROUBLE_S)
        if not self._is_away():
            held = [job for crew in self._crews for job in crew.jobs()]
            self._release(held, "the worker stops; the grace time is over")

    def _is_away(self) -> bool:
        """Whether nothing can be written any more, as far as that is known."""
        return self._heart.away or not self._may_write()

    def _is_done(self) -> bool:
        """Whether nothing is left to wait for: all is settled, or what is not can no longer be settled by us."""
        if self._pump.idle or self._fenced.is_set():
            return True
        return not self._may_write() and not any(crew.load for crew in self._crews)

    def _release(self, jobs: list[Job], reason: str) -> None:
        if not jobs or not self._may_write():
            return
        try:
            self._store.atomic(lambda tx: ledger.release(tx, self._pump.worker, jobs, reason), repeatable=True)
        except Failure:
            return  # the lease runs out, and others take the jobs back

    def _may_write(self) -> bool:
        return self._heart.beating and not self._fenced.is_set()

    def _lease_lost(self) -> None:
        self._fenced.set()
        self._pump.wake()

    def _woken(self) -> None:
        self._woken_up = True
        self._pump.wake()

    def _cancel(self, job_ids: set[str]) -> None:
        for crew in self._crews:
            crew.cancel(job_ids)

    def _tend(self) -> None:
        for crew in self._crews:
            crew.abandon_overdue()
        self._relieve([crew for crew in self._crews if crew.stuck])
        self._pump.tend()

    def _relieve(self, stuck: list[Crew]) -> None:
        """A queue whose handlers never return rests here: what waits is for other workers, and listeners are told."""
        for crew in stuck:
            failure = HANDLERS_STUCK(queue=crew.settings.name, count=crew.left_behind)
            self._release(crew.take_back(), failure.technical)
            if crew not in self._stuck:
                self._trouble.tell(failure, queue=crew.settings.name, reason=failure.technical)
        self._stuck = stuck

    def _done(self, job: Job, outcome: Outcome) -> None:
        self._pump.done(job, outcome)
