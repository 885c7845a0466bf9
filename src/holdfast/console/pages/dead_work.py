"""Work on many dead letters: how many there are, before it begins; how far it has come, while it runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from holdfast.base.formatting import SECOND_US, count, plural
from holdfast.catalog.core import BAD_REQUEST, NOT_FOUND
from holdfast.console.charts.canvas import WIDTH, box, canvas
from holdfast.console.filters import Filter, filter_of
from holdfast.console.graves import COUNT_MAX, count_dead
from holdfast.console.page import Desk, Live, Page, Part
from holdfast.console.parts import act, badge, facts, field, hidden, link, moment, notice, panel
from holdfast.console.receivers import count_unreceivable
from holdfast.console.visit import Visit
from holdfast.http.markup import Markup, element
from holdfast.store import Tx

SILENT_S = 60.0
"""Work that has not moved for so long is taken to be interrupted."""
FILTERS = ("fingerprint", "code", "queue", "kind", "tenant", "text", "since", "until")
_DOES = {
    "revive": "They go back to their queues and all their attempts start anew.",
    "discard": "They are deleted. Their history stays for as long as the journal is kept.",
}
_PAST = {"revive": "revived", "discard": "discarded"}


def ask(desk: Desk, visit: Visit, verb: str) -> Page:
    """Say how many it would be, and ask.

    Raises:
        Failure: BAD_REQUEST names the field of the filter that cannot be read.
    """

    def read(tx: Tx) -> tuple[Filter, int, bool, int]:
        wanted = replace(filter_of(visit, tx.now_us()), state=None)
        return wanted, *count_dead(tx, wanted), count_unreceivable(tx, wanted) if verb == "revive" else 0

    wanted, counted, more, left = desk.store.atomic(read, write=False)
    title = f"{verb.capitalize()} dead letters"
    back = element("p", link(visit.to("dead"), "Back to the dead letters"))
    if not counted:
        return Page(title, [element("h1", title), notice("No dead letter matches."), back], "dead")
    many = f"{count(counted)}{'+' if more else ''} dead letter{'' if counted == 1 and not more else 's'}"
    kept = [hidden(name, visit.get(name)) for name in FILTERS]
    form = act(
        visit,
        visit.to("dead", verb),
        f"{verb.capitalize()} {many}",
        *kept,
        field("Why (it stands in their history)", "reason", maxlength="500"),
        tone="danger" if verb == "discard" else "",
    )
    spared = [notice(f"Of these, {_left(left)}")] if left else []
    does = element("p", _DOES[verb])
    asked = panel(f"{verb.capitalize()} {many}?", does, *spared, facts(_filter_words(wanted)), form)
    return Page(title, [element("h1", title), asked, back], "dead")


def follow(desk: Desk, visit: Visit, deed_id: str) -> Page:
    """How far the work has come.

    Raises:
        Failure: NOT_FOUND.
    """

    def read(tx: Tx) -> tuple[int, list[dict[str, Any]]]:
        return tx.now_us(), tx.records("console.deed", id=deed_id)

    now_us, found = desk.store.atomic(read, write=False)
    if not found:
        raise NOT_FOUND("There is no such work.", id=deed_id[:64])
    deed = found[0]
    if deed["verb"] not in _PAST:
        raise BAD_REQUEST("This was no work on many dead letters.")
    title = f"{deed['verb'].capitalize()} dead letters"
    parts: list[Part] = [
        element("h1", title),
        Live("work", _progress(deed, now_us)),
        element("p", link(visit.to("dead"), "Dead letters"), " · ", link(visit.to("audit"), "Audit")),
    ]
    return Page(title, parts, "dead")


def state_of(deed: dict[str, Any], now_us: int) -> str:
    """As the row says; what has long not moved was interrupted."""
    silent = now_us - deed["touched_us"] > SILENT_S * SECOND_US
    return "interrupted" if deed["state"] == "running" and silent else str(deed["state"])


def _progress(deed: dict[str, Any], now_us: int) -> Markup:
    state = state_of(deed, now_us)
    handled, total = deed["done"] + deed["refused"], deed["total"]
    share = 1.0 if state == "done" else min(handled / total, 1.0) if total else 0.0
    bar = canvas(
        box(0, 0, WIDTH, 10, "base"),
        box(0, 0, WIDTH * share, 10, f"bar {'good' if state == 'done' else 'tone-1'}"),
        label=f"{share * 100:.0f} %",
        kind="progress",
        height=10,
    )
    of_all = f" of {count(total)}" if total is not None else ""
    words = f"{plural(deed['done'], 'dead letter')} {_PAST[deed['verb']]}{of_all}"
    notes = []
    if deed["refused"]:
        why = "newer jobs with their keys do the work, or their endpoint is disabled"
        told = f" ({deed['result']})" if state == "done" and deed["result"] != "done" else ""
        notes.append(notice(f"Left {count(deed['refused'])} as they were: {why}{told}."))
    if state in {"interrupted", "refused"}:
        notes.append(notice(f"It stopped early: {deed['result'] or state}. Doing it again does the rest.", tone="bad"))
    return panel(
        words,
        bar,
        *notes,
        facts(
            [
                ("State", badge(state, "bad" if state == "interrupted" else None)),
                ("What", deed["subject"]),
                ("By", deed["who"]),
                ("Why", deed["reason"] or ""),
                ("Begun", moment(deed["at_us"], now_us)),
                ("Last moved", moment(deed["touched_us"], now_us)),
            ]
        ),
    )


def _left(many: int) -> str:
    return f"{count(many, most=COUNT_MAX)} will be left as they are: their endpoint is disabled."


def _filter_words(wanted: Filter) -> list[tuple[str, str]]:
    return [("Which", wanted.words().removeprefix("dead: "))]
