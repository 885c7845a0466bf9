"""Load shedding by the queueing delay that is measured, not by a number of requests.

A request waits for one of a few threads. When the one that waits longest has waited longer than the target, and that
has been so for a whole interval, new requests are refused at once: they would only make the others wait longer. A
short burst passes. As soon as the delay is below the target again, everything is let in.
"""

from __future__ import annotations

import threading
from asyncio import get_running_loop
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from math import ceil
from typing import ParamSpec, TypeVar

from holdfast.base import monotonic_s
from holdfast.catalog import Failure
from holdfast_systems.records.faults import SERVICE_OVERLOADED

P = ParamSpec("P")
T = TypeVar("T")

RETRY_AFTER_S_MIN = 1.0
RETRY_AFTER_S_MAX = 60.0


@dataclass(slots=True, kw_only=True)
class QueueingDelay:
    """How long requests wait, and whether that is too long. Threads may share it."""

    target_s: float
    interval_s: float
    _waiting: dict[int, float] = field(default_factory=dict)
    """When each that waits arrived, the oldest first."""
    _above_since_s: float | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _numbers: int = 0

    def arrive(self, now_s: float) -> int:
        """Somebody waits from now on; the number to be given to `begin`."""
        with self._lock:
            self._numbers += 1
            self._waiting[self._numbers] = now_s
            return self._numbers

    def begin(self, number: int) -> None:
        """Its wait is over."""
        with self._lock:
            self._waiting.pop(number, None)

    def delay_s(self, now_s: float) -> float:
        """How long the one that waits longest has waited."""
        with self._lock:
            return self._delay_s(now_s)

    def overloaded(self, now_s: float) -> float | None:
        """The delay, when it has been above the target for a whole interval; None when requests are let in."""
        with self._lock:
            delay_s = self._delay_s(now_s)
            if delay_s <= self.target_s:
                self._above_since_s = None
                return None
            if self._above_since_s is None:
                self._above_since_s = now_s
            # The oldest may have waited for the whole interval before anybody asked.
            long_s = max(now_s - self._above_since_s, delay_s - self.target_s)
            return delay_s if long_s >= self.interval_s else None

    def _delay_s(self, now_s: float) -> float:
        oldest_s = next(iter(self._waiting.values()), now_s)
        return max(0.0, now_s - oldest_s)


class Workers:
    """The threads in which requests are worked on."""

    def __init__(self, *, threads: int, target_s: float, interval_s: float) -> None:
        self.queueing = QueueingDelay(target_s=target_s, interval_s=interval_s)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="records")

    def admit(self) -> None:
        """Let a request in.

        Raises:
            Failure: SERVICE_OVERLOADED with the delay that was measured.
        """
        delay_s = self.queueing.overloaded(monotonic_s())
        if delay_s is not None:
            raise overloaded(delay_s, self.queueing.target_s)

    async def __call__(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the work in a thread, in a copy of this context."""
        number = self.queueing.arrive(monotonic_s())
        call = partial(copy_context().run, partial(work, *args, **kwargs))

        def begun() -> T:
            self.queueing.begin(number)
            return call()

        try:
            return await get_running_loop().run_in_executor(self._threads, begun)
        finally:
            self.queueing.begin(number)

    def close(self) -> None:
        """Start no further work."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def overloaded(delay_s: float, target_s: float) -> Failure:
    """SERVICE_OVERLOADED; who comes back is asked to wait at least as long as others wait now."""
    return SERVICE_OVERLOADED(
        retry_after_s=float(ceil(min(max(2 * delay_s, RETRY_AFTER_S_MIN), RETRY_AFTER_S_MAX))),
        queueing_delay_ms=round(delay_s * 1_000),
        target_ms=round(target_s * 1_000),
    )
