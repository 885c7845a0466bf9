"""Requests in a minute, shared by all processes: for each instance, and for each website that embeds a widget."""

from __future__ import annotations

from functools import partial
from threading import Lock

from holdfast.http.aside import aside
from holdfast.http.leases import Leases
from holdfast.policy import Limited, RateLimit
from holdfast.store import Store
from holdfast_systems.commerce.faults import RATE_LIMITED

WINDOW_S = 60
LEASES_MAX = 100
"""Plans with different limits; beyond it the oldest is forgotten, with what it had leased."""


class MinuteLimits:
    """Counts requests by name, limit and subject."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._leases: dict[tuple[str, int], Leases] = {}
        self._lock = Lock()

    async def take(self, name: str, per_minute: int, subject: str) -> None:
        """Let one request through.

        Raises:
            Failure: RATE_LIMITED, with the time to wait.
        """
        leases = self._of(name, per_minute)
        taken = leases.quick(subject) or await aside(partial(leases.take, subject))
        if isinstance(taken, Limited):
            raise RATE_LIMITED(retry_after_s=taken.retry_after_s, scope=name, limit=per_minute, windowSeconds=WINDOW_S)

    def _of(self, name: str, per_minute: int) -> Leases:
        found = self._leases.get((name, per_minute))
        if found is not None:
            return found
        with self._lock:
            while len(self._leases) >= LEASES_MAX:
                del self._leases[next(iter(self._leases))]
            # The limit is part of the name: a plan that changes begins anew.
            fresh = Leases(f"commerce.{name}.{per_minute}", RateLimit.per_minute(per_minute), self._store)
            return self._leases.setdefault((name, per_minute), fresh)
