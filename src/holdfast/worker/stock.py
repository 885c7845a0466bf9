"""What the pump knows about one queue, and which claims are worth making. Nothing here touches the store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from holdfast.worker import ledger
from holdfast.worker.breakers import SharedBreaker
from holdfast.worker.crew import Crew
from holdfast.worker.job import Job

POLL_S = 1.0
"""Interval at which a queue is looked at even when no wake-up said that there is work."""
ALONE_S = 1.0
"""Interval at which a worker looks for jobs that are to be tried apart."""
SUSPECT_S = 10.0
"""Run time after which a job tried apart is no longer suspected of killing its worker at once."""
BATCH_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Want:
    """A claim that is worth making."""

    queue: str
    lane: str
    count: int


@dataclass(slots=True)
class Claimed:
    """What one claim brought."""

    queue: str
    lane: str
    full: bool
    jobs: list[Job]
    generation: int | None = None


@dataclass(slots=True)
class Stock:
    """One queue as this process sees it."""

    crew: Crew
    breaker: SharedBreaker | None = None
    promising: bool = True
    """Whether the queue may hold work; the last claim, a wake-up or the clock says so."""
    ended: int = 0
    """How many attempts have ended; counted under the crew's lock."""
    ended_seen: int = 0
    """How many of them the last look took into account."""
    claim_at: int = 0
    """From this load down a claim is worth while."""
    looked_s: float = 0.0
    looked_alone_s: float = 0.0
    alone_more: bool = False
    """Whether the last look for a job to be tried apart found one."""
    suspects: dict[str, float] = field(default_factory=dict)
    """Jobs tried apart, and since when."""
    ahead: int = 0
    """How many jobs are claimed beyond what can run at once."""
    more: bool = False
    """Whether the last claim left some behind."""
    probes: dict[str, int] = field(default_factory=dict)
    """Jobs let through by a half-open breaker, and in which round."""
    full: bool = False
    """Whether the last look, without prefetch, found no place free; what is settled since may have freed one."""

    @property
    def hungry(self) -> bool:
        """Whether there is work, and room enough to be worth a claim."""
        return self.promising and self.crew.load <= self.claim_at and not (self.crew.stuck or self.full)

    def restless(self, now_s: float) -> bool:
        """Whether a look is worth while: hungry, or another job waits to be tried apart and none is under way."""
        return self.hungry or (self.alone_more and not self.crew.stuck and not self._suspecting(now_s))

    def wants(self, now_s: float, processing: Callable[[], int]) -> list[Want]:
        """Which claims are worth making now.

        Args:
            processing: how many jobs of the queue this process holds in the store, those included that have ended and
                are not settled yet.
        """
        if self.crew.stuck:
            return []
        if not self.crew.settings.prefetch:
            return self._exact_wants(now_s, processing)
        wants = []
        load, name = self.crew.load, self.crew.settings.name
        if load <= self.claim_at and (self.promising or now_s - self.looked_s >= POLL_S):
            reach = self.crew.settings.concurrency + self._look_ahead()
            # A few at a time are not worth a claim while many are still held.
            self.claim_at = reach * 4 // 5
            if load < reach:
                # Lowered before the claim: a wake-up that comes during it must not be forgotten.
                self.promising = False
                wants.append(Want(name, ledger.LANE_READY, min(reach - load, BATCH_MAX)))
        # A job that has just come to an idle worker need not wait for this look as well: it can be put off a little.
        patience_s = 2 * ALONE_S if wants and load == 0 else ALONE_S
        due = self.alone_more or now_s - self.looked_alone_s >= patience_s
        if due and load < self.crew.settings.concurrency + self.ahead and not self._suspecting(now_s):
            self.looked_alone_s = now_s
            wants.append(Want(name, ledger.LANE_ALONE, 1))
        return wants

    def _exact_wants(self, now_s: float, processing: Callable[[], int]) -> list[Want]:
        """Claims for the places that are free, and for none that is not."""
        settings = self.crew.settings
        # Raised before the look: what is settled during it lowers it again.
        self.full = True
        most = settings.concurrency if settings.room is None else min(settings.concurrency, settings.room())
        free = most - processing()
        self.claim_at = most - 1
        if free <= 0:
            return []
        self.full = False
        wants = []
        if (self.alone_more or now_s - self.looked_alone_s >= ALONE_S) and not self._suspecting(now_s):
            self.looked_alone_s = now_s
            wants.append(Want(settings.name, ledger.LANE_ALONE, 1))
            free -= 1
        if free and (self.promising or now_s - self.looked_s >= POLL_S):
            self.promising = False
            wants.append(Want(settings.name, ledger.LANE_READY, free))
        return wants

    def take(self, claim: Claimed, now_s: float) -> None:
        """Learn from a claim, and hand its jobs to the crew."""
        if claim.lane == ledger.LANE_READY:
            self.promising = self.promising or claim.full
            self.more = claim.full
            self.looked_s = now_s
        else:
            self.alone_more = bool(claim.jobs)
            self.suspects.update(dict.fromkeys((job.id for job in claim.jobs), now_s))
        if claim.generation is not None:
            self.probes.update(dict.fromkeys((job.id for job in claim.jobs), claim.generation))
        if claim.jobs:
            self.crew.put(claim.jobs)

    def _look_ahead(self) -> int:
        """Claim further ahead while a look sees most of what is held done, and less when jobs lie about."""
        done, self.ended_seen = self.ended - self.ended_seen, self.ended
        concurrency = self.crew.settings.concurrency
        reach = self.ahead + concurrency
        if self.more and (self.crew.starved or done * 2 >= reach):
            self.ahead = min(BATCH_MAX, max(concurrency, self.ahead * 2))
        elif done * 4 < reach:
            self.ahead = self.ahead * 3 // 4
        return self.ahead

    def _suspecting(self, now_s: float) -> bool:
        held = {job.id for job in self.crew.jobs()} if self.suspects else set()
        self.suspects = {job_id: since_s for job_id, since_s in self.suspects.items() if job_id in held}
        return any(now_s - since_s < SUSPECT_S for since_s in self.suspects.values())
