"""The pump: one transaction after another, settling what is done and claiming what there is room for.

There is no timer: a turn takes whatever has gathered while the last one was under way, so a lone job is not delayed
and a thousand jobs share a commit. On SQLite, where only one can write, a turn does both at once; on PostgreSQL two
threads take their turns side by side, one settling and one claiming, so that the server works for both.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from typing import TypeVar

from holdfast.base import bus, monotonic_s
from holdfast.catalog import Failure
from holdfast.store import Engine, Store, Tx
from holdfast.worker import joined, ledger, log_lines, sequences, telling
from holdfast.worker.attempt import Outcome
from holdfast.worker.bell import Bell
from holdfast.worker.breakers import Admission, SharedBreaker, shared_breaker, tell_breaker
from holdfast.worker.crew import Crew
from holdfast.worker.job import Held, Job
from holdfast.worker.joined import Judged
from holdfast.worker.ledger import Finished, Unsettled
from holdfast.worker.settlement import Settlement, rejected
from holdfast.worker.stock import BATCH_MAX, POLL_S, Claimed, Stock, Want

T = TypeVar("T")

STRAYS_S = 60.0
"""Time after a lost reply during which a claim that this process does not know of may still come through."""
STRAYS_LOOK_S = 0.5
OPEN_LOOK_S = 0.2
"""Interval between checks whether a transaction that a handler left open has ended."""
UNSETTLED_MAX = 4 * BATCH_MAX
"""Maximum number of unwritten outcomes; with more, nothing is claimed."""

Settled = tuple[Judged, Unsettled]
"""What became of the attempts that had ended, and what of it came too late."""
NOTHING_SETTLED: Settled = (Judged([], [], []), ([], []))


class Pump:
    """Moves jobs between the store and the crews, in the name of one worker."""

    def __init__(self, store: Store, crews: Sequence[Crew], may_write: Callable[[], bool]) -> None:
        self._store = store
        self._stocks = {crew.settings.name: Stock(crew, shared_breaker(crew.settings)) for crew in crews}
        self._exact = any(not crew.settings.prefetch for crew in crews)
        self._breakers = any(stock.breaker is not None for stock in self._stocks.values())
        # Queues that call the same target share a breaker, and are tended once.
        self._tended: dict[str, tuple[SharedBreaker, list[str]]] = {}
        for name, stock in self._stocks.items():
            if stock.breaker is not None:
                self._tended.setdefault(stock.breaker.name, (stock.breaker, []))[1].append(name)
        self._may_write = may_write
        # Crews append while the pump takes: only operations that the interpreter does in one go are used on these.
        self._finished: deque[Finished] = deque()
        self._settlements: deque[Settlement] = deque()
        # What handlers have finished in transactions of their own: written already, but a breaker has to count it.
        self._came_through: deque[Finished] = deque()
        # What handlers have finished in transactions that still go on.
        self._open: list[Settlement] = []
        self._open_next_s = 0.0
        self._settling = False
        # What is being settled at the moment: until it is, the store has these jobs as processing.
        self._writing: Sequence[Finished | Settlement] = ()
        # Held while jobs are claimed that the crews do not know of yet.
        self._fetching = threading.Lock()
        self._strays_until_s = 0.0
        self._strays_next_s = 0.0
        self.apart = store.engine is Engine.POSTGRESQL
        """Whether settling and claiming are for two threads."""
        self._to_claim = Bell()
        self._to_settle = Bell() if self.apart else self._to_claim
        self.claiming = True
        self.worker = ""
        self.due_soon: Callable[[], None] = lambda: None
        """Told when a job was put back for a moment only."""

    def done(self, job: Job, outcome: Outcome) -> None:
        """An attempt ended; called from the crews' threads."""
        stock = self._stocks[job.queue]
        stock.ended += 1
        if outcome is None and job.sequence is not None:
            stock.promising = True  # the handler's own transaction has unblocked the next one
        # What was claimed under an earlier identity is no longer ours to settle.
        if job.worker == self.worker and (outcome is not None or stock.breaker is not None):
            if outcome is None:
                self._came_through.append((job, None, None))
            elif isinstance(outcome, tuple):
                self._finished.append(outcome)
            else:
                self._settlements.append(outcome)
            if self._to_settle.waited_for:
                self._to_settle.ring()
        if self._to_claim.waited_for and (stock.hungry or stock.alone_more):
            self._to_claim.ring()

    def wake(self) -> None:
        """There may be work."""
        for stock in self._stocks.values():
            stock.promising = True
        self._to_claim.ring()

    @property
    def idle(self) -> bool:
        """Whether nothing is held and nothing waits to be settled."""
        held = any(stock.crew.load for stock in self._stocks.values())
        return not (held or self._settling or self._open or self._unsettled())

    def turn(self) -> bool:
        """Settle and claim in one transaction; False when there was nothing to do."""
        return self._turn(settle=True, claim=True)

    def settle(self) -> bool:
        """Only settle, while another thread claims; False when there was nothing to do."""
        return self._turn(settle=True, claim=False)

    def claim(self) -> bool:
        """Only claim, while another thread settles; False when there was nothing to do."""
        with self._fetching:
            return self._turn(settle=False, claim=True)

    def wait_to_claim(self, seconds: float) -> None:
        """Until there may be something to claim."""
        self._to_claim.wait(seconds, self._may_claim)

    def wait_to_settle(self, seconds: float) -> None:
        """Until there is something to settle."""
        self._to_settle.wait(seconds, self._may_settle)

    def wait(self, seconds: float) -> None:
        """Until there is something to do, where one thread does both."""
        self._to_claim.wait(seconds, lambda: self._may_settle() or self._may_claim())

    def forget(self) -> None:
        """Drop every outcome: the jobs belong to somebody else now."""
        self._finished.clear()
        self._settlements.clear()
        self._came_through.clear()
        self._open = []
        for stock in self._stocks.values():
            stock.suspects.clear()

    def tend(self) -> None:
        """Ask the health probes of open breakers."""
        for breaker, queues in self._tended.values():
            if breaker.tend(self._store, queues):
                self.wake()

    # While the lease is not certain nothing can be written, and there is nothing to do but wait.
    def _may_settle(self) -> bool:
        return self._unsettled() and self._may_write()

    def _may_claim(self) -> bool:
        return self._restless() and self._may_write()

    def _unsettled(self) -> bool:
        return bool(self._finished or self._settlements or self._came_through)

    def _restless(self) -> bool:
        now_s = monotonic_s()
        return any(stock.restless(now_s) for stock in self._stocks.values())

    def _turn(self, *, settle: bool, claim: bool) -> bool:
        if not self._may_write():
            return False  # the lease is gone: what was done here is no longer ours to say
        if not settle:
            return self._write([], [], self._wants(), stray=False)
        self._settling = True
        try:
            stray = self._strays_next_s <= monotonic_s() < self._strays_until_s
            # The search for claims that nobody knows of must not find those that are just being made.
            with self._fetching if stray else nullcontext():
                if self._exact:
                    self._writing = (*self._finished, *self._settlements, *self._open)
                finished, settlements = _drained(self._finished), [*_drained(self._settlements), *self._reopened()]
                return self._write(finished, settlements, self._wants() if claim else [], stray=stray)
        finally:
            self._writing = ()
            self._settling = False
            if self._exact:
                self._free()

    def _write(
        self, finished: list[Finished], settlements: list[Settlement], wants: list[Want], *, stray: bool
    ) -> bool:
        counted = _drained(self._came_through) if self._breakers else []
        if not (finished or settlements or counted or wants or stray):
            return False
        try:
            claimed, (judged, late) = self._written(finished, settlements, counted, wants, stray=stray)
        except Failure:
            # It may have happened or not. Tokens make a second settlement harmless; claims that nobody here knows
            # of are given back in the next turn.
            self._finished.extendleft(reversed(finished))
            self._settlements.extendleft(reversed(settlements))
            self._came_through.extendleft(reversed(counted))
            self._strays_until_s = monotonic_s() + STRAYS_S
            self._strays_next_s = 0.0
            self.wake()
            raise
        if stray:
            self._strays_next_s = monotonic_s() + STRAYS_LOOK_S
        self._open += judged.open
        finished = [*finished, *judged.finished]
        # Before the crews have them: their end must not be told first.
        if bus.listeners or judged.rest or late[0] or (finished and log_lines.wants_finished()):
            telling.settled(finished, judged.rest, late)
        if bus.listeners:
            telling.claimed([job for claim in claimed for job in claim.jobs])
        self._learn([*finished, *counted], judged.rest, claimed)
        return True

    def _written(
        self,
        finished: list[Finished],
        settlements: list[Settlement],
        counted: list[Finished],
        wants: list[Want],
        *,
        stray: bool,
    ) -> tuple[list[Claimed], Settled]:
        def phase(tx: Tx) -> tuple[list[Claimed], Settled]:
            ended = finished or settlements or counted or stray
            settled = self._settle(tx, finished, settlements, counted, stray=stray) if ended else NOTHING_SETTLED
            return [self._claim(tx, want) for want in wants], settled

        # What is one statement needs no transaction around it: two round trips less for a lone job.
        brief = not (self._breakers or stray or settlements) and len(wants) + bool(finished) == 1
        brief = brief and not any(one[0].sequence is not None for one in finished)
        return self._store.each(phase) if self.apart and brief else self._store.atomic(phase)

    def _settle(
        self,
        tx: Tx,
        finished: list[Finished],
        settlements: list[Settlement],
        counted: list[Finished],
        *,
        stray: bool,
    ) -> Settled:
        judged = joined.judged(tx, settlements)
        unsettled = judged.rest
        if stray:
            held = self._held(finished, settlements)
            finished, unsettled = ledger.not_yet_settled(tx, self.worker, finished, unsettled)
            ledger.release_strays(tx, self.worker, held)
        late = ledger.settle(tx, self.worker, finished, unsettled)
        for name, stock in self._stocks.items():
            if stock.breaker is not None:
                ended = [*finished, *counted, *judged.finished]
                tell_breaker(tx, stock.breaker, name, stock.probes, ended, unsettled)
        return judged, late

    def _claim(self, tx: Tx, want: Want) -> Claimed:
        breaker = self._stocks[want.queue].breaker
        admission = Admission(want.count) if breaker is None else breaker.admit(tx, want.count)
        if admission.count == 0:
            return Claimed(want.queue, want.lane, False, [])
        jobs = ledger.claim(tx, queue=want.queue, worker=self.worker, count=admission.count, lane=want.lane)
        full = len(jobs) == want.count
        if breaker is not None and admission.rejected and breaker.fails_with is not None:
            failed = [rejected(job, breaker.fails_with.occur()) for job in jobs]
            ledger.settle(tx, self.worker, (), failed)
            tx.after_commit.append(partial(telling.rejected, failed))
            return Claimed(want.queue, want.lane, full, [])
        if breaker is not None and jobs and admission.generation is not None:
            breaker.spend(tx, len(jobs))
        return Claimed(want.queue, want.lane, full, jobs, admission.generation)

    def _reopened(self) -> list[Settlement]:
        """What handlers left open, to be looked at again; not more often than now and then."""
        now_s = monotonic_s()
        if not self._open or now_s < self._open_next_s:
            return []
        self._open_next_s = now_s + OPEN_LOOK_S
        again, self._open = self._open, []
        return again

    def _wants(self) -> list[Want]:
        if not self.claiming or len(self._finished) + len(self._settlements) > UNSETTLED_MAX:
            return []
        now_s = monotonic_s()
        return [
            want for name, stock in self._stocks.items() for want in stock.wants(now_s, partial(self._processing, name))
        ]

    def _processing(self, queue: str) -> int:
        """How many jobs of the queue the store has as held by this worker."""
        # In the order in which a job moves on, so that none is missed while another thread settles.
        held = {job.held_as for job in self._stocks[queue].crew.jobs()}
        ended: list[Finished | Settlement] = [*self._finished, *self._settlements, *self._open]
        ended += self._writing
        jobs = (one[0] if isinstance(one, tuple) else one.job for one in ended)
        held.update(job.held_as for job in jobs if job.queue == queue)
        return len(held)

    def _held(self, finished: list[Finished], settlements: list[Settlement]) -> set[Held]:
        held = {job.held_as for stock in self._stocks.values() for job in stock.crew.jobs()}
        held.update(one[0].held_as for one in (*finished, *self._finished))
        held.update(one.job.held_as for one in (*settlements, *self._settlements, *self._open))
        return held

    def _learn(self, finished: list[Finished], settlements: list[Settlement], claimed: list[Claimed]) -> None:
        if any(stock.probes for stock in self._stocks.values()):
            for job in (*(one[0] for one in finished), *(one.job for one in settlements)):
                self._stocks[job.queue].probes.pop(job.id, None)
        now_s = monotonic_s()
        for claim in claimed:
            self._stocks[claim.queue].take(claim, now_s)
        self._look_ahead(settlements)
        self._follow([*(one[0] for one in finished), *(one.job for one in settlements if one.verb in ledger.ENDING)])

    def _free(self) -> None:
        """What was settled may have freed a place in a queue that was full."""
        for stock in self._stocks.values():
            if stock.full:
                stock.full = False
                if stock.hungry and self._to_claim.waited_for:
                    self._to_claim.ring()

    def _look_ahead(self, settlements: list[Settlement]) -> None:
        """What was put back may be claimed again at once, or be due before anyone would look."""
        soon = False
        for one in settlements:
            if one.delay_us == 0:
                self._stocks[one.job.queue].promising = True
            soon = soon or 0 < (one.delay_us or 0) < POLL_S * 1_000_000
        if soon:
            self.due_soon()
        if settlements and self._to_claim.waited_for:
            self._to_claim.ring()

    def _follow(self, ended: list[Job]) -> None:
        """What comes after the heads of sequences was unblocked with their end: it may be claimed."""
        heads = [job for job in ended if job.sequence is not None]
        if not heads:
            return
        # In whatever queue the next one is: those that are served here are few.
        self.wake()
        with suppress(Failure):  # every worker's sweep looks as well
            if sequences.recheck(self._store, [job.sequence for job in heads if job.sequence is not None]):
                self.wake()


def _drained(gathered: deque[T]) -> list[T]:
    return [gathered.popleft() for _ in range(len(gathered))]
