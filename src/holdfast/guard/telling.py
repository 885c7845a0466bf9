"""What a link tells to its own listeners and to the listeners of the process's bus.

The link checks first (`if listeners or bus.listeners`), so that without a listener nothing is made. Everything
is told by the caller's thread in the caller's context.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.base.bus import bus

if TYPE_CHECKING:
    from holdfast.catalog import Failure, Fault
    from holdfast.guard.events import Listener
    from holdfast.lifecycle import BreakerState, Stop
    from holdfast.policy.circuit import Told

SUCCEEDED = "link.succeeded"
RETRIED = "link.retried"
GAVE_UP = "link.gave_up"
REJECTED = "link.rejected"

_BREAKER_VERBS = {
    "open": "breaker.opened",
    "closed": "breaker.closed",
    "half_open": "breaker.half_opened",
}


def tell(
    listeners: Sequence[Listener],
    verb: str,
    link: str,
    attempt: int,
    *,
    fault: Fault | None = None,
    failure: Failure | None = None,
    delay_s: float | None = None,
    reason: Stop | None = None,
    attempted: bool | None = None,
    duration_s: float | None = None,
) -> None:
    """Tell one thing that happened; what is not known is left out of the facts.

    Args:
        attempted: whether the callee was asked before the link gave up.
        duration_s: how long the attempt took that ended with this.
    """
    if listeners:
        _tell_listeners(listeners, verb, link, attempt, failure, delay_s, reason)
    if bus.listeners:
        known = {
            **({} if fault is None else fault.facts),
            "delay_s": delay_s,
            "reason": None if reason is None else reason.value,
            "attempted": attempted,
            "duration_s": duration_s,
        }
        bus.tell(verb, link=link, attempt=attempt, **{name: fact for name, fact in known.items() if fact is not None})


def breaker_told(link: str) -> Told:
    """What tells the moves of a link's breaker; the breaker has the link's name."""

    def told(state: BreakerState, reason: str) -> None:
        if bus.listeners:
            bus.tell(_BREAKER_VERBS[state], name=link, reason=reason)

    return told


def _tell_listeners(
    listeners: Sequence[Listener],
    verb: str,
    link: str,
    attempt: int,
    failure: Failure | None,
    delay_s: float | None,
    reason: Stop | None,
) -> None:
    from holdfast.guard import events  # loaded by the first listener

    event = events.LinkEvent(
        verb=events.LinkVerb(verb), link=link, attempt=attempt, failure=failure, delay_s=delay_s, reason=reason
    )
    events.tell(listeners, event)
