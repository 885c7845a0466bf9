"""Reports trouble of a worker itself, as `worker.trouble`: its database fails, or its handlers never return."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from holdfast.base import bus, monotonic_s, redacted_text
from holdfast.catalog import Failure
from holdfast.worker import log_lines

TOLD_S = 10.0
"""Time in which the same trouble is logged once."""


class Trouble:
    """What one worker reports. Its threads may share it."""

    def __init__(self, worker: Callable[[], str]) -> None:
        """
        Args:
            worker: returns the id of the worker, which changes when a lease was lost.
        """
        self._worker = worker
        self._told_s: dict[str, float] = {}

    def tell(self, failure: Failure, **facts: str) -> None:
        """Report each time; the standard log has the same code once in ten seconds."""
        worker = self._worker()
        if not self._was_told(failure.code):
            self._told_s[failure.code] = monotonic_s()
            log_lines.log_trouble(worker, failure.code, redacted_text(failure.technical))
        if bus.listeners:
            bus.tell("worker.trouble", worker=worker, technical=failure.technical, **failure.fault.facts, **facts)

    def tell_unless_told(self, failure: Failure) -> None:
        """Report once in ten seconds what may also be reported elsewhere.

        Claims and renewals fail for the same reason, and would count twice; but a worker whose lease is over claims
        nothing, and then only its renewals tell how long an outage lasts.
        """
        if not self._was_told(failure.code):
            self.tell(failure)

    def _was_told(self, code: str) -> bool:
        return monotonic_s() < self._told_s.get(code, -inf) + TOLD_S
