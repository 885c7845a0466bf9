"""A breaker that all processes share: counts, state and reason are in the store.

While it is open, jobs stay queued and no attempt is spent (hold), or fail at once (fail fast). After its pause, or
when the health probe says so, a few jobs are let through as probes, exactly as many as the rule allows in all
processes together; their outcome closes or reopens it. Where no job waits to be a probe, the health probe closes it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from holdfast.base import bus
from holdfast.catalog import Blame, Fault
from holdfast.policy import Breaker
from holdfast.store import Store, Tx
from holdfast.worker.handlers import QueueSettings
from holdfast.worker.ledger import Finished
from holdfast.worker.settlement import Settlement

SLICES = 10
BY_HAND = "by hand"
WELL = "the health probe says that it works"
UNWELL = "the health probe says that it does not work"
BY_HAND_S = 60.0
"""How long a probe by hand may take before the breaker's own rule goes on."""
TOLD = {"tripped": "breaker.opened", "recovered": "breaker.closed", "probed": "breaker.half_opened"}
"""What the journal says, as it is told in this process."""
SUBJECT = "breaker:"
"""What happens to a breaker is in the journal under this and its name."""


@dataclass(frozen=True, slots=True)
class Admission:
    """How many jobs may be claimed now, and what happens to them."""

    count: int
    generation: int | None = None
    """Set when they are probes."""
    rejected: bool = False
    """They are claimed only to be failed."""


@dataclass(slots=True)
class Tally:
    """What became of the jobs of one queue in one turn."""

    calls: int = 0
    failures: int = 0
    code: str = ""


class SharedBreaker:
    """One breaker, by its name in the store."""

    def __init__(
        self,
        name: str,
        rule: Breaker,
        *,
        fails_with: Fault | None = None,
        probe: Callable[[], bool] | None = None,
        blames: Collection[Blame] | None = None,
    ) -> None:
        self.name = name
        self.rule = rule
        self.fails_with = fails_with
        self._probe = probe
        self._blames = blames
        self._probe_us = int(rule.probe_s * 1_000_000)
        self._window_us = int(rule.window_s * 1_000_000)
        self._recent_us = min(int(rule.recent_s * 1_000_000), self._window_us)

    def admit(self, tx: Tx, wanted: int) -> Admission:
        """How many of the wanted jobs may be claimed in this transaction."""
        found = tx.row("breaker.look", name=self.name)
        if found is None or found[0] == "closed":
            return Admission(wanted)
        state, left_us, probes_left, generation, _ = found
        if state == "open" and (left_us > 0 or self._probe is not None):
            return self._refused(wanted)
        if left_us <= 0:
            begun = self._begin_probing(tx)
            generation, probes_left = (None, 0) if begun is None else begun
        if probes_left <= 0:
            return self._refused(wanted)
        return Admission(min(wanted, probes_left), generation)

    def spend(self, tx: Tx, probes: int) -> None:
        """Record that this many jobs were claimed as probes."""
        tx.row("breaker.spend", name=self.name, probes=probes, probe_us=self._probe_us)

    def report(self, tx: Tx, tally: Tally) -> None:
        """Count what became of ordinary jobs, and open when it is too bad."""
        tx.run(
            "breaker.count",
            name=self.name,
            slice_us=max(1, self._recent_us // SLICES),
            calls=tally.calls,
            failures=tally.failures,
        )
        if not tally.failures:
            return
        for window_us in (self._window_us, self._recent_us):
            counted = tx.rows("breaker.counts", name=self.name, window_us=window_us)[0]
            calls, failures = (int(number) for number in counted)
            if self.rule.trips(failures=failures, calls=calls):
                window = f"the last {window_us / 1_000_000:g} s"
                self._trip(tx, f"{failures} of {calls} jobs failed in {window}, the last with {tally.code}")
                break
        tx.run("breaker.forget", name=self.name, older_us=2 * self._window_us)

    def report_probes(self, tx: Tx, generation: int, *, good: int, bad: int, silent: int, code: str) -> None:
        """What became of the probes of one round."""
        if bad:
            look = tx.row("breaker.look", name=self.name)
            if look is not None and look[0] == "half_open" and look[3] == generation:
                self._trip(tx, f"a probe failed with {code}")
            return
        if silent:
            tx.row("breaker.give_back", name=self.name, probes=silent, generation=generation)
        if not good:
            return
        reached = tx.row("breaker.succeed", name=self.name, probes=good, generation=generation)
        if reached is not None and reached[0] >= self.rule.probes:
            self._close(tx, generation, None)

    def counts(self, settlement: Settlement | None) -> bool:
        """Whether it speaks against what the jobs call."""
        blame = None if settlement is None else settlement.blame
        return blame is not None and (self._blames is None or blame in self._blames)

    def is_silent(self, settlement: Settlement | None) -> bool:
        """Whether it says nothing about what the jobs call, good or bad: it was given back, or failed on our side."""
        if settlement is None:
            return False
        return settlement.verb not in {"retry", "fail"} or (
            settlement.blame is not None and not self.counts(settlement)
        )

    def tend(self, store: Store, queues: Sequence[str] = ()) -> bool:
        """Ask the health probe when the pause is over; True when jobs may be tried again.

        What is well is tried with a job. Where none of these queues has one to try, or where jobs do not wait for it
        (fail fast), the probe's word closes the breaker: else it would stay as it is until somebody comes.
        """
        if self._probe is None:
            return False
        untried = store.atomic(lambda tx: self._untried(tx, queues))
        if untried is None:
            return False
        if not self._healthy():
            store.atomic(self._stay_open)
            return False
        return store.atomic(lambda tx: self._recover(tx, untried) if untried else self._begin_probing(tx) is not None)

    def _untried(self, tx: Tx, queues: Sequence[str]) -> int | None:
        """Whether to ask the health probe: None when not, 0 when a job is to be tried, else the round to end."""
        look = tx.row("breaker.look", name=self.name)
        if look is None or look[0] == "closed":
            return None
        state, left_us, probes_left, generation, _ = look
        job = not queues or tx.row("breaker.ready", queues=list(queues)) is not None
        if state == "open":
            if left_us > 0:
                return None
            return 0 if job and self.fails_with is None else int(generation)
        is_out = left_us > 0 and probes_left < self.rule.probes
        return None if job or is_out else int(generation)

    def _recover(self, tx: Tx, generation: int) -> bool:
        """Close it on the word of the health probe; False when another process has moved it."""
        look = tx.row("breaker.look", name=self.name)
        if look is None or look[3] != generation:
            return False
        if look[0] == "open":
            begun = self._begin_probing(tx)
            assert begun is not None  # the row is ours until the commit
            generation = begun[0]
        return self._close(tx, generation, WELL)

    def _stay_open(self, tx: Tx) -> None:
        """The health probe says no: look again after the next pause."""
        if tx.row("breaker.hold_on", name=self.name, open_us=self._pause_us(tx)) is None:
            look = tx.row("breaker.look", name=self.name)
            if look is not None and look[0] == "half_open":
                self._trip(tx, UNWELL)

    def _close(self, tx: Tx, generation: int, reason: str | None) -> bool:
        if tx.row("breaker.recover", name=self.name, generation=generation) is None:
            return False
        tx.run("breaker.forget", name=self.name, older_us=-self._window_us)
        self._note(tx, "recovered", reason)
        return True

    def _healthy(self) -> bool:
        assert self._probe is not None
        try:
            return bool(self._probe())
        except Exception:  # noqa: BLE001 - a probe that raises says no
            return False

    def _begin_probing(self, tx: Tx) -> tuple[int, int] | None:
        """The number of the new round, and how many it lets through; None when another has begun one."""
        begun = tx.row("breaker.probe", name=self.name, probes=self.rule.probes, probe_us=self._probe_us)
        if begun is not None:
            self._note(tx, "probed", None)
        return None if begun is None else (int(begun[0]), int(begun[1]))

    def _refused(self, wanted: int) -> Admission:
        return Admission(0) if self.fails_with is None else Admission(wanted, rejected=True)

    def _trip(self, tx: Tx, reason: str) -> None:
        mode = "hold" if self.fails_with is None else "fail_fast"
        pause_us = self._pause_us(tx)
        if tx.row("breaker.trip", name=self.name, mode=mode, reason=reason, open_us=pause_us) is not None:
            self._note(tx, "tripped", reason)

    def _pause_us(self, tx: Tx) -> int:
        """The pause that follows now: it grows with the time that the breaker has not been closed."""
        look = tx.row("breaker.look", name=self.name)
        open_for_us = 0 if look is None or look[4] is None else look[4]
        return int(self.rule.pause_s(open_for_us / 1_000_000) * 1_000_000)

    def _note(self, tx: Tx, verb: str, reason: str | None) -> None:
        note_move(tx, self.name, verb, reason)


def allow_one(tx: Tx, name: str) -> bool:
    """By hand: let one job through to test; False when the breaker is closed."""
    before = tx.row("breaker.look", name=name)
    if tx.row("breaker.allow_one", name=name, open_us=int(BY_HAND_S * 1_000_000)) is None:
        return False
    note_move(tx, name, "allowed_one", BY_HAND)
    if before is not None and before[0] == "open":
        _tell(tx, name, "probed", BY_HAND)  # one that was half open already has not moved
    return True


def note_move(tx: Tx, name: str, verb: str, reason: str | None) -> None:
    """Write a move of a breaker into the journal, and tell it after the commit."""
    tx.run("queue.note", subject=SUBJECT + name, verb=verb, queue="", reason=reason)
    if verb in TOLD:
        _tell(tx, name, verb, reason)


def _tell(tx: Tx, name: str, verb: str, reason: str | None) -> None:
    if bus.listeners:
        tx.after_commit.append(lambda: bus.tell(TOLD[verb], name=name, reason=reason))


def shared_breaker(settings: QueueSettings) -> SharedBreaker | None:
    """The breaker of a queue, where it has one."""
    if settings.breaker is None:
        return None
    name = settings.breaker_name or settings.name
    return SharedBreaker(
        name, settings.breaker, fails_with=settings.fails_with, probe=settings.probe, blames=settings.blames
    )


def tell_breaker(
    tx: Tx,
    breaker: SharedBreaker,
    queue: str,
    probes: dict[str, int],
    finished: list[Finished],
    settlements: list[Settlement],
) -> None:
    """Count what became of a queue's jobs: ordinary ones in the window, probes for their round."""
    tally = Tally()
    rounds: dict[int, list[Settlement | None]] = {}
    ended = [(job, None) for job, _, _ in finished if job.queue == queue]
    for job, settlement in [*ended, *((one.job, one) for one in settlements if one.job.queue == queue)]:
        generation = probes.get(job.id)
        if generation is not None:
            rounds.setdefault(generation, []).append(settlement)
        elif not breaker.is_silent(settlement):
            tally.calls += 1
            if settlement is not None and breaker.counts(settlement):
                tally.failures += 1
                tally.code = settlement.code or ""
    if tally.calls:
        breaker.report(tx, tally)
    for generation, results in rounds.items():
        bad = [one for one in results if one is not None and breaker.counts(one)]
        silent = [one for one in results if breaker.is_silent(one)]
        breaker.report_probes(
            tx,
            generation,
            good=len(results) - len(bad) - len(silent),
            bad=len(bad),
            silent=len(silent),
            code=(bad[0].code or "") if bad else "",
        )
