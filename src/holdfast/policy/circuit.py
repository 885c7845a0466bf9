"""The state of a breaker in one process.

Time is an argument of every method. Always true: in `half_open` at most `probes` calls are let through at once, however
many ask at the same moment; one that has not reported for `probe_s` counts as lost, and its place may be taken. A
breaker opens on a failure only.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from math import inf
from typing import NamedTuple

from holdfast.lifecycle import BREAKER, BreakerState, moved
from holdfast.policy.breaker import Breaker
from holdfast.policy.window import SLICES, Window

STRIDE_MAX = 32
"""Maximum number of good calls that share one time stamp, while calls come fast."""
BRISK = 10
"""Calls come fast while as many as go without a time take less than this part of a slice."""
HALF_OPEN_RETRY_AFTER_S = 1.0
"""What a caller is told while the probes are out: they usually answer sooner than a full pause."""

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
        "_brisk_s", "_generation", "_given", "_lock", "_looked_s", "_opened_s", "_out", "_recent", "_recovered",
        "_state", "_stride", "_told", "_until_s", "_window", "breaker", "pause_s", "shut_until_s", "spare", "ticket",
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
        self._opened_s: float | None = None
        self._window = Window(breaker.window_s)
        self._recent = Window(min(breaker.recent_s, breaker.window_s))
        self._brisk_s = self._recent.length_s / SLICES / BRISK
        self._clear()

    @property
    def state(self) -> BreakerState:
        """As it was at the last call: an open one that may be probed is still open."""
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
            self._date(now_s)

    def counts(self, now_s: float) -> dict[str, int]:
        """Failures and calls of the window, for showing.

        After fast traffic has stopped, fewer than `STRIDE_MAX` of its good calls may count for longer, as if they had
        come with the next call.
        """
        with self._lock:
            self._date(now_s)
            return self._window.counts(now_s)

    def _tell(self, before: BreakerState, after: BreakerState) -> None:
        if self._told is not None:
            self._told(after, _REASONS[before, after])

    def _admit(self, now_s: float) -> int | Rejected:
        if self._state is _CLOSED:
            return self._generation
        # A time further away than a whole pause was written by a clock that has gone back since.
        furthest_s = self.pause_s if self._state is _OPEN else self.breaker.probe_s
        self._until_s = min(self._until_s, now_s + furthest_s)
        if now_s < self._until_s:
            if self._state is _OPEN:
                return Rejected(self._until_s - now_s)
        else:
            self._begin_probing()
        if self._out + self._recovered >= self.breaker.probes:
            return Rejected(min(HALF_OPEN_RETRY_AFTER_S, self.breaker.open_s))
        self._out += 1
        # None is lost before the last one let through has had its whole time.
        self._until_s = now_s + self.breaker.probe_s
        return self._generation

    def _succeed(self, now_s: float) -> None:
        if self._state is _CLOSED:
            self.spare -= 1
            self._date(now_s)
        elif self._state is _HALF_OPEN:
            self._out -= 1
            self._recovered += 1
            if self._recovered >= self.breaker.probes:
                self._move("recover")
                self._opened_s = None
                self._clear()

    def _fail(self, now_s: float) -> None:
        if self._state is _CLOSED:
            self._date(now_s, bad=1)
            trips = self.breaker.trips
            if trips(**self._recent.counts(now_s)) or trips(**self._window.counts(now_s)):
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
        if self._opened_s is None:
            self._opened_s = now_s
        self._move("trip")
        self.pause_s = self.breaker.pause_s(now_s - self._opened_s)
        self._until_s = self.shut_until_s = now_s + self.pause_s

    def _clear(self) -> None:
        self._window.clear()
        self._recent.clear()
        self._looked_s = -inf
        self._stride = self._given = self.spare = 1

    def _date(self, now_s: float, *, bad: int = 0) -> None:
        """Put the calls that have no date yet into the newest slices."""
        # Nothing is called between these two, so that no other thread counts in between.
        good = self._given - self.spare
        self._given = self.spare = self._stride
        self._looked_s = now_s
        self._window.add(now_s, good, bad)
        self._recent.add(now_s, good, bad)
