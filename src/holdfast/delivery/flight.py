"""How many requests to each endpoint are open in this process, and when those that find no room come back.

An endpoint that fails or hangs is trusted with fewer at once, down to one; each success gives one back. So a dead
endpoint holds one place of the worker and not all of them, and nobody has to know beforehand that it is dead.
"""

from __future__ import annotations

import threading

from holdfast.base import monotonic_s

TURN_S_MIN = 0.02
"""What is sent back comes back at most so often, for each endpoint: a long line must not keep the worker busy."""
TURN_S_MAX = 60.0
SMOOTHING = 0.2
FLIGHTS_MAX = 10_000


class Flight:
    """What this process knows of one endpoint. Threads may share it."""

    __slots__ = ("_allowance", "_held_until_s", "_latency_s", "_lock", "_next_turn_s", "_open", "quiet_calls")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = 0
        self._allowance: float | None = None
        self._latency_s = 0.0
        self._next_turn_s = 0.0
        self._held_until_s = 0.0
        self.quiet_calls = 0
        """Calls that went well since the shared breaker was last told."""

    @property
    def idle(self) -> bool:
        return self._open == 0

    def enter(self, most: int) -> float | None:
        """Open one more (None), to be closed with `leave`; or when to come back, in seconds."""
        with self._lock:
            now_s = monotonic_s()
            held_s = self._held_until_s - now_s
            if held_s <= 0 and self._open < self._allowed(most):
                self._open += 1
                return None
            return self._turn_s(now_s, max(held_s, 0.0), most)

    def leave(self) -> None:
        """One is closed."""
        with self._lock:
            self._open -= 1

    def come_back_s(self, after_s: float, most: int) -> float:
        """When one that was sent away for another reason comes back: not all at the same moment."""
        with self._lock:
            return self._turn_s(monotonic_s(), after_s, most)

    def succeeded(self, took_s: float, most: int) -> None:
        """The endpoint took the event."""
        self.quiet_calls += 1
        self.answered(took_s, most)

    def answered(self, took_s: float, most: int) -> None:
        """The endpoint answered: trust it with one more."""
        with self._lock:
            self._learn(took_s)
            if self._allowance is not None:
                self._allowance = None if self._allowance + 1 >= most else self._allowance + 1

    def failed(self, took_s: float, most: int) -> None:
        """The endpoint failed: trust it with half as many."""
        with self._lock:
            self._learn(took_s)
            self._allowance = max(1.0, self._allowed(most) / 2)

    def hold(self, seconds: float) -> None:
        """The endpoint asked for time."""
        with self._lock:
            self._held_until_s = max(self._held_until_s, monotonic_s() + seconds)

    def _allowed(self, most: int) -> int:
        return most if self._allowance is None else max(1, min(most, int(self._allowance)))

    def _turn_s(self, now_s: float, after_s: float, most: int) -> float:
        """Turns are handed out one behind the other, at the pace at which requests end."""
        spacing_s = max(TURN_S_MIN, self._latency_s / self._allowed(most))
        self._next_turn_s = max(self._next_turn_s, now_s + after_s) + spacing_s
        # A clock in virtual time may stand still: no turn is further away than the longest wait.
        self._next_turn_s = min(self._next_turn_s, now_s + after_s + TURN_S_MAX)
        return self._next_turn_s - now_s

    def _learn(self, took_s: float) -> None:
        self._latency_s += (took_s - self._latency_s) * SMOOTHING


class Flights:
    """The flights of all endpoints that this process has met lately."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flights: dict[str, Flight] = {}

    def of(self, endpoint_id: str) -> Flight:
        with self._lock:
            found = self._flights.get(endpoint_id)
            if found is None:
                if len(self._flights) >= FLIGHTS_MAX:
                    self._flights = {name: flight for name, flight in self._flights.items() if not flight.idle}
                found = self._flights[endpoint_id] = Flight()
            return found
