"""Where the gateway calls others: the control plane for money, the runner for work."""

from __future__ import annotations

from holdfast.catalog import Failure
from holdfast.catalog.network import NETWORK_CODES
from holdfast.guard import Link
from holdfast.policy import NEVER, Backoff, Breaker, Full, Retry
from holdfast_systems.commerce.faults import COMMERCE

AUTHORIZE_S = 8.0
"""All attempts to authorize a run; then paid plans fail closed and trials are billed later."""
SETTLE_S = 15.0
"""All attempts to settle a run while its caller waits; then a job goes on."""
LOOKUP_S = 8.0

_BACKOFF = Backoff.exponential(0.1, factor=2.0, cap_s=2.0, jitter=Full())
_AGAIN = frozenset({502, 503, 504})


class Links:
    """The links of one process."""

    def __init__(self) -> None:
        # Every request to the control plane is the same request each time, so a repeat has one effect:
        # authorize is idempotent by its runId, settle and release by their reservationId.
        self.authorize = Link(
            "gateway → control plane: authorize",
            retry=Retry(attempts=3, backoff=_BACKOFF, when=is_away),
            total_s=AUTHORIZE_S,
            breaker=Breaker(),
            budget=None,
            upstream=COMMERCE,
            writes=True,
        )
        self.settle = Link(
            "gateway → control plane: settle",
            retry=Retry(attempts=4, backoff=_BACKOFF, when=is_away),
            total_s=SETTLE_S,
            breaker=Breaker(),
            budget=None,
            upstream=COMMERCE,
            writes=True,
        )
        self.lookup = Link(
            "gateway → control plane: instance",
            retry=Retry(attempts=3, backoff=_BACKOFF, when=is_away),
            total_s=LOOKUP_S,
            breaker=Breaker(),
            upstream=COMMERCE,
        )
        # Never repeated here: the runner repeats once at the runtime, where the run id is known.
        self.runner = Link("gateway → runner", retry=NEVER, breaker=Breaker(), writes=True)


def is_away(failure: Failure) -> bool:
    """Whether the control plane did not answer, or answered 502, 503 or 504."""
    if failure.remote is not None and failure.remote.status is not None:
        return failure.remote.status in _AGAIN
    return failure.code in NETWORK_CODES
