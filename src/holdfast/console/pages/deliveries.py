"""Deliveries: events and who gets them, the newest first."""

from __future__ import annotations

from typing import Any

from holdfast.base import encode, redacted_text
from holdfast.base.formatting import age
from holdfast.console.filters import filter_form, problems_of, time_of, unreadable
from holdfast.console.listing import read_place
from holdfast.console.page import Desk, Live, Page, Part
from holdfast.console.parts import Column, badge, code_link, link, moment, notice, pager, table
from holdfast.console.visit import Visit
from holdfast.http.markup import Markup, element, joined
from holdfast.operate.delivery_list import NEWEST, SCAN_EVENTS_MAX, DeliveryFilter, DeliveryPage, list_deliveries
from holdfast.store import Tx

MESSAGE_CHARS_MAX = 90
NAMES = (("endpoint", "Endpoint"), ("type", "Event type"), ("code", "Code"), ("tenant", "Tenant"), ("text", "Text"))
COLUMNS = (
    Column("event"),
    Column("type", "self"),
    Column("endpoint"),
    Column("state", "self"),
    Column("attempts", "number"),
    Column("published"),
    Column("what then", "wide"),
)


def page(desk: Desk, visit: Visit) -> Page:
    """The deliveries that the address asks for."""
    now_us = desk.store.atomic(lambda tx: tx.now_us(), write=False)
    problems = problems_of(visit, now_us)
    form = filter_form(visit, names=NAMES, states=True, problems=problems)
    if problems:
        return unreadable("Deliveries", "deliveries", form, problems)
    found = desk.store.atomic(lambda tx: _read(tx, visit, now_us), write=False)
    rows = [_row(visit, one, found.now_us) for one in found.rows]
    notes = []
    if found.cut:
        notes.append(notice(f"Looked at {SCAN_EVENTS_MAX:,} events so far; there may be more that match further on."))
    shown = table(COLUMNS, rows, caption="Deliveries", empty="No delivery matches.")
    parts: list[Part] = [
        element("h1", "Deliveries"),
        form,
        Live("deliveries", joined(shown, *notes)),
        pager(
            visit,
            older=None if found.next is None else {"before": encode(list(found.next))},
            words="Continue searching" if found.cut else "Next",
        ),
    ]
    return Page("Deliveries", parts, "deliveries")


def _read(tx: Tx, visit: Visit, now_us: int) -> DeliveryPage:
    before = visit.get("before")
    return list_deliveries(
        tx,
        DeliveryFilter(state=visit.get("state"), **{name: visit.get(name) for name, _ in NAMES}),
        since_us=time_of(visit, "since", now_us),
        until_us=time_of(visit, "until", now_us),
        place=NEWEST if before is None else read_place(before, NEWEST),
    )


def _row(visit: Visit, one: dict[str, Any], now_us: int) -> list[str]:
    return [
        link(visit.to("jobs", one["job_id"]), element("code", one["event_id"]), class_="id"),
        one["type"],
        link(visit.to("deliveries", endpoint=one["endpoint_id"]), element("code", one["endpoint_id"])),
        badge(one["state"] or "complete"),
        "" if one["attempt_count"] is None else str(one["attempt_count"]),
        moment(one["created_us"], now_us),
        _then(visit, one, now_us),
    ]


def _then(visit: Visit, one: dict[str, Any], now_us: int) -> Markup:
    match one["state"]:
        case "failed":
            message = element("span", redacted_text(one["error_message"], MESSAGE_CHARS_MAX), class_="message")
            return joined(code_link(visit, one["error_code"]), " ", message)
        case "queued":
            return joined(f"due {age(one['due_us'], now_us)}" if one["lane"] == "waiting" else "ready")
        case "processing":
            return joined("since ", moment(one["last_attempt_us"], now_us))
        case "complete":
            return joined("delivered at ", moment(one["finished_us"], now_us))
        case _:
            return joined("delivered, and its job pruned")
