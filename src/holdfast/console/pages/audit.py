"""Audit: who did what, when, from where, and what came of it."""

from __future__ import annotations

from holdfast.base import redacted_text
from holdfast.base.formatting import count, cut, moment_of
from holdfast.catalog import Failure
from holdfast.console.filters import Problems, form_around, problems_of, time_fields, time_of, unreadable
from holdfast.console.page import Desk, Live, Page, Part
from holdfast.console.parts import Column, badge, choice, field, link, moment, notice, pager, table
from holdfast.console.visit import Visit
from holdfast.http.markup import Markup, element, joined
from holdfast.operate.audit_log import INTERRUPTED, AuditFilter, Entry, entries, entry

ROWS = 50
SUBJECT_CHARS_MAX = 160
REASON_CHARS_MAX = 500
DOORS = {"console": "console", "command": "command line", "api": "API"}
COLUMNS = (
    Column("when"),
    Column("who"),
    Column("from"),
    Column("verb", "self"),
    Column("what", "wide"),
    Column("result", "self"),
    Column("why", "wide"),
)


def page(desk: Desk, visit: Visit) -> Page:
    """The actions, the last first."""
    now_us = desk.store.atomic(lambda tx: tx.now_us(), write=False)
    problems = problems_of(visit, now_us, choices={"kind": tuple(DOORS)})
    if problems:
        return unreadable("Audit", "audit", _form(visit, problems), problems)
    wanted = _wanted(visit, now_us)
    found = desk.store.atomic(
        lambda tx: list(entries(tx, wanted, count=ROWS + 1, before=visit.get("before"))), write=False
    )
    rows = [_row(visit, one, now_us) for one in found[:ROWS]]
    older = {"before": found[ROWS - 1].id} if len(found) > ROWS else None
    lead = "What was done by hand: on this console, on the command line and through the API."
    parts: list[Part] = [
        element("h1", "Audit"),
        element("p", lead, " The journal of each job has the rest.", class_="lead"),
        _form(visit, {}),
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
    since_us, until_us = time_of(visit, "since", now_us), time_of(visit, "until", now_us)
    return AuditFilter(
        who=visit.get("who"),
        kind=visit.get("kind"),
        verb=visit.get("verb"),
        subject=visit.get("subject"),
        since=None if since_us is None else moment_of(since_us),
        until=None if until_us is None else moment_of(until_us),
    )


def _form(visit: Visit, problems: Problems) -> Markup:
    through = choice(
        "Through", "kind", [("", "any"), *DOORS.items()], visit.get("kind") or "", problem=problems.get("kind", "")
    )
    fields = [
        field("Who", "who", visit.get("who") or ""),
        through,
        field("Verb", "verb", visit.get("verb") or ""),
        field("What", "subject", visit.get("subject") or "", placeholder="job: or queue:mail"),
        *time_fields(visit, problems),
    ]
    return form_around(visit, fields)


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
