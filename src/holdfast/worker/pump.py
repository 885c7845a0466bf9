"""The pump: one transaction after another, each settling what is done and claiming what there is room for.

There is no timer: a turn takes whatever has gathered while the last one was under way, so a lone job is not delayed
and a thousand jobs share a commit.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from holdfast.base import monotonic_s
from holdfast.catalog import Failure
from holdfast.store import Store, Tx
from holdfast.worker import ledger
from holdfast.worker.attempt import Outcome
from holdfast.worker.breakers import Admission, SharedBreaker, shared_breaker, tell_breaker
from holdfast.worker.crew import Crew
from holdfast.worker.job import Held, Job
from holdfast.worker.ledger import Finished
from holdfast.worker.settlement import Settlement, rejected

T = TypeVar("T")

POLL_S = 1.0
"""A queue is looked at so often even when nobody said that there is work."""
ALONE_S = 0.5
"""So often a worker looks for jobs that are to be tried apart."""
SUSPECT_S = 10.0
"""A job tried apart that has run so long is no longer suspected of killing its worker at once."""
BATCH_MAX = 1_000
STRAYS_S = 60.0
"""So long after a lost reply a claim may still come through that nobody here knows of."""
STRAYS_LOOK_S = 0.5


@dataclass(slots=True)
class Stock:
    """What the pump knows about one queue."""

    crew: Crew
    promising: bool = True
    """Whether the queue may hold work; the last claim, a wake-up or the clock says so."""
    looked_s: float = 0.0
    looked_alone_s: float = 0.0
    alone_more: bool = False
    """Whether the last look for such a job found one."""
    suspects: dict[str, float] = field(default_factory=dict)
    """Jobs tried apart, and since when."""
    ahead: int = 0
    """How many jobs are claimed beyond what can run at once."""
    more: bool = False
    """Whether the last claim left some behind."""
    breaker: SharedBreaker | None = None
    probes: dict[str, int] = field(default_factory=dict)
    """Jobs let through by a half-open breaker, and in which round."""


@dataclass(slots=True)
class Claimed:
    """What one claim brought."""

    queue: str
    lane: str
    full: bool
    jobs: list[Job]
    generation: int | None = None


class Pump:
    """Moves jobs between the store and the crews, in the name of one worker."""

    def __init__(self, store: Store, crews: Sequence[Crew], may_write: Callable[[], bool]) -> None:
        self._store = store
        self._stocks = {crew.settings.name: Stock(crew, breaker=shared_breaker(crew.settings)) for crew in crews}
        self._may_write = may_write
        # Crews append while the pump takes: only operations that the interpreter does in one go are used on these.
        self._finished: deque[Finished] = deque()
        self._settlements: deque[Settlement] = deque()
        self._strays_until_s = 0.0
        self._strays_next_s = 0.0
        self._something = threading.Event()
        self._waiting = False
        self.claiming = True
        self.worker = ""
        self.due_soon: Callable[[], None] = lambda: None
        """Told when a job was put back for a moment only."""

    def done(self, job: Job, outcome: Outcome) -> None:
        """An attempt ended; called from the crews' threads."""
        # What was claimed under an earlier identity is no longer ours to settle.
        if outcome is not None and job.worker == self.worker:
            if isinstance(outcome, tuple):
                self._finished.append(outcome)
            else:
                self._settlements.append(outcome)
        if self._waiting:
            self._something.set()

    def wake(self) -> None:
        """There may be work."""
        for stock in self._stocks.values():
            stock.promising = True
        self._something.set()

    @property
    def idle(self) -> bool:
        """Whether nothing is held and nothing waits to be settled."""
        held = any(stock.crew.load for stock in self._stocks.values())
        return not (held or self._finished or self._settlements)

    def turn(self) -> bool:
        """Settle and claim once; False when there was nothing to do."""
        if not self._may_write():
            return False  # the lease is gone: what was done here is no longer ours to say
        finished, settlements = _drained(self._finished), _drained(self._settlements)
        wants = self._wants(_by_queue(finished, settlements)) if self.claiming else []
        stray = self._strays_next_s <= monotonic_s() < self._strays_until_s
        if not (finished or settlements or wants or stray):
            return False
        try:
            claimed = self._store.atomic(lambda tx: self._phase(tx, finished, settlements, wants, stray=stray))
        except Failure:
            # It may have happened or not. Tokens make a second settlement harmless; claims that nobody here knows
            # of are given back in the next turn.
            self._finished.extendleft(reversed(finished))
            self._settlements.extendleft(reversed(settlements))
            self._strays_until_s = monotonic_s() + STRAYS_S
            self._strays_next_s = 0.0
            self.wake()
            raise
        if stray:
            self._strays_next_s = monotonic_s() + STRAYS_LOOK_S
        self._learn(finished, settlements, claimed)
        return True

    def wait(self, seconds: float) -> None:
        """Until there is something to do."""
        self._waiting = True
        if not (self._finished or self._settlements):
            self._something.wait(seconds)
        self._waiting = False
        self._something.clear()

    def forget(self) -> None:
        """Drop every outcome: the jobs belong to somebody else now."""
        self._finished.clear()
        self._settlements.clear()
        for stock in self._stocks.values():
            stock.suspects.clear()

    def tend(self) -> None:
        """Ask the health probes of open breakers."""
        for stock in self._stocks.values():
            if stock.breaker is not None and stock.breaker.tend(self._store):
                self.wake()

    def _phase(
        self,
        tx: Tx,
        finished: list[Finished],
        settlements: list[Settlement],
        wants: list[tuple[str, str, int]],
        *,
        stray: bool,
    ) -> list[Claimed]:
        if stray:
            finished, settlements = ledger.not_yet_settled(tx, self.worker, finished, settlements)
            ledger.release_strays(tx, self.worker, self._held(finished, settlements))
        ledger.settle(tx, self.worker, finished, settlements)
        for name, stock in self._stocks.items():
            if stock.breaker is not None:
                tell_breaker(tx, stock.breaker, name, stock.probes, finished, settlements)
        return [self._claim(tx, queue, lane, count) for queue, lane, count in wants]

    def _claim(self, tx: Tx, queue: str, lane: str, count: int) -> Claimed:
        breaker = self._stocks[queue].breaker
        admission = Admission(count) if breaker is None else breaker.admit(tx, count)
        if admission.count == 0:
            return Claimed(queue, lane, False, [])
        jobs = ledger.claim(tx, queue=queue, worker=self.worker, count=admission.count, lane=lane)
        full = len(jobs) == count
        if breaker is not None and admission.rejected and breaker.fails_with is not None:
            ledger.settle(tx, self.worker, (), [rejected(job, breaker.fails_with()) for job in jobs])
            return Claimed(queue, lane, full, [])
        if breaker is not None and jobs and admission.generation is not None:
            breaker.spend(tx, len(jobs))
        return Claimed(queue, lane, full, jobs, admission.generation)

    def _wants(self, done: Counter[str]) -> list[tuple[str, str, int]]:
        """Which claims are worth making: queue, lane and how many."""
        now_s = monotonic_s()
        wants = []
        for name, stock in self._stocks.items():
            room = stock.crew.settings.concurrency + self._ahead(stock, done[name]) - stock.crew.load
            if room <= 0:
                continue
            # A few at a time are not worth a claim while many are still held.
            worth = room >= min(BATCH_MAX, max(1, stock.crew.load // 4))
            if worth and (stock.promising or now_s - stock.looked_s >= POLL_S):
                # Lowered before the claim: a wake-up that comes during it must not be forgotten.
                stock.promising = False
                wants.append((name, ledger.LANE_READY, min(room, BATCH_MAX)))
            due = stock.alone_more or now_s - stock.looked_alone_s >= ALONE_S
            if due and not self._suspecting(stock, now_s):
                stock.looked_alone_s = now_s
                wants.append((name, ledger.LANE_ALONE, 1))
        return wants

    def _held(self, finished: list[Finished], settlements: list[Settlement]) -> set[Held]:
        held = {job.held_as for stock in self._stocks.values() for job in stock.crew.jobs()}
        held.update(one[0].held_as for one in (*finished, *self._finished))
        held.update(one.job.held_as for one in (*settlements, *self._settlements))
        return held

    @staticmethod
    def _ahead(stock: Stock, done: int) -> int:
        """Claim further ahead while a turn sees most of what is held done, and less when jobs lie about."""
        reach = stock.ahead + stock.crew.settings.concurrency
        if stock.more and (stock.crew.starved or done * 2 >= reach):
            stock.ahead = min(BATCH_MAX, max(stock.crew.settings.concurrency, stock.ahead * 2))
        elif done * 4 < reach:
            stock.ahead = stock.ahead * 3 // 4
        return stock.ahead

    @staticmethod
    def _suspecting(stock: Stock, now_s: float) -> bool:
        held = {job.id for job in stock.crew.jobs()} if stock.suspects else set()
        stock.suspects = {job_id: since_s for job_id, since_s in stock.suspects.items() if job_id in held}
        return any(now_s - since_s < SUSPECT_S for since_s in stock.suspects.values())

    def _learn(self, finished: list[Finished], settlements: list[Settlement], claimed: list[Claimed]) -> None:
        now_s = monotonic_s()
        if any(stock.probes for stock in self._stocks.values()):
            for job in (*(one[0] for one in finished), *(one.job for one in settlements)):
                self._stocks[job.queue].probes.pop(job.id, None)
        for claim in claimed:
            self._stock(claim, now_s)
        self._look_ahead(settlements)

    def _look_ahead(self, settlements: list[Settlement]) -> None:
        """What was put back may be claimed again at once, or be due before anyone would look."""
        soon = False
        for one in settlements:
            if one.delay_us == 0:
                self._stocks[one.job.queue].promising = True
            soon = soon or 0 < (one.delay_us or 0) < POLL_S * 1_000_000
        if soon:
            self.due_soon()

    def _stock(self, claim: Claimed, now_s: float) -> None:
        stock = self._stocks[claim.queue]
        if claim.lane == ledger.LANE_READY:
            stock.promising = stock.promising or claim.full
            stock.more = claim.full
            stock.looked_s = now_s
        else:
            stock.alone_more = bool(claim.jobs)
            stock.suspects.update(dict.fromkeys((job.id for job in claim.jobs), now_s))
        if claim.generation is not None:
            stock.probes.update(dict.fromkeys((job.id for job in claim.jobs), claim.generation))
        if claim.jobs:
            stock.crew.put(claim.jobs)


def _by_queue(finished: list[Finished], settlements: list[Settlement]) -> Counter[str]:
    return Counter([job.queue for job, _, _ in finished] + [one.job.queue for one in settlements])


def _drained(gathered: deque[T]) -> list[T]:
    return [gathered.popleft() for _ in range(len(gathered))]
