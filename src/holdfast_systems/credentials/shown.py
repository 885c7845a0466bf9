"""Events, deliveries, attempts and endpoints as the API tells them; the pages show the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.base import redacted_text, utc_text
from holdfast.delivery import Delivery, Endpoint, EventHistory
from holdfast_systems.credentials.platform import REASON_CHARS_MAX, UNROUTED

ATTEMPT_VERBS: Mapping[str, str] = {"finished": "delivered", "retried": "retried", "failed": "failed"}
DELIVERY_STATES: Mapping[str, str] = {
    "pending": "queued",
    "sending": "processing",
    "delivered": "complete",
    "failed": "failed",
}
"""The status of a delivery, and the state of its job."""


def shown_event(found: EventHistory) -> dict[str, Any]:
    """An event, and every attempt to deliver it."""
    return {
        "event_id": found.id,
        "event_type": found.type,
        "status": event_status([one.state for one in found.deliveries]),
        "payload": found.payload,
        "created_at": utc_text(found.created_us),
        "deliveries": [_of_event(one) for one in found.deliveries],
    }


def shown_delivery(row: Mapping[str, Any], reason: str | None) -> dict[str, Any]:
    """One delivery of a list, with the reason of its last attempt that failed."""
    return {
        "event_id": row["event_id"],
        "event_type": row["type"],
        "endpoint_id": row["endpoint_id"],
        "status": delivery_status(row["state"]),
        "attempts": row["attempt_count"],
        "error_code": row["error_code"],
        "error_message": row["error_message"],
        "reason": shown_reason(reason),
        "created_at": utc_text(row["created_us"]),
        "last_attempt_at": _time(row["last_attempt_us"]),
        "delivered_at": _time(row["finished_us"]),
        "next_attempt_at": _time(row["due_us"]) if row["state"] == "queued" else None,
    }


def shown_endpoint(endpoint: Endpoint) -> dict[str, Any]:
    """Where events go."""
    return {
        "endpoint_id": endpoint.id,
        "url": endpoint.url,
        "event_types": list(endpoint.event_types),
        "enabled": endpoint.enabled,
        "disabled_reason": endpoint.disabled_reason,
        "delays_s": list(endpoint.delays_s),
        "timeout_s": endpoint.timeout_s,
        "secrets_in_force": len(endpoint.secrets),
        "created_at": utc_text(endpoint.created_us),
    }


def event_status(states: Sequence[str | None]) -> str:
    """What became of an event with deliveries in these states."""
    if "failed" in states:
        return "failed"
    if {"queued", "processing"} & set(states):
        return "pending"
    return "delivered" if states else UNROUTED


def delivery_status(state: str | None) -> str:
    """The status of a delivery whose job is in this state; the job of one that came through may be pruned."""
    return next((status for status, known in DELIVERY_STATES.items() if known == state), "delivered")


def shown_reason(reason: str | None) -> str | None:
    """Why an attempt failed, such as a certificate that has expired, or a name that is not known."""
    return None if reason is None else redacted_text(reason, REASON_CHARS_MAX)


def _of_event(delivery: Delivery) -> dict[str, Any]:
    return {
        "endpoint_id": delivery.endpoint_id,
        "status": event_status([delivery.state]),
        "attempts": [_attempt(event) for event in delivery.events if event["verb"] in ATTEMPT_VERBS],
        "error_code": delivery.error_code,
        "error_message": delivery.error_message,
    }


def _attempt(event: Mapping[str, Any]) -> dict[str, Any]:
    duration_us = event["duration_us"]
    return {
        "attempt": event["attempt"],
        "at": utc_text(event["at_us"]),
        "outcome": ATTEMPT_VERBS[event["verb"]],
        "status_code": event["upstream_status"],
        "error_code": event["code"],
        "reason": shown_reason(event["reason"]),
        "duration_ms": None if duration_us is None else round(duration_us / 1_000, 3),
        "next_attempt_at": _time(event["due_us"]),
    }


def _time(moment_us: int | None) -> str | None:
    return None if moment_us is None else utc_text(moment_us)
