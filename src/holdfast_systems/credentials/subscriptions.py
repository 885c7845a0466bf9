"""Which events an endpoint may ask for: only those that can occur."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast_systems.credentials.faults import INVALID_EVENT_TYPE
from holdfast_systems.credentials.model import EventType

VALUE_CHARS_MAX = 100


def check_event_types(event_types: Sequence[str]) -> None:
    """Refuse a subscription that would never receive anything.

    Raises:
        Failure: INVALID_EVENT_TYPE names the entry and the types that there are.
    """
    allowed = [one.value for one in EventType]
    for place, name in enumerate(event_types):
        if name not in allowed:
            raise INVALID_EVENT_TYPE(
                "{field}: {value} is not an event type; choose from {known}.",
                field=f"event_types.{place}",
                reason="unknown",
                value=name[:VALUE_CHARS_MAX],
                known=", ".join(allowed),
                allowed=allowed,
            )
