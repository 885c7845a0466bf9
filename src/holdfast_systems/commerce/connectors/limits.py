"""Tool calls per minute of each instance, counted for all processes together."""

from __future__ import annotations

from functools import partial

from holdfast.http.aside import aside
from holdfast.http.leases import Leases
from holdfast.policy import Limited, RateLimit
from holdfast.store import Store
from holdfast_systems.commerce.faults import RATE_LIMITED

MINUTE_S = 60.0
RATES_MAX = 1_000


class ToolLimits:
    """The limits as this process sees them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rates: dict[int, Leases] = {}

    async def take(self, instance_id: str, per_minute: int) -> None:
        """Count one call of the instance.

        Raises:
            Failure: RATE_LIMITED with the time to wait.
        """
        leases = self._leases(per_minute)
        found = leases.quick(instance_id)
        if found is None:
            found = await aside(partial(leases.take, instance_id))
        if isinstance(found, Limited):
            details = {"instanceId": instance_id, "limited": "toolCallsPerMinute", **leases.rate.details(found)}
            raise RATE_LIMITED(retry_after_s=found.retry_after_s, **details)

    def _leases(self, per_minute: int) -> Leases:
        leases = self._rates.get(per_minute)
        if leases is None:
            if len(self._rates) >= RATES_MAX:
                self._rates.clear()
            rate = RateLimit(count=per_minute, per_s=MINUTE_S)
            leases = self._rates.setdefault(per_minute, Leases(f"commerce-tools-{per_minute}", rate, self._store))
        return leases
