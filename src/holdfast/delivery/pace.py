"""How fast one receiver may be asked, learnt from its answers: what it took before a 429, and the pause it asked for.

An unknown limit is found as TCP finds the capacity of a network. Nothing is held back until the first 429. After it,
requests leave at the rate that the receiver took since the last one, its pause included. While it takes them all the
rate doubles every `DOUBLING_S`, and after `FORGET_S` without a 429 it is forgotten. Pure: time is an argument.
"""

from __future__ import annotations

DOUBLING_S = 10.0
FORGET_S = 60.0
IDLE_S = 5.0
"""After such a pause in sending, what is taken is counted anew: a burst is not measured over the quiet before it."""
BURST_S = 0.5
"""What may leave at once: as many as the rate allows in this time, so that a late return loses no slot."""
RATE_MIN = 1.0 / 60.0
"""At least one request a minute asks whether there is room again."""
PAUSE_S_MIN = 1.0
"""The least wait of the request that met a 429, whatever its Retry-After; the others go on where none was asked for."""
SPAN_S_MIN = 0.1
"""What is taken is measured over this time at least."""


class Pace:
    """The pace of one receiver in this process. Its owner locks it."""

    __slots__ = (
        "_grown_s",
        "_held_until_s",
        "_last_s",
        "_limited",
        "_limited_until_s",
        "_next_s",
        "_since_s",
        "_taken",
        "rate",
    )

    def __init__(self) -> None:
        self.rate: float | None = None
        """Requests a second; None while no limit is known."""
        self._held_until_s = float("-inf")
        self._next_s = float("-inf")
        self._since_s = float("-inf")
        self._taken = 0
        self._last_s = float("-inf")
        self._limited = False
        """Whether it has said 429 since what it takes is counted."""
        self._limited_until_s = float("-inf")
        self._grown_s = float("-inf")

    def interval_s(self, ahead_s: float = 0.0) -> float:
        """The time between two requests, that far ahead if it takes all of them until then; 0 without a limit."""
        return 0.0 if self.rate is None else 2.0 ** (-ahead_s / DOUBLING_S) / self.rate

    def held_s(self, now_s: float) -> float:
        """For how long it has asked to be left alone."""
        return max(0.0, self._held_until_s - now_s)

    def wait_s(self, now_s: float) -> float:
        """When the next request may leave, in seconds; 0 is now."""
        self._learn(now_s)
        if now_s < self._held_until_s:
            return self._held_until_s - now_s
        return 0.0 if self.rate is None else max(0.0, self._next_s - BURST_S - now_s)

    def take(self, now_s: float) -> None:
        """A request leaves now."""
        if now_s - self._last_s > IDLE_S and not self._limited:
            self._since_s, self._taken = now_s, 0
        self._last_s = now_s
        if self.rate is not None:
            self._next_s = max(self._next_s, now_s) + self.interval_s()

    def reserve_s(self, now_s: float) -> float:
        """Take the next slot, for a caller that waits for it here; how long that is, in seconds."""
        wait_s = self.wait_s(now_s)
        self.take(now_s + wait_s)
        return wait_s

    def accepted(self, now_s: float) -> None:
        """It took a request."""
        self._taken += 1
        if self.rate is None or self._limited:
            return
        if now_s - self._limited_until_s > FORGET_S:
            self.rate = None
            return
        # By the second at most: a long pause proves nothing.
        self.rate *= 2.0 ** (min(max(now_s - self._grown_s, 0.0), 1.0) / DOUBLING_S)
        self._grown_s = now_s

    def limited(self, now_s: float, pause_s: float, *, sent_s: float) -> bool:
        """It said 429 to a request that left at `sent_s`; whether this is the first since it was last measured."""
        self.hold(now_s, pause_s)
        if self._limited or sent_s < self._since_s:
            return False  # one of many that left together, before the last pause or this one
        self._limited = True
        return True

    def hold(self, now_s: float, pause_s: float) -> None:
        """The endpoint asked for a pause of this many seconds."""
        self._held_until_s = max(self._held_until_s, now_s + pause_s)

    def _learn(self, now_s: float) -> None:
        """When the pause after a 429 is over: what it took until then is what it takes."""
        if not self._limited or now_s < self._held_until_s:
            return
        measured = self._taken / max(self._held_until_s - self._since_s, SPAN_S_MIN)
        if self.rate is not None:
            self.rate = max(measured, self.rate / 2, RATE_MIN)
        elif self._taken:  # else others have used it up, and nothing is known of what it takes
            self.rate = max(measured, RATE_MIN)
        self._since_s = self._next_s = self._grown_s = self._limited_until_s = self._held_until_s
        self._last_s = max(self._last_s, self._held_until_s)
        self._taken = 0
        self._limited = False
