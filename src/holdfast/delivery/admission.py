"""May this endpoint be called now? The breaker and the rate limit that all processes share."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.delivery.endpoint import Endpoint
from holdfast.delivery.endpoints import BREAKER
from holdfast.policy import Breaker, Limited
from holdfast.store import Tx
from holdfast.worker.breakers import SharedBreaker, Tally

ENDPOINT_BREAKER = Breaker(failure_ratio=0.7, calls_min=20, window_s=10.0, recent_s=5.0, open_max_s=5.0)
"""For traffic: a handful of events to a dead endpoint go through their schedule and become dead letters in time."""
PROBING_S = 1.0
"""While probes are under way, the others look again after this time."""


@dataclass(frozen=True, slots=True)
class Held:
    """Not now; look again after this time."""

    wait_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class Admitted:
    """Go ahead; as a probe of this round, if the breaker is trying."""

    generation: int | None = None


def take_pace(tx: Tx, endpoint: Endpoint) -> Held | None:
    """Use up one of the endpoint's rate limit, or say when there is one again."""
    limit = endpoint.rate_limit
    if limit is None:
        return None
    tx.run("delivery.begin_pace", endpoint_id=endpoint.id)
    found = tx.row("delivery.pace", endpoint_id=endpoint.id)
    taken = limit.take(found[0] if found else 0, tx.now_us())
    tx.run("delivery.set_pace", endpoint_id=endpoint.id, tat_us=taken.tat_us)
    return Held(taken.retry_after_s, "the endpoint's rate limit") if isinstance(taken, Limited) else None


class EndpointBreakers:
    """A breaker for each endpoint, by one rule."""

    def __init__(self, rule: Breaker) -> None:
        self._rule = rule

    def admit(self, tx: Tx, endpoint_id: str) -> Admitted | Held:
        """Ask an endpoint's breaker that is not closed."""
        breaker = self._of(endpoint_id)
        admission = breaker.admit(tx, 1)
        if admission.count:
            if admission.generation is not None:
                breaker.spend(tx, 1)
            return Admitted(admission.generation)
        found = tx.row("breaker.look", name=breaker.name)
        left_s = found[1] / 1_000_000 if found is not None and found[0] == "open" else PROBING_S
        return Held(max(left_s, PROBING_S), "the endpoint's breaker is open")

    def tell(self, tx: Tx, endpoint_id: str, *, code: str | None, quiet_calls: int, generation: int | None) -> None:
        """What became of a call: a code speaks against the endpoint; calls that went well before it count too."""
        breaker = self._of(endpoint_id)
        if generation is None:
            failures = 0 if code is None else 1
            breaker.report(tx, Tally(calls=quiet_calls + 1, failures=failures, code=code or ""))
        else:
            bad = 0 if code is None else 1
            breaker.report_probes(tx, generation, good=1 - bad, bad=bad, silent=0, code=code or "")

    def _of(self, endpoint_id: str) -> SharedBreaker:
        return SharedBreaker(BREAKER + endpoint_id, self._rule)
