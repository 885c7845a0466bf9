"""Audit: who did what, when, from where, and what came of it."""

from __future__ import annotations

from holdfast.base import redacted_text
from holdfast.base.formatting import count, cut, moment_of
from holdfast.catalog import Failure
from holdfast.catalog.core import BAD_REQUEST
from holdfast.console.filters import time_of
from holdfast.console.page import Desk, Live, Page, Part
from holdfast.console.parts import Column, badge, choice, field, link, moment, notice, pager, table
from holdfast.console.visit import Visit
from holdfast.http.markup import Markup, element, joined
from holdfast.operate import ActorKind
from holdfast.operate.audit_log import INTERRUPTED, AuditFilter, Entry, entries, entry
from holdfast.store import Tx

ROWS = 50
SUBJECT_CHARS_MAX = 160
REASON_CHARS_MAX = 500
DOORS = {"console": "console", "command": "command line", "api": "API"}
COLUMNS = (
    Column("when"),
    Column("who"),
    Column("from"),
    Column("verb"),
    Column("what", "wide"),
    Column("result"),
    Column("why", "wide"),
)


def page(desk: Desk, visit: Visit) -> Page:
    """The actions, the last first.

    Raises:
        Failure: BAD_REQUEST names the field of the filter that cannot be read.
    """

    def read(tx: Tx) -> tuple[int, list[Entry]]:
        wanted = _wanted(visit, tx.now_us())
        return tx.now_us(), list(entries(tx, wanted, count=ROWS + 1, before=visit.get("before")))

    now_us, found = desk.store.atomic(read, write=False)
    rows = [_row(visit, one, now_us) for one in found[:ROWS]]
    older = {"before": found[ROWS - 1].id} if len(found) > ROWS else None
    lead = "What was done by hand: on this console, on the command line and through the API."
    parts: list[Part] = [
        element("h1", "Audit"),
        element("p", lead, " The journal of each job has the rest.", class_="lead"),
        _form(visit),
        Live("audit", table(COLUMNS, rows, caption="Audit", empty="No action matches.")),
        pager(visit, older=older, words="Older"),
    ]
    return Page("Audit", parts, "audit")


def word_of(desk: Desk, action_id: str) -> list[Markup]:
    """One sentence about what was just done; nothing when there is no such action."""
    try:
        done = desk.store.atomic(lambda tx: entry(tx, action_id), write=False)
    except Failure:
        return []
    what = element("code", cut(done.subject, 120))
    if done.state == "done":
        return [notice(f"Done: {done.verb} ", what, ".", tone="good")]
    return [notice(f"Not done: {done.verb} ", what, f" ({done.result}).", tone="bad")]


def _wanted(visit: Visit, now_us: int) -> AuditFilter:
    kind = visit.get("kind")
    if kind is not None and kind not in DOORS:
        raise BAD_REQUEST("{field} is one of {known}.", field="kind", known=", ".join(ActorKind))
    since_us, until_us = time_of(visit, "since", now_us), time_of(visit, "until", now_us)
    return AuditFilter(
        who=visit.get("who"),
        kind=kind,
        verb=visit.get("verb"),
        subject=visit.get("subject"),
        since=None if since_us is None else moment_of(since_us),
        until=None if until_us is None else moment_of(until_us),
    )


def _form(visit: Visit) -> Markup:
    hint = {"placeholder": "2h or 2026-03-01T12:30"}
    ways = [element("button", "Filter", type="submit")]
    if visit.query:
        ways.append(link(visit.to("audit"), "Clear", class_="plain"))
    return element(
        "form",
        field("Who", "who", visit.get("who") or ""),
        choice("Through", "kind", [("", "any"), *DOORS.items()], visit.get("kind") or ""),
        field("Verb", "verb", visit.get("verb") or ""),
        field("What", "subject", visit.get("subject") or "", placeholder="job: or queue:mail"),
        field("Since", "since", visit.get("since") or "", **hint),
        field("Until", "until", visit.get("until") or "", **hint),
        element("div", *ways, class_="ways"),
        method="get",
        action=visit.to("audit"),
        class_="filter",
        role="search",
    )


def _row(visit: Visit, one: Entry, now_us: int) -> list[str]:
    return [
        moment(one.at_us, now_us),
        one.actor,
        joined(DOORS.get(one.actor_kind, one.actor_kind), f" {one.address}" if one.address else ""),
        one.verb,
        _subject(visit, one),
        _result(visit, one),
        redacted_text(one.reason or "", REASON_CHARS_MAX),
    ]


def _subject(visit: Visit, one: Entry) -> Markup:
    kind, _, name = one.subject.partition(":")
    text = element("code", cut(one.subject, SUBJECT_CHARS_MAX))
    match kind:
        case "job":
            return link(visit.to("jobs", name), text)
        case "queue":
            return link(visit.to("jobs", queue=name), text)
        case "breaker":
            return link(visit.to("breakers"), text)
        case "endpoint":
            return link(visit.to("deliveries", endpoint=name), text)
        case "audit":
            return link(visit.to("dead", "progress", name), text)
        case _:
            return text


def _result(visit: Visit, one: Entry) -> Markup:
    shown = badge(one.state, "bad" if one.state == INTERRUPTED else None)
    if one.work is not None:
        words = f" {count(one.done)}" + (f" of {count(one.total)}" if one.total is not None else "")
        return link(visit.to("dead", "progress", one.id), shown, words)
    return joined(shown, f" {one.result}" if one.state == "refused" else "")
