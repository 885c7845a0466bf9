"""Deliveries: events and who gets them, the newest first."""

from __future__ import annotations

from typing import Any

from holdfast.base import encode, redacted_text
from holdfast.base.formatting import age
from holdfast.catalog.core import BAD_REQUEST
from holdfast.console.filters import STATES, filter_form, time_of
from holdfast.console.listing import PAGE_ROWS, Place, read_place
from holdfast.console.page import Desk, Live, Page, Part
from holdfast.console.parts import Column, badge, code_link, link, moment, notice, pager, table
from holdfast.console.visit import Visit
from holdfast.http.markup import Markup, element, joined
from holdfast.store import Tx
from holdfast.worker.dead_filter import EARLIEST_US, LATEST_US

MESSAGE_CHARS_MAX = 90
SCAN_EVENTS_MAX = 2_000
"""So many events one page looks at."""
NEWEST = (LATEST_US, "")
NAMES = (("endpoint", "Endpoint"), ("type", "Event type"), ("code", "Code"), ("tenant", "Tenant"), ("text", "Text"))
COLUMNS = (
    Column("event"),
    Column("type"),
    Column("endpoint"),
    Column("state"),
    Column("attempts", "number"),
    Column("published"),
    Column("what then", "wide"),
)
Found = tuple[int, list[dict[str, Any]], Place | None, bool]
"""Now, the rows, where the next page begins, and whether the walk ended before the page was full."""


def page(desk: Desk, visit: Visit) -> Page:
    """The deliveries that the address asks for."""
    now_us, found, following, cut_short = desk.store.atomic(lambda tx: _read(tx, visit), write=False)
    rows = [_row(visit, one, now_us) for one in found]
    notes = []
    if cut_short:
        notes.append(notice(f"Looked at {SCAN_EVENTS_MAX:,} events so far; there may be more that match further on."))
    shown = table(COLUMNS, rows, caption="Deliveries", empty="No delivery matches.")
    parts: list[Part] = [
        element("h1", "Deliveries"),
        filter_form(visit, names=NAMES, states=True),
        Live("deliveries", joined(shown, *notes)),
        pager(
            visit,
            older=None if following is None else {"before": encode(list(following))},
            words="Continue searching" if cut_short else "Next",
        ),
    ]
    return Page("Deliveries", parts, "deliveries")


def _read(tx: Tx, visit: Visit) -> Found:
    now_us = tx.now_us()
    before = visit.get("before")
    place = NEWEST if before is None else read_place(before, NEWEST)
    span = {"since_us": time_of(visit, "since", now_us), "until_us": time_of(visit, "until", now_us)}
    walk = {
        "since_us": EARLIEST_US if span["since_us"] is None else span["since_us"],
        "until_us": LATEST_US if span["until_us"] is None else span["until_us"],
        "before_us": place[0],
        "before_id": place[1],
    }
    state = visit.get("state")
    if state is not None and state not in STATES:
        raise BAD_REQUEST("{field} is one of {known}.", field="state", known=", ".join(STATES))
    wanted = {name: visit.get(name) for name, _ in NAMES}
    narrow = state is not None or any(wanted.values())
    scan = SCAN_EVENTS_MAX if narrow else PAGE_ROWS
    found = tx.records("console.deliveries", **walk, **wanted, state=state, scan=scan, count=PAGE_ROWS + 1)
    if len(found) > PAGE_ROWS:
        shown = _whole_events(found)
        return now_us, shown, (shown[-1]["created_us"], shown[-1]["event_id"]), False
    end = tx.row("console.events_end", **walk, scan=scan - 1)
    return now_us, found, end, end is not None and narrow


def _whole_events(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows without those of the last event, which may have more receivers than fit; unless it is the only one."""
    last = found[-1]["event_id"]
    whole = [one for one in found if one["event_id"] != last]
    return whole or found[:-1]


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
