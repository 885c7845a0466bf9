"""The queues: how deep, how late, whether something holds them and why; and pause, resume, probe."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.base.formatting import count, plural, span
from holdfast.console.page import Desk, Live, Part
from holdfast.console.parts import Column, act, aside, badge, field, hidden, link, moment, notice, panel, table
from holdfast.console.visit import Visit
from holdfast.http.markup import Markup, element, joined
from holdfast.worker.queues import Queues, QueueStatus

DEPTH_MAX = 1_000
"""Maximum number of jobs that are counted; from there on `1,000+` is shown."""
SHOWN_MAX = 12
"""Maximum number of queues shown unfolded: first those that are not running, then those whose jobs have been due
longest. The others are folded."""
FOLDED_MAX = 200
SAME_S = 60.0
"""Queues that are this little apart keep the order of their names, so that rows do not jump about."""
HANDS_MAX = 50
"""Maximum number of queues whose forms are shown; the others are reached by the command line."""
COLUMNS = (
    Column("queue"),
    Column("state", "self"),
    Column("ready", "number"),
    Column("waiting", "number"),
    Column("processing", "number"),
    Column("workers", "number"),
    Column("oldest", "short"),
    Column("why", "wide"),
)


def queues_panel(desk: Desk, visit: Visit) -> list[Part]:
    """The table, which is kept up to date, and the hands below it, which are not."""
    now_us = desk.store.atomic(lambda tx: tx.now_us(), write=False)
    found = sorted(Queues(desk.store).status(depth_max=DEPTH_MAX), key=_urgency)
    rows = [_row(visit, one, now_us) for one in found[: SHOWN_MAX + FOLDED_MAX]]
    shown = table(COLUMNS, rows[:SHOWN_MAX], caption="Queues", empty="There is no queue yet.")
    folded = _folded(rows[SHOWN_MAX:], len(found) - SHOWN_MAX)
    hands = [_hand(visit, one) for one in found[:HANDS_MAX]]
    by_hand = aside("Pause, resume, probe …", *hands) if hands else Markup()
    return [Live("queues", panel("Queues", shown, folded)), element("div", by_hand, class_="below-panel")]


def _urgency(one: QueueStatus) -> tuple[bool, float, str]:
    return one.state == "running", -(one.oldest_ready_s or 0.0) // SAME_S, one.name


def _folded(rows: Sequence[Sequence[str]], others: int) -> Markup:
    if not rows:
        return Markup()
    beyond = [notice(f"{others - len(rows)} more are not shown.")] if others > len(rows) else []
    return aside(f"{plural(others, 'more queue')}", table(COLUMNS, rows, caption="More queues", empty=""), *beyond)


def _row(visit: Visit, one: QueueStatus, now_us: int) -> list[str]:
    state = one.state
    return [
        link(visit.to("", scope=f"queue:{one.name}", range=visit.get("range")), one.name),
        badge(state, "good" if state == "running" else None),
        link(visit.to("jobs", state="queued", queue=one.name), count(one.ready, most=DEPTH_MAX)),
        count(one.waiting, most=DEPTH_MAX),
        link(visit.to("jobs", state="processing", queue=one.name), count(one.processing)),
        count(one.workers),
        span(one.oldest_ready_s),
        _why(visit, one, now_us),
    ]


def _why(visit: Visit, one: QueueStatus, now_us: int) -> Markup:
    if one.paused:
        return joined(element("bdi", one.paused_reason or ""), " since ", moment(one.paused_us, now_us))
    if not one.workers:
        return element("bdi", one.why or "")
    breaker = one.breaker
    if breaker is None or breaker.state == "closed":
        return Markup()
    return joined(
        badge(breaker.state),
        " ",
        element("bdi", breaker.reason or ""),
        "; next look at ",
        moment(breaker.until_us, now_us),
        " ",
        link(visit.to("breakers"), "breaker"),
    )


def _hand(visit: Visit, one: QueueStatus) -> Markup:
    name = hidden("name", one.name)
    why = field("Why", "reason", required="", maxlength="500")
    ready, waiting = plural(one.ready, "ready job", most=DEPTH_MAX), plural(one.waiting, "waiting one", most=DEPTH_MAX)
    if one.paused:
        means = f"Workers take its {ready} again at once, and the {waiting} when due."
        ways = [element("p", means), act(visit, visit.to("queues", "resume"), "Resume", name)]
    else:
        running = plural(one.processing, "job")
        means = f"No job starts until it is resumed: {ready} and {waiting} stay queued. What runs goes on: {running}."
        ways = [element("p", means), act(visit, visit.to("queues", "pause"), "Pause", name, why)]
    if one.breaker is not None and one.breaker.state != "closed":
        means = "One job runs now; the breaker closes when it and those that follow succeed."
        ways += [element("p", means), act(visit, visit.to("queues", "probe"), "Probe: let one through", name)]
    return element("div", element("h3", one.name), *ways, class_="hand")
