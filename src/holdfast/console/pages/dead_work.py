"""Work on many dead letters that has begun: how far it has come, and the way to resume it."""

from __future__ import annotations

from holdfast.base.formatting import count, plural
from holdfast.catalog.core import BAD_REQUEST
from holdfast.console.charts.canvas import WIDTH, box, canvas
from holdfast.console.page import Desk, Live, Page, Part
from holdfast.console.parts import act, badge, facts, hidden, link, moment, notice, panel
from holdfast.console.visit import Visit
from holdfast.http.markup import Markup, element
from holdfast.operate.audit import REFUSED
from holdfast.operate.audit_log import INTERRUPTED, Entry, entry
from holdfast.operate.bulk import Verb


def follow(desk: Desk, visit: Visit, action_id: str) -> Page:
    """How far the work has come.

    Raises:
        Failure: ACTION_NOT_FOUND; BAD_REQUEST for an action on one thing.
    """
    now_us, found = desk.store.atomic(lambda tx: (tx.now_us(), entry(tx, action_id)), write=False)
    if found.work is None:
        raise BAD_REQUEST("This was not work on many dead letters.")
    title = f"{found.verb.capitalize()} dead letters"
    parts: list[Part] = [
        element("h1", title),
        Live("work", _progress(found, now_us)),
        _again(visit, found),
        element("p", link(visit.to("dead"), "Dead letters"), link(visit.to("audit"), "Audit"), class_="ways"),
    ]
    return Page(title, parts, "dead")


def _again(visit: Visit, found: Entry) -> Markup:
    """The way to do the rest of what stopped early."""
    if found.state not in {INTERRUPTED, REFUSED}:
        return Markup()
    return element("div", act(visit, visit.to("dead", "resume"), "Resume", hidden("id", found.id)), class_="actions")


def _progress(found: Entry, now_us: int) -> Markup:
    state = found.state
    handled, total = found.done + found.refused, found.total
    share = 1.0 if state == "done" else min(handled / total, 1.0) if total else 0.0
    bar = canvas(
        box(0, 0, WIDTH, 10, "base"),
        box(0, 0, WIDTH * share, 10, f"bar {'good' if state == 'done' else 'tone-1'}"),
        label=f"{share * 100:.0f} %",
        kind="progress",
        height=10,
    )
    of_all = f" of {count(total)}" if total is not None else ""
    words = f"{plural(found.done, 'dead letter')} {Verb(found.verb).past}{of_all}"
    notes = []
    if found.refused:
        why = "newer jobs with their keys do the work, or their endpoint is disabled or removed"
        told = f" ({found.result})" if state == "done" and found.result != "done" else ""
        notes.append(notice(f"Left {count(found.refused)} as they were: {why}{told}."))
    if state in {INTERRUPTED, REFUSED}:
        notes.append(notice(f"It stopped early: {found.result or state}. Resuming does the rest.", tone="bad"))
    return panel(
        words,
        bar,
        *notes,
        facts(
            [
                ("State", badge(state, "bad" if state == INTERRUPTED else None)),
                ("What", found.subject),
                ("By", found.actor),
                ("Why", found.reason or ""),
                ("Begun", moment(found.at_us, now_us)),
                ("Last moved", moment(found.touched_us, now_us)),
            ]
        ),
    )
