"""Lists of the platform: events and deliveries, the newest first, and dead letters by cause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.base import utc_text
from holdfast.operate.delivery_list import NEWEST, DeliveryFilter, list_deliveries
from holdfast.store import Store, Tx
from holdfast_systems.credentials.faults import INVALID_PAYLOAD
from holdfast_systems.credentials.platform import PAGE_ROWS_MAX, TENANT
from holdfast_systems.credentials.shown import DELIVERY_STATES, event_status, shown_delivery

DIGITS_MAX = 18
GROUPS_MAX = 100
TYPES_MAX = 50

Place = tuple[int, str]
"""The time and the id of the row at which a page ended."""


@dataclass(frozen=True, slots=True)
class ListPage:
    """Some rows, and where the next page begins."""

    rows: Sequence[dict[str, Any]]
    next: str | None
    """None on the last page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadGroup:
    """Dead letters of one endpoint that failed with one code."""

    endpoint_id: str
    error_code: str
    letters: int
    oldest_us: int
    newest_us: int
    error_message: str | None
    """Of one of them."""


def read_place(text: str, name: str, *, first: Place) -> Place:
    """Where a page begins: `<microseconds>:<id>` as a `next` told it, or the first page when empty.

    Raises:
        Failure: INVALID_PAYLOAD names the parameter.
    """
    moment, _, identifier = text.partition(":")
    if text and not (moment.isdecimal() and len(moment) <= DIGITS_MAX and identifier and "\0" not in identifier):
        raise INVALID_PAYLOAD(f"Invalid field: {name} (format)", field=name, reason="format")
    return (int(moment), identifier) if text else first


def event_page(store: Store, *, count: int, before: str = "", event_type: str | None = None) -> ListPage:
    """Events, the newest first, each with what became of it.

    Raises:
        Failure: INVALID_PAYLOAD when the place is none.
    """
    count = min(count, PAGE_ROWS_MAX)
    place = read_place(before, "before", first=(int(NEWEST[0]), str(NEWEST[1])))
    asked = {"before_us": place[0], "before_id": place[1], "event_type": event_type, "count": count}
    rows = store.atomic(lambda tx: tx.records("credentials_lists.events", tenant=TENANT, **asked), write=False)
    return ListPage([_event(row) for row in rows], _next(rows, count))


def delivery_page(
    store: Store, *, count: int, before: str = "", endpoint_id: str | None = None, status: str | None = None
) -> ListPage:
    """Deliveries, the newest event first, each with the reason of its last attempt that failed.

    Raises:
        Failure: INVALID_PAYLOAD when the place is none.
    """
    place = read_place(before, "before", first=(int(NEWEST[0]), str(NEWEST[1])))
    state = None if status is None else DELIVERY_STATES[status]
    wanted = DeliveryFilter(tenant=TENANT, endpoint=endpoint_id, state=state)

    def phase(tx: Tx) -> ListPage:
        found = list_deliveries(tx, wanted, place=place, count=min(count, PAGE_ROWS_MAX))
        failing = [row["job_id"] for row in found.rows if row["state"] in {"queued", "processing", "failed"}]
        reasons: dict[str, str] = dict(tx.rows("credentials_lists.reasons", ids=failing)) if failing else {}
        shown = [shown_delivery(row, reasons.get(row["job_id"])) for row in found.rows]
        return ListPage(shown, None if found.next is None else f"{found.next[0]}:{found.next[1]}")

    return store.atomic(phase, write=False)


def dead_groups(store: Store, *, event_id: str | None = None, endpoint_id: str | None = None) -> list[DeadGroup]:
    """Dead letters by endpoint and code, the largest group first."""
    wanted = {"tenant": TENANT, "event_id": event_id, "endpoint_id": endpoint_id, "count": GROUPS_MAX}
    rows = store.atomic(lambda tx: tx.records("credentials_lists.dead_groups", **wanted), write=False)
    return [DeadGroup(**row) for row in rows]


def event_types(store: Store) -> list[str]:
    """The types of the events that are on record."""
    asked = {"tenant": TENANT, "count": TYPES_MAX}
    rows = store.atomic(lambda tx: tx.rows("credentials_lists.event_types", **asked), write=False)
    return [name for (name,) in rows]


def _event(row: dict[str, Any]) -> dict[str, Any]:
    states = ["failed"] * int(row["failed"] > 0) + ["queued"] * int(row["pending"] > 0)
    states += ["complete"] * int(row["deliveries"] > 0)
    return {
        "event_id": row["event_id"],
        "event_type": row["event_type"],
        "status": event_status(states),
        "deliveries": row["deliveries"],
        "created_at": utc_text(row["created_us"]),
    }


def _next(rows: Sequence[dict[str, Any]], count: int) -> str | None:
    return f"{rows[-1]['created_us']}:{rows[-1]['event_id']}" if len(rows) == count else None
