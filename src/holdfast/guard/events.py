"""What a link tells its listeners. Without a listener nothing is made and nothing is paid."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from holdfast.base.bus import report
from holdfast.catalog.failure import Failure
from holdfast.lifecycle import Stop


class LinkVerb(StrEnum):
    """What may happen on a link."""

    SUCCEEDED = "link.succeeded"
    """An attempt worked; `attempt` tells which."""
    RETRIED = "link.retried"
    """An attempt failed and another follows after `delay_s`."""
    GAVE_UP = "link.gave_up"
    """An attempt failed and no other follows, for `reason`; or the next one was refused."""
    REJECTED = "link.rejected"
    """No attempt was made, for `reason`; `failure` tells how long to wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkEvent:
    """One thing that happened on a link."""

    verb: LinkVerb
    """What happened, one of the verbs above."""
    link: str
    """The name of the link."""
    attempt: int
    """The number of the attempt, from 1; 0 when none was made."""
    failure: Failure | None = None
    """What went wrong, classified."""
    delay_s: float | None = None
    """How long the link waits before the next attempt."""
    reason: Stop | None = None
    """Why there is no further attempt."""


Listener = Callable[[LinkEvent], None]


def tell(listeners: Iterable[Listener], event: LinkEvent) -> None:
    """Tell everyone; a listener that raises changes nothing for the call and is reported as unraisable."""
    for listener in listeners:
        try:
            listener(event)
        except Exception as broken:  # noqa: BLE001 - a broken listener must not decide the outcome of a call
            report(broken, "a Holdfast link listener raised", listener)
