"""Breaker: stop calling what keeps failing, and find out by a few probes when it works again.

`Breaker` is the rule, a value; `Circuit` is its state in this process. Time is an argument of every method.
Always true: in `half_open` at most `probes` calls are let through at once, however many ask at the same moment; one
that has not reported for `open_s` counts as lost, and its place may be taken. A breaker opens on a failure only.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isfinite
from typing import NamedTuple

from holdfast.catalog import Blame, Failure, Fault
from holdfast.lifecycle import BREAKER, BreakerState, moved
from holdfast.policy.backoff import PolicyInvalid

SLICES = 10
"""The rolling window moves on in tenths."""
STRIDE_MAX = 32
"""Of so many good calls that come fast, at least one is given a time."""
BRISK = 100
"""Calls come fast while as many as go without a time take less than this part of a slice."""
HALF_OPEN_RETRY_AFTER_S = 1.0
"""What a caller is told while the probes are out: they usually answer sooner than a full pause."""
_SPARED = frozenset({Blame.CLIENT, Blame.CONFLICT, Blame.NO_OP})


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """Open at `failure_ratio` of at least `calls_min` calls in the last `window_s`; probe after `open_s`."""

    failure_ratio: float = 0.5
    """So great a share of the calls in the window must have failed."""
    calls_min: int = 10
    """Fewer calls in the window say too little to open it."""
    window_s: float = 120.0
    """Calls older than this, and a tenth of it, are forgotten."""
    open_s: float = 30.0
    """How long nothing is called; a probe that is out for longer counts as lost."""
    probes: int = 1
    """So many probes must succeed, and no more are let through, before it closes."""

    def __post_init__(self) -> None:
        if not 0 < self.failure_ratio <= 1:
            raise PolicyInvalid(f"failure_ratio: {self.failure_ratio} is not above 0 and at most 1")
        if self.calls_min < 1:
            raise PolicyInvalid(f"calls_min: {self.calls_min} is not at least 1")
        if self.probes < 1:
            raise PolicyInvalid(f"probes: {self.probes} is not at least 1")
        for name, seconds in (("window_s", self.window_s), ("open_s", self.open_s)):
            if not (isfinite(seconds) and seconds > 0):
                raise PolicyInvalid(f"{name}: {seconds} is not a positive number of seconds")

    def trips(self, *, failures: int, calls: int) -> bool:
        """Whether these counts of the window open it."""
        return calls >= self.calls_min and failures >= self.failure_ratio * calls

    @staticmethod
    def blames(failure: Failure) -> bool:
        """Whether a failure speaks against the callee: a 4xx, a 429 or a conflict never does."""
        return Breaker.blames_kind(failure.fault)

    @staticmethod
    def blames_kind(fault: Fault) -> bool:
        """The same of every failure of this kind."""
        if fault.breaker is not None:
            return fault.breaker
        return fault.status >= 500 and fault.blame not in _SPARED


Told = Callable[[BreakerState, str], None]
"""Is told the new state and why, after the move and outside the lock, by the thread that caused it."""

FAILING, PROBE_FAILED, PAUSE_OVER, RECOVERED = "failing", "probe_failed", "pause_over", "recovered"
_CLOSED, _OPEN, _HALF_OPEN = BreakerState.CLOSED, BreakerState.OPEN, BreakerState.HALF_OPEN
_REASONS = {
    (_CLOSED, _OPEN): FAILING,
    (_HALF_OPEN, _OPEN): PROBE_FAILED,
    (_OPEN, _HALF_OPEN): PAUSE_OVER,
    (_HALF_OPEN, _CLOSED): RECOVERED,
}


class Rejected(NamedTuple):
    """The call is not made; ask again after this time."""

    retry_after_s: float


class Circuit:
    """A breaker's state in this process; threads may share it.

    A call takes a ticket with `admit` and hands it back with its result. A ticket is good for one generation: a
    result without one, or one that comes after the breaker has moved on, changes nothing.

    While it is closed, `ticket` is the one that every call may take without asking; else it is None. A call that
    worked may then be counted with `spare -= 1`, and `look` once none is left to spare: no lock, and under
    steady traffic a clock only now and then. Two threads cannot lose a count between them, because nothing is called
    between reading and writing it, and only then does the interpreter let another thread run.
    """

    __slots__ = (
        "_bad", "_brisk_s", "_dated", "_generation", "_lock", "_look_at", "_looked_s", "_out", "_past", "_recovered",
        "_slice_end_s", "_slice_s", "_state", "_stride", "_told", "_until_s", "breaker", "pause_s", "shut_until_s",
        "spare", "ticket",
    )  # fmt: skip

    def __init__(self, breaker: Breaker, told: Told | None = None) -> None:
        self.breaker = breaker
        self._told = told
        self._lock = threading.Lock()
        self._state = _CLOSED
        self._generation = 0
        self.ticket: int | None = 0
        self._until_s = 0.0
        self.shut_until_s = -inf
        self.pause_s = breaker.open_s
        self._out = 0
        self._recovered = 0
        self._slice_s = breaker.window_s / SLICES
        self._brisk_s = self._slice_s / BRISK
        self._stride = 1
        self._clear()

    @property
    def state(self) -> BreakerState:
        """As it was when somebody last called: an open one that may be probed is still open."""
        return self._state

    def admit(self, now_s: float) -> int | Rejected:
        """Ask to call: a ticket, or a rejection."""
        with self._lock:
            before = self._state
            answer = self._admit(now_s)
            after = self._state
        if after is not before:
            self._tell(before, after)
        return answer

    def succeed(self, now_s: float, ticket: int | None) -> None:
        """The callee answered, with a good result or with a refusal that is not its fault."""
        with self._lock:
            before = self._state
            if ticket == self._generation:
                self._succeed(now_s)
            after = self._state
        if after is not before:
            self._tell(before, after)

    def fail(self, now_s: float, ticket: int | None) -> None:
        """The callee failed."""
        with self._lock:
            before = self._state
            if ticket == self._generation:
                self._fail(now_s)
            after = self._state
        if after is not before:
            self._tell(before, after)

    def release(self, ticket: int | None) -> None:
        """The call ended without saying anything about the callee (it was cancelled)."""
        with self._lock:
            if ticket == self._generation and self._state is _HALF_OPEN:
                self._out -= 1

    def look(self, now_s: float) -> None:
        """Date the calls that were counted without a clock, and say in `spare` how many may go before the next look.

        While calls come fast, every look doubles the calls until the next one; a single slow stretch ends that.
        """
        with self._lock:
            if not 0 <= now_s - self._looked_s < self._brisk_s:
                self._stride = 1
            elif self._stride < STRIDE_MAX:
                self._stride *= 2
            self._roll(now_s)

    def counts(self, now_s: float) -> dict[str, int]:
        """Failures and calls of the window, for showing.

        Every call of the last `window_s` is counted, and none that is older than `window_s` and one slice; except
        that after fast traffic has stopped, fewer than `STRIDE_MAX` of its good calls may count for longer, as if
        they had come with the next call.
        """
        with self._lock:
            return self._counts(now_s)

    def _tell(self, before: BreakerState, after: BreakerState) -> None:
        if self._told is not None:
            self._told(after, _REASONS[before, after])

    def _admit(self, now_s: float) -> int | Rejected:
        if self._state is _CLOSED:
            return self._generation
        # A time further away than a whole pause was written by a clock that has gone back since.
        self._until_s = min(self._until_s, now_s + self.breaker.open_s)
        if now_s < self._until_s:
            if self._state is _OPEN:
                return Rejected(self._until_s - now_s)
        else:
            self._begin_probing()
        if self._out + self._recovered >= self.breaker.probes:
            return Rejected(min(HALF_OPEN_RETRY_AFTER_S, self.breaker.open_s))
        self._out += 1
        # None is lost before the last one let through has had its whole time.
        self._until_s = now_s + self.breaker.open_s
        return self._generation

    def _succeed(self, now_s: float) -> None:
        if self._state is _CLOSED:
            self._roll(now_s)
            self.spare -= 1
            self._dated += 1
        elif self._state is _HALF_OPEN:
            self._out -= 1
            self._recovered += 1
            if self._recovered >= self.breaker.probes:
                self._move("recover")
                self._clear()

    def _fail(self, now_s: float) -> None:
        if self._state is _CLOSED:
            self._roll(now_s)
            self._bad += 1
            if self.breaker.trips(**self._counts(now_s)):
                self._trip(now_s)
        elif self._state is _HALF_OPEN:
            self._trip(now_s)

    def _move(self, verb: str) -> None:
        self._state = BreakerState(moved(BREAKER, self._state, verb))
        self._generation += 1
        self.ticket = self._generation if self._state is _CLOSED else None
        self.shut_until_s = -inf
        self._out = self._recovered = 0

    def _begin_probing(self) -> None:
        if self._state is _OPEN:
            self._move("probe")
        elif self._out:
            # Probes that never report (a killed task, a hung call) must not lock the breaker for ever: others take
            # their places. What has succeeded so far stays, or little traffic would never close it.
            self._generation += 1
            self._out = 0

    def _trip(self, now_s: float) -> None:
        self._move("trip")
        self._until_s = self.shut_until_s = now_s + self.breaker.open_s

    def _clear(self) -> None:
        self._past: deque[tuple[float, int, int]] = deque(maxlen=SLICES)
        self._slice_end_s = self._looked_s = -inf
        self._dated = self._bad = 0
        self._stride = 1
        # As many good calls were counted in this slice as `_look_at` is above `spare`: one number to count with.
        self._look_at = self.spare = 1

    def _roll(self, now_s: float) -> None:
        """Begin a new slice when the current one is over; calls that have no date yet belong to the newest."""
        if now_s >= self._slice_end_s:
            if self._dated or self._bad:
                self._past.append((self._slice_end_s, self._dated, self._bad))
            self._start_slice(now_s + self._slice_s)
        elif self._slice_end_s - now_s > 2 * self._slice_s:
            self._past.clear()  # the clock went back: what was counted belongs to another time
            self._start_slice(now_s + self._slice_s)
        self._looked_s = now_s
        self._dated = self._look_at - self.spare
        self._look_at = self._dated + self._stride
        self.spare = self._stride

    def _start_slice(self, end_s: float) -> None:
        self._look_at -= self._dated
        self._bad = 0
        self._slice_end_s = end_s

    def _counts(self, now_s: float) -> dict[str, int]:
        self._roll(now_s)
        oldest_s = now_s - self.breaker.window_s
        while self._past and self._past[0][0] <= oldest_s:
            self._past.popleft()
        bad = self._bad + sum(slice_bad for _, _, slice_bad in self._past)
        good = self._look_at - self.spare + sum(slice_good for _, slice_good, _ in self._past)
        return {"failures": bad, "calls": good + bad}
