"""Jobs: a list by filter, page by page."""

from __future__ import annotations

from typing import Any

from holdfast.base import redacted_text
from holdfast.base.formatting import age, cut
from holdfast.console.filters import Filter, filter_form, filter_of, problems_of, unreadable
from holdfast.console.listing import SCAN_ROWS_MAX, Listing, listed
from holdfast.console.page import Desk, Live, Page, Part
from holdfast.console.parts import Column, badge, code_link, link, moment, notice, pager, table
from holdfast.console.visit import Visit
from holdfast.http.markup import Markup, element, joined
from holdfast.store import Tx

MESSAGE_CHARS_MAX = 90
NAMES = (("queue", "Queue"), ("kind", "Kind"), ("code", "Code"), ("tenant", "Tenant"), ("text", "Text"))
COLUMNS = (
    Column("job"),
    Column("state", "self"),
    Column("queue"),
    Column("kind", "self"),
    Column("attempts", "number"),
    Column("created"),
    Column("what then", "wide"),
)


def page(desk: Desk, visit: Visit) -> Page:
    """The jobs that the address asks for."""

    def read(tx: Tx) -> tuple[Filter, Listing]:
        wanted = filter_of(visit, now_us)
        return wanted, listed(tx, wanted, before=visit.get("before"))

    now_us = desk.store.atomic(lambda tx: tx.now_us(), write=False)
    problems = problems_of(visit, now_us)
    form = filter_form(visit, names=NAMES, states=True, problems=problems)
    if problems:
        return unreadable("Jobs", "jobs", form, problems)
    wanted, listing = desk.store.atomic(read, write=False)
    rows = [_row(visit, job, now_us) for job in listing.jobs]
    shown = table(COLUMNS, rows, caption="Jobs", empty="No job matches.")
    parts: list[Part] = [
        element("h1", "Jobs"),
        form,
        *_group_note(visit, wanted),
        Live("jobs", joined(element("p", _words(listing), class_="note"), shown, *_cut_note(listing))),
        pager(visit, older=_next(listing), words="Continue searching" if listing.cut else "Next"),
    ]
    return Page("Jobs", parts, "jobs")


def _words(listing: Listing) -> str:
    return f"{len(listing.jobs)} shown, {listing.order}."


def _cut_note(listing: Listing) -> list[Markup]:
    if not listing.cut:
        return []
    return [notice(f"Looked at {SCAN_ROWS_MAX:,} jobs so far; there may be more that match further on.")]


def _group_note(visit: Visit, wanted: Filter) -> list[Markup]:
    if wanted.fingerprint is None:
        return []
    whole = link(visit.to("dead", fingerprint=wanted.fingerprint), "the group")
    return [element("p", "Only of one group of dead letters. See ", whole, ".", class_="note")]


def _next(listing: Listing) -> dict[str, str] | None:
    return None if listing.next is None else {"before": listing.next}


def _row(visit: Visit, job: dict[str, Any], now_us: int) -> list[str]:
    return [
        link(visit.to("jobs", job["id"]), element("code", job["id"]), class_="id"),
        badge(job["state"]),
        link(visit.to("jobs", queue=job["queue"], state=visit.get("state")), job["queue"]),
        job["kind"],
        str(job["attempt_count"]),
        moment(job["created_us"], now_us),
        _then(visit, job, now_us),
    ]


def _then(visit: Visit, job: dict[str, Any], now_us: int) -> Markup:
    """What became of it, or what it waits for."""
    match job["state"]:
        case "failed":
            message = element("span", redacted_text(job["error_message"], MESSAGE_CHARS_MAX), class_="message")
            return joined(code_link(visit, job["error_code"]), " ", message)
        case "queued":
            due = f"due {age(job['due_us'], now_us)}" if job["lane"] == "waiting" else "ready"
            return joined(due, " to be tried alone" if job["lane"] == "alone" else "")
        case "processing":
            return joined("since ", moment(job["last_attempt_us"], now_us), " by ", cut(job["lease_owner"], 40))
        case _:
            return joined("at ", moment(job["finished_us"], now_us))
