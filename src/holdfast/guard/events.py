"""What a link tells its listeners. Without a listener nothing is made and nothing is paid."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from holdfast.base.bus import report
from holdfast.catalog.failure import Failure
from holdfast.lifecycle import Stop


class LinkVerb(StrEnum):
    SUCCEEDED = "link.succeeded"
    RETRIED = "link.retried"
    GAVE_UP = "link.gave_up"
    REJECTED = "link.rejected"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkEvent:
    """One thing that happened on a link."""

    verb: LinkVerb
    link: str
    attempt: int
    failure: Failure | None = None
    delay_s: float | None = None
    reason: Stop | None = None


Listener = Callable[[LinkEvent], None]


def tell(listeners: Iterable[Listener], event: LinkEvent) -> None:
    """Tell everyone; a listener that raises changes nothing for the call and is reported as unraisable."""
    for listener in listeners:
        try:
            listener(event)
        except Exception as broken:  # noqa: BLE001 - a broken listener must not decide the outcome of a call
            report(broken, "a Holdfast link listener raised", listener)
