"""Dead letters, grouped by what they died of."""

from __future__ import annotations

from holdfast.base import redacted_text
from holdfast.base.formatting import count, plural
from holdfast.console.charts import sparkline
from holdfast.console.filters import filter_form, filter_of, problems_of, unreadable
from holdfast.console.listing import read_place
from holdfast.console.page import Desk, Live, Page, Part
from holdfast.console.pages.dead_ask import FILTERS
from holdfast.console.parts import Column, code_link, link, moment, notice, pager, table
from holdfast.console.visit import Visit
from holdfast.http.markup import Markup, element, joined
from holdfast.operate.dead_groups import WALK_ROWS_MAX, Group, latest_groups
from holdfast.worker.dead_filter import LATEST_US

MESSAGE_CHARS_MAX = 160
NAMES = (
    ("queue", "Queue"),
    ("kind", "Kind"),
    ("code", "Code"),
    ("remote_code", "Upstream's code"),
    ("tenant", "Tenant"),
    ("text", "Text"),
)
COLUMNS = (
    Column("letters", "number"),
    Column("died of", "wide"),
    Column("kind", "self"),
    Column("last day", "drawn"),
    Column("first seen"),
    Column("last seen"),
    Column("do", "self"),
)
NEWEST = (LATEST_US, "")


def page(desk: Desk, visit: Visit) -> Page:
    """The groups among the newest dead letters that match."""
    before = visit.get("before")
    place = NEWEST if before is None else read_place(before, NEWEST)

    now_us = desk.store.atomic(lambda tx: tx.now_us(), write=False)
    problems = problems_of(visit, now_us)
    form = filter_form(visit, names=NAMES, states=False, problems=problems)
    if problems:
        return unreadable("Dead letters", "dead", form, problems)
    wanted = filter_of(visit, now_us).dead()
    found = desk.store.atomic(lambda tx: latest_groups(tx, wanted, place), write=False)
    partly = found.next is not None or before is not None
    rows = [_row(visit, group, now_us, partly=partly) for group in found.groups]
    shown = table(COLUMNS, rows, caption="Groups of dead letters", empty="No dead letter matches.")
    notes = []
    if partly:
        notes.append(notice(f"Looked at {WALK_ROWS_MAX:,} dead letters; groups are counted among those."))
    if found.group_count > len(rows):
        notes.append(notice(f"Shown are the {len(rows)} that died last; narrow the filter to see the others."))
    many = f"{count(found.letter_count)}{'+' if partly else ''} dead letter{'' if found.letter_count == 1 else 's'}"
    words = f"{many} in {plural(found.group_count, 'group')}."
    parts: list[Part] = [
        element("h1", "Dead letters"),
        form,
        _all_matching(visit) if rows else Markup(),
        Live("dead", joined(element("p", words, class_="note"), *notes, shown)),
        pager(visit, older=None if found.next is None else {"before": found.next}, words="Look further back"),
    ]
    return Page("Dead letters", parts, "dead")


def _all_matching(visit: Visit) -> Markup:
    """The ways to do something about all that match the filter."""
    return element("p", "All that match: ", _ways(visit, _asked(visit)), class_="actions")


def _asked(visit: Visit) -> dict[str, str]:
    """What the address asks of letters."""
    return {name: value for name in FILTERS if (value := visit.get(name)) is not None}


def _ways(visit: Visit, chosen: dict[str, str]) -> Markup:
    """The ways to do something about these; both ask first."""
    return joined(
        link(visit.to("dead", "revive", **chosen), "Revive …", class_="button"),
        " ",
        link(visit.to("dead", "discard", **chosen), "Discard …", class_="button danger"),
    )


def _technical(visit: Visit, group: Group) -> list[Markup]:
    """What tells this group from others of the same code: the log's line, the place, the upstream's code."""
    parts = []
    if group.technical not in {"", group.message}:
        parts.append(element("span", redacted_text(group.technical, MESSAGE_CHARS_MAX), class_="technical"))
    if group.place:
        way = link(f"{visit.to('jobs', group.example_id)}#traceback", element("code", group.place))
        parts.append(element("span", "at ", way, class_="technical"))
    if group.remote_code:
        way = link(visit.to("dead", remote_code=group.remote_code), element("code", group.remote_code))
        parts.append(element("span", "upstream: ", way, class_="technical"))
    return parts


def _row(visit: Visit, group: Group, now_us: int, *, partly: bool) -> list[str]:
    # Within the filter, so that what is asked about is what was counted here.
    chosen = {**_asked(visit), "fingerprint": group.fingerprint}
    what = joined(
        code_link(visit, group.code),
        element("span", redacted_text(group.message, MESSAGE_CHARS_MAX), class_="message"),
        *_technical(visit, group),
    )
    label = f"{sum(group.slices)} in the last day"
    return [
        link(visit.to("jobs", state="failed", **chosen), count(group.count) + ("+" if partly else "")),
        what,
        group.kind,
        sparkline(group.slices, label=label),
        moment(group.first_us, now_us),
        moment(group.last_us, now_us),
        # Without a fingerprint the address would mean all letters.
        _ways(visit, chosen) if group.fingerprint else "",
    ]
