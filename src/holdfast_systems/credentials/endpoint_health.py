"""How the endpoints are: whether events reach them, how many wait and how many were given up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from holdfast.delivery import Endpoint
from holdfast.delivery.endpoints import BREAKER
from holdfast.delivery.publishing import NAME, channel
from holdfast.store import Store, Tx
from holdfast.watch import names
from holdfast.watch.series import StoreSeries
from holdfast_systems.credentials.platform import TENANT

WINDOW_S = 3_600.0
WAITING_MAX = 10_000
FAILING_SHARE = 0.95
"""Below this share of successful attempts, which is the critical threshold of the alerts, an endpoint is failing."""


class Health(StrEnum):
    """How an endpoint is."""

    DISABLED = "disabled"
    UNREACHABLE = "unreachable"
    """Its breaker is open: events wait until it answers again."""
    FAILING = "failing"
    HEALTHY = "healthy"
    IDLE = "idle"
    """Nothing was sent to it in the last hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointHealth:
    """How one endpoint is."""

    health: Health
    reason: str | None
    """Why it is disabled or unreachable."""
    attempts: int
    """In the last hour."""
    delivered: int
    waiting: int
    dead: int


def healths(store: Store, endpoints: Sequence[Endpoint], *, dead: Mapping[str, int]) -> dict[str, EndpointHealth]:
    """The health of each endpoint by its id.

    Args:
        dead: how many dead letters each has.
    """
    series = StoreSeries(store)
    attempts = series.increase_by(names.DELIVERIES.name, "endpoint", over_s=WINDOW_S)
    delivered = series.increase_by(names.DELIVERIES_GOOD.name, "endpoint", over_s=WINDOW_S)

    def phase(tx: Tx) -> tuple[dict[str, int], dict[str, str | None]]:
        asked = {"tenant": TENANT, "queue": channel(NAME).queue, "most": WAITING_MAX}
        waiting: dict[str, int] = dict(tx.rows("credentials_lists.waiting", **asked))
        open_ = tx.rows("credentials_lists.breakers", names=[BREAKER + one.id for one in endpoints])
        return waiting, {name.removeprefix(BREAKER): reason for name, _, reason, _ in open_}

    waiting, unreachable = store.atomic(phase, write=False) if endpoints else ({}, {})
    found = {}
    for one in endpoints:
        tried, good = round(attempts.get(one.id, 0)), round(delivered.get(one.id, 0))
        found[one.id] = EndpointHealth(
            health=_health(one, open_=one.id in unreachable, tried=tried, good=good),
            reason=one.disabled_reason if not one.enabled else unreachable.get(one.id),
            attempts=tried,
            delivered=good,
            waiting=waiting.get(one.id, 0),
            dead=dead.get(one.id, 0),
        )
    return found


def _health(endpoint: Endpoint, *, open_: bool, tried: int, good: int) -> Health:
    if not endpoint.enabled:
        return Health.DISABLED
    if open_:
        return Health.UNREACHABLE
    if not tried:
        return Health.IDLE
    return Health.HEALTHY if good >= tried * FAILING_SHARE else Health.FAILING
