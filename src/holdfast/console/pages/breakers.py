"""Breakers: which are open, why, until when, what happened to them, and the hand that moves them."""

from __future__ import annotations

from typing import Any

from holdfast.base import redacted_text
from holdfast.base.formatting import age
from holdfast.console.page import Desk, Live, Page, Part
from holdfast.console.parts import Column, act, aside, badge, choice, facts, field, hidden, moment, notice, panel, table
from holdfast.console.visit import Visit
from holdfast.http.markup import Markup, element
from holdfast.store import Tx
from holdfast.watch.names import BREAKER_LEVELS, LINK_BREAKER
from holdfast.worker.breakers import SUBJECT
from holdfast.worker.queues import BreakerStatus, Queues

EVENTS_SHOWN = 8
SHOWN_MAX = 100
"""Of more breakers the open ones come first, and the rest are counted."""
OPEN_FOR = (("60", "1 minute"), ("300", "5 minutes"), ("1800", "30 minutes"), ("14400", "4 hours"))
HOLDS = {"hold": "Jobs stay queued and spend no attempt.", "fail_fast": "Jobs fail at once."}
COLUMNS = (Column("when"), Column("what"), Column("why", "wide"))


def page(desk: Desk, visit: Visit) -> Page:
    """Every breaker that has ever moved."""
    found = sorted(Queues(desk.store).breakers(), key=lambda one: (one.state == "closed", one.name))
    shown = found[:SHOWN_MAX]

    def read(tx: Tx) -> tuple[int, list[list[dict[str, Any]]]]:
        return tx.now_us(), [
            tx.records("job.last_events", subject=SUBJECT + one.name, count=EVENTS_SHOWN) for one in shown
        ]

    now_us, histories = desk.store.atomic(read, write=False)
    parts: list[Part] = [element("h1", "Breakers")]
    if not shown:
        parts.append(element("p", "No breaker has ever moved.", class_="empty"))
    for number, (one, events) in enumerate(zip(shown, histories, strict=True)):
        parts.append(Live(f"breaker-{number}", _breaker(one, events, now_us)))
        parts.append(_hand(visit, one))
    if len(found) > SHOWN_MAX:
        closed = ", all closed," if found[SHOWN_MAX].state == "closed" else ""
        parts.append(notice(f"{len(found) - SHOWN_MAX} more{closed} are not shown."))
    parts.append(Live("links", _links(desk)))
    return Page("Breakers", parts, "breakers")


def _breaker(one: BreakerStatus, events: list[dict[str, Any]], now_us: int) -> Markup:
    is_open = one.state != "closed"
    rows = [
        [moment(event["at_us"], now_us), event["verb"].replace("_", " "), redacted_text(event["reason"], 200)]
        for event in events
    ]
    return panel(
        one.name,
        facts(
            [
                ("State", badge(one.state)),
                ("Why", one.reason or ""),
                ("Meanwhile", HOLDS[one.mode] if is_open else ""),
                ("Open since", moment(one.opened_us, now_us)),
                ("Next look", _next_look(one, now_us)),
            ]
        ),
        table(COLUMNS, rows, caption=f"What happened to {one.name}", empty="Its history has been pruned."),
        kind="breaker",
    )


def _next_look(one: BreakerStatus, now_us: int) -> Markup | str:
    if one.until_us is None:
        return ""
    return element("span", moment(one.until_us, now_us), f", {age(one.until_us, now_us)}")


def _hand(visit: Visit, one: BreakerStatus) -> Markup:
    name = hidden("name", one.name)
    why = field("Why", "reason", maxlength="500")
    if one.state == "closed":
        how_long = choice("For", "open_s", OPEN_FOR, "300")
        by_hand = act(visit, visit.to("breakers", "trip"), "Trip it", name, how_long, why, tone="danger")
        means = element("p", "Nothing passes for so long; then it probes by its own rule.")
        ways = [aside("Trip …", means, by_hand)]
    else:
        by_hand = act(visit, visit.to("breakers", "recover"), "Recover it", name, why, tone="danger")
        means = element("p", "It is closed at once, and everything passes.")
        probe = act(visit, visit.to("breakers", "probe"), "Probe: let one through", name)
        tries = element("p", "One is let through; the breaker closes when it and those that follow succeed.")
        ways = [element("div", tries, probe), aside("Recover …", means, by_hand)]
    return element("div", *ways, class_="actions")


def _links(desk: Desk) -> Markup:
    """Breakers of links, which each process keeps for itself; the worst of them counts."""
    names = {level: state for state, level in BREAKER_LEVELS.items()}
    shared = {one.name for one in Queues(desk.store).breakers()}
    levels = desk.series.gauges(LINK_BREAKER.name, "link")
    rows = [[name, badge(names.get(level, "open"))] for name, level in sorted(levels.items()) if name not in shared]
    if not rows:
        return Markup()
    note = "Each process keeps its own; the worst of them is shown. They move by themselves."
    return panel(
        "Links", table((Column("link", "wide"), Column("state", "self")), rows, caption="Links", empty=""), note=note
    )
