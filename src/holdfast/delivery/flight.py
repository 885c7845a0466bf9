"""How many requests to each endpoint are open in this process, and what becomes of those that find no room.

An endpoint that fails or hangs is trusted with fewer at once, down to one; each success gives one back. So a dead
endpoint holds one place of the worker and not all of them, and nobody has to know beforehand that it is dead. Before an
endpoint that answers, the next ones wait in this process for a moment; before one that does not, they go back to the
queue, each with a turn of its own. One that says 429 is asked more slowly, at the pace that it takes.
"""

from __future__ import annotations

import threading
from collections import deque

from holdfast.base import monotonic_s
from holdfast.delivery.pace import FORGET_S, Pace
from holdfast.delivery.place import WAIT_S, Place, WaitingRoom

TURN_S_MIN = 0.02
"""Minimum time between the turns of two deliveries that went back to the queue, for an endpoint in trouble: those that
wait for it must not keep the worker busy."""
TURN_S_QUICK = 0.002
"""The same for an endpoint that answers."""
TURN_S_MAX = 20.0
"""Nobody's turn is further away: an endpoint that recovers gets all its events within this time."""
TURN_S_MAX_PACED = FORGET_S
"""The same for an endpoint whose pace is known: by then it is forgotten, if the endpoint takes everything again."""
SLOWER = 0.2
QUICKER = 0.5
"""How much a single answer changes what is expected; one slow answer must not make a long line."""
HELD_S_MAX = 60.0
"""An endpoint that asks for time gets it for all its events, but not more than this without being asked again."""
FLIGHTS_MAX = 10_000


class Flight:
    """What this process knows of one endpoint. Threads may share it."""

    __slots__ = (
        "_allowance",
        "_latency_s",
        "_line",
        "_lock",
        "_most",
        "_next_turn_s",
        "_open",
        "_pace",
        "_room",
        "_trusted",
        "quiet_calls",
    )

    def __init__(self, room: WaitingRoom | None = None) -> None:
        self._lock = threading.Lock()
        self._room = room or WaitingRoom()
        self._line: deque[Place] = deque()
        self._open = 0
        self._most = 1
        self._allowance: float | None = None
        self._trusted = True
        """Whether it is worth waiting: the last thing heard was an answer, or nothing was heard yet."""
        self._latency_s = 0.0
        self._next_turn_s = 0.0
        self._pace = Pace()
        self.quiet_calls = 0
        """Calls that went well since the shared breaker was last told."""

    @property
    def idle(self) -> bool:
        return self._open == 0 and not self._line

    def enter(self, most: int) -> Place | float | None:
        """Open one more (None), to be closed with `leave`; or wait at this place; or come back in this many seconds."""
        with self._lock:
            self._most = most
            now_s = monotonic_s()
            may = self._pace.wait_s(now_s) <= 0
            # Those who wait go first, but hold nobody up where there is room for more.
            if may and self._open + len(self._line) < self._allowed(most):
                self._open += 1
                self._pace.take(now_s)
                return None
            if may and self._is_short() and self._room.enter():
                place = Place()
                self._line.append(place)
                self._let_in(now_s)
                return place
            return self._turn_s(now_s, self._pace.held_s(now_s), most)

    def waited(self, place: Place) -> float | None:
        """The wait is over: it is open (None), to be closed with `leave`; or when to come back, in seconds."""
        with self._lock:
            if place.entered:
                return None
            self._line.remove(place)
            self._room.leave()
            now_s = monotonic_s()
            if self._pace.wait_s(now_s) <= 0:
                # It hangs: until it answers, nobody else waits for it.
                self._trusted = False
            return self._turn_s(now_s, self._pace.held_s(now_s), self._most)

    def leave(self) -> None:
        """One is closed; the delivery that waited longest takes its place."""
        with self._lock:
            self._open -= 1
            self._let_in(monotonic_s())

    def come_back_s(self, after_s: float, most: int) -> float:
        """When one that was sent away for another reason comes back: not all at the same moment."""
        with self._lock:
            return self._turn_s(monotonic_s(), after_s, most)

    def succeeded(self, took_s: float, most: int) -> None:
        """The endpoint took the event."""
        self.quiet_calls += 1
        with self._lock:
            paced = self._pace.rate is not None
            self._pace.accepted(monotonic_s())
            if paced and self._pace.rate is None:
                self._next_turn_s = 0.0  # the next request does not queue behind turns made at the old pace
        self.answered(took_s, most)

    def answered(self, took_s: float, most: int) -> None:
        """The endpoint answered: trust it with one more."""
        with self._lock:
            self._learn(took_s)
            if not self._trusted:
                self._trusted = True
                self._next_turn_s = 0.0  # the turns given out during its trouble delay nothing further
            if self._allowance is not None:
                self._allowance = None if self._allowance + 1 >= most else self._allowance + 1

    def failed(self, took_s: float, most: int) -> None:
        """The endpoint failed: trust it with half as many."""
        with self._lock:
            self._learn(took_s)
            self._trusted = False
            self._allowance = max(1.0, self._allowed(most) / 2)

    def limited(self, took_s: float, most: int, pause_s: float) -> float:
        """The endpoint said 429, and asked for this time: half as many at once, and slower; when to come back."""
        with self._lock:
            self._learn(took_s)
            now_s = monotonic_s()
            if self._pace.limited(now_s, min(pause_s, HELD_S_MAX), sent_s=now_s - took_s):
                self._allowance = max(1.0, self._allowed(most) / 2)
            return self._turn_s(now_s, pause_s, most)

    def hold(self, seconds: float) -> None:
        """The endpoint asked for time."""
        with self._lock:
            self._pace.hold(monotonic_s(), min(seconds, HELD_S_MAX))

    def _allowed(self, most: int) -> int:
        return most if self._allowance is None else max(1, min(most, int(self._allowance)))

    def _is_short(self) -> bool:
        """Whether one more in the line would be let in before its time is over."""
        return self._trusted and (len(self._line) + 1) * self._latency_s / self._allowed(self._most) <= WAIT_S

    def _let_in(self, now_s: float) -> None:
        while self._line and self._open < self._allowed(self._most) and self._pace.wait_s(now_s) <= 0:
            self._open += 1
            self._pace.take(now_s)
            self._room.leave()
            self._line.popleft().grant()

    def _turn_s(self, now_s: float, after_s: float, most: int) -> float:
        """Turns are handed out one behind the other, at the pace at which requests end.

        A learnt pace grows while requests succeed, so turns further ahead are closer together: a delivery that was put
        off for the whole line at the current pace would not come back when the endpoint has recovered.
        """
        shortest_s = TURN_S_QUICK if self._trusted else TURN_S_MIN
        paced_s = self._pace.interval_s(max(0.0, self._next_turn_s - now_s - after_s))
        spacing_s = max(shortest_s, self._latency_s / self._allowed(most), paced_s)
        self._next_turn_s = max(self._next_turn_s, now_s + after_s) + spacing_s
        # A clock in virtual time may stand still: no turn is further away than the longest wait.
        longest_s = TURN_S_MAX if self._pace.rate is None else TURN_S_MAX_PACED
        self._next_turn_s = min(self._next_turn_s, now_s + after_s + longest_s)
        return self._next_turn_s - now_s

    def _learn(self, took_s: float) -> None:
        change_s = took_s - self._latency_s
        self._latency_s += change_s * (SLOWER if change_s > 0 else QUICKER)


class Flights:
    """The flights of all endpoints that this process has met lately."""

    def __init__(self, room: WaitingRoom | None = None) -> None:
        self._lock = threading.Lock()
        self._room = room or WaitingRoom()
        self._flights: dict[str, Flight] = {}

    def of(self, endpoint_id: str) -> Flight:
        with self._lock:
            found = self._flights.get(endpoint_id)
            if found is None:
                if len(self._flights) >= FLIGHTS_MAX:
                    self._flights = {name: flight for name, flight in self._flights.items() if not flight.idle}
                found = self._flights[endpoint_id] = Flight(self._room)
            return found
