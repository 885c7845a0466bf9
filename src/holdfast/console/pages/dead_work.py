"""Work on many dead letters: how many there are, before it begins; how far it has come, while it runs."""

from __future__ import annotations

from holdfast.base.formatting import count, plural
from holdfast.catalog.core import BAD_REQUEST
from holdfast.console.charts.canvas import WIDTH, box, canvas
from holdfast.console.filters import filter_of
from holdfast.console.page import Desk, Live, Page, Part
from holdfast.console.parts import act, badge, facts, field, hidden, link, moment, notice, panel
from holdfast.console.visit import Visit
from holdfast.http.markup import Markup, element
from holdfast.operate.audit import REFUSED
from holdfast.operate.audit_log import INTERRUPTED, Entry, entry
from holdfast.operate.bulk import Verb
from holdfast.operate.dead_groups import COUNT_MAX, count_blocked, count_dead
from holdfast.store import Tx
from holdfast.worker import DeadFilter

FILTERS = ("fingerprint", "code", "remote_code", "queue", "kind", "tenant", "endpoint", "text", "since", "until")
_DOES = {
    "revive": "They go back to their queues and all their attempts start anew.",
    "discard": "They are deleted. Their history stays for as long as the journal is kept.",
}


def ask(desk: Desk, visit: Visit, verb: str) -> Page:
    """Say how many it would be, and ask.

    Raises:
        Failure: BAD_REQUEST names the field of the filter that cannot be read.
    """

    def read(tx: Tx) -> tuple[DeadFilter, int, bool, int]:
        wanted = filter_of(visit, tx.now_us()).dead()
        return wanted, *count_dead(tx, wanted), count_blocked(tx, wanted) if verb == Verb.REVIVE else 0

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
        element("p", link(visit.to("dead"), "Dead letters"), " · ", link(visit.to("audit"), "Audit")),
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


def _left(many: int) -> str:
    return f"{count(many, most=COUNT_MAX)} will be left as they are: their endpoint is disabled or removed."


def _filter_words(wanted: DeadFilter) -> list[tuple[str, str]]:
    return [("Which", wanted.words().removeprefix("dead: "))]
