"""How the sender library keeps to the engine's rate limit: one pace for all events of a sender in this process."""

from __future__ import annotations

import threading

from holdfast.base import monotonic_s
from holdfast.delivery import Pace, Reply, read_reply
from holdfast.delivery.pace import PAUSE_S_MIN
from holdfast.http import Reply as HttpReply
from holdfast.policy import left_s

RATE_LIMITED_MAX_S = 3_600.0
RATE_LIMITED = 429


class Paced:
    """The pace of one sender. Threads and event loops may share it."""

    def __init__(self, within_s: float) -> None:
        self._lock = threading.Lock()
        self._pace = Pace()
        self.within_s = within_s

    def event(self) -> EventLimits:
        """What one event has met so far."""
        return EventLimits(self)

    def reserve_s(self) -> float:
        """Take the next slot; how long until it is there, in seconds."""
        with self._lock:
            return self._pace.reserve_s(monotonic_s())

    def accepted(self) -> None:
        """The engine took an event."""
        with self._lock:
            self._pace.accepted(monotonic_s())

    def limited(self, pause_s: float, sent_s: float) -> None:
        """The engine said 429."""
        with self._lock:
            self._pace.limited(monotonic_s(), pause_s, sent_s=sent_s)


class EventLimits:
    """One event on its way: how long it waits, and whether a reply is final."""

    def __init__(self, paced: Paced) -> None:
        self._paced = paced
        self._began_s = monotonic_s()
        self._sent_s = 0.0
        self._not_before_s = self._began_s

    def wait_s(self) -> float:
        """How long to wait before the request leaves, in seconds."""
        now_s = monotonic_s()
        wait_s = max(self._paced.reserve_s(), self._not_before_s - now_s)
        self._sent_s = now_s + wait_s
        return wait_s

    def settled(self, reply: HttpReply) -> bool:
        """Whether this reply counts; False after a 429 as long as there is time to wait for another."""
        if reply.status != RATE_LIMITED:
            if reply.status < 300:
                self._paced.accepted()
            return True
        failure = read_reply(Reply(reply.status, reply.headers, reply.body))
        pause_s = (None if failure is None else failure.retry_after_s) or 0.0
        self._paced.limited(pause_s, self._sent_s)
        pause_s = max(pause_s, PAUSE_S_MIN)
        self._not_before_s = monotonic_s() + pause_s
        after_s = monotonic_s() - self._began_s + pause_s
        return after_s > self._paced.within_s or pause_s >= left_s()
