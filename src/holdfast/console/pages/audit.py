"""Audit: who did what, when, and what came of it."""

from __future__ import annotations

from typing import Any

from holdfast.base import new_id
from holdfast.base.formatting import count, cut
from holdfast.console.listing import NEWEST_ID
from holdfast.console.page import Desk, Live, Page, Part
from holdfast.console.pages.dead_work import state_of
from holdfast.console.parts import Column, badge, field, link, moment, notice, pager, table
from holdfast.console.visit import Visit
from holdfast.http.markup import Markup, element, joined
from holdfast.store import Tx

ROWS = 50
COLUMNS = (
    Column("when"),
    Column("who"),
    Column("verb"),
    Column("what", "wide"),
    Column("result"),
    Column("why", "wide"),
)


def page(desk: Desk, visit: Visit) -> Page:
    """The deeds, the last first."""
    before = visit.get("before") or NEWEST_ID

    def read(tx: Tx) -> tuple[int, list[dict[str, Any]]]:
        asked = {"before": before, "who": visit.get("who"), "verb": visit.get("verb"), "count": ROWS + 1}
        return tx.now_us(), tx.records("console.deeds", **asked)

    now_us, found = desk.store.atomic(read, write=False)
    more = len(found) > ROWS
    rows = [_row(visit, deed, now_us) for deed in found[:ROWS]]
    form = element(
        "form",
        field("Who", "who", visit.get("who") or ""),
        field("Verb", "verb", visit.get("verb") or ""),
        element("div", element("button", "Filter", type="submit"), class_="ways"),
        method="get",
        action=visit.to("audit"),
        class_="filter",
        role="search",
    )
    parts: list[Part] = [
        element("h1", "Audit"),
        element("p", "What was done by hand on this console. The journal of each job has the rest.", class_="lead"),
        form,
        Live("audit", table(COLUMNS, rows, caption="Audit", empty="Nobody has done anything by hand.")),
        pager(visit, older={"before": found[ROWS - 1]["id"]} if more else None, words="Older"),
    ]
    return Page("Audit", parts, "audit")


def word_of(desk: Desk, deed_id: str) -> list[Markup]:
    """One sentence about what was just done; nothing when there is no such deed."""
    found = desk.store.atomic(lambda tx: tx.records("console.deed", id=deed_id[: len(new_id())]), write=False)
    if not found:
        return []
    deed = found[0]
    what = element("code", cut(deed["subject"], 120))
    if deed["state"] == "done":
        return [notice(f"Done: {deed['verb']} ", what, ".", tone="good")]
    return [notice(f"Not done: {deed['verb']} ", what, f" ({deed['result']}).", tone="bad")]


def _row(visit: Visit, deed: dict[str, Any], now_us: int) -> list[str]:
    return [
        moment(deed["at_us"], now_us),
        deed["who"],
        deed["verb"],
        _subject(visit, deed),
        _result(visit, deed, now_us),
        deed["reason"] or "",
    ]


def _subject(visit: Visit, deed: dict[str, Any]) -> Markup:
    kind, _, name = deed["subject"].partition(":")
    text = element("code", cut(deed["subject"], 160))
    if kind == "job":
        return link(visit.to("jobs", name), text)
    if kind == "queue":
        return link(visit.to("jobs", queue=name), text)
    return link(visit.to("breakers"), text) if kind == "breaker" else text


def _result(visit: Visit, deed: dict[str, Any], now_us: int) -> Markup:
    state = state_of(deed, now_us)
    shown = badge(state, "bad" if state == "interrupted" else None)
    if deed["total"] is not None or deed["state"] == "running":
        words = f" {count(deed['done'])}" + (f" of {count(deed['total'])}" if deed["total"] is not None else "")
        return link(visit.to("dead", "progress", deed["id"]), shown, words)
    return joined(shown, f" {deed['result']}" if state == "refused" else "")
