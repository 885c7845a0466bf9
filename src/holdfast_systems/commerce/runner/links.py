"""Where the runner calls others: the agent runtime."""

from __future__ import annotations

from holdfast.catalog import Failure
from holdfast.catalog.core import CONNECTION_REFUSED, CONNECTION_RESET, DNS_FAILED, NETWORK_TIMEOUT
from holdfast.guard import Link
from holdfast.policy import Backoff, Breaker, Retry

ATTEMPTS = 2
"""The first attempt and one repeat: a runtime that does not know the run id would call its tools again."""
REPEAT_AFTER_S = 0.2

_LOST = frozenset({CONNECTION_REFUSED.code, CONNECTION_RESET.code, DNS_FAILED.code})


def runner_to_runtime() -> Link:
    """A run, repeated once after a transport error and after nothing else; the run id is its key."""
    return Link(
        "runner → runtime",
        retry=Retry(attempts=ATTEMPTS, backoff=Backoff.constant(REPEAT_AFTER_S), when=is_transport_error),
        breaker=Breaker(),
        # One repeat of each run cannot pile up; none is refused because others were repeated before.
        budget=None,
        writes=True,
    )


def is_transport_error(failure: Failure) -> bool:
    """Whether no reply came because of the network; a reply that took too long is not one."""
    if failure.code == NETWORK_TIMEOUT.code:
        return failure.details.get("phase") == "connect"
    return failure.code in _LOST
