"""The overview: queues and what holds them, and six panels about whatever the address chooses."""

from __future__ import annotations

from holdfast.catalog.core import NOT_FOUND
from holdfast.console.drawn import as_table, drawn
from holdfast.console.measured import Window
from holdfast.console.page import Desk, Live, Page, Part
from holdfast.console.pages.queues import queues_panel
from holdfast.console.parts import link, notice
from holdfast.console.scope import Scope, scope_form, scope_of
from holdfast.console.visit import Visit
from holdfast.http.markup import Markup, element
from holdfast.watch.alert_state import Phase
from holdfast.watch.alerts import Alerts
from holdfast.watch.panels import Chart
from holdfast.watch.rules_wording import summary_of


def page(desk: Desk, visit: Visit) -> Page:
    """Everything at a glance."""
    scope = scope_of(visit)
    window = _window(desk, scope)
    panels = [Live(f"panel-{one.name}", drawn(desk, visit, scope, one, window)) for one in scope.subject.panels]
    parts: list[Part] = [
        element("h1", "Overview"),
        Live("firing", _firing(desk, visit)),
        *queues_panel(desk, visit),
        element("h2", scope.words[:1].upper() + scope.words[1:], class_="subject"),
        scope_form(desk, visit, scope),
        *panels,
    ]
    return Page("Overview", parts, "overview")


def panel_table(desk: Desk, visit: Visit, name: str) -> Page:
    """One panel of lines as numbers.

    Raises:
        Failure: NOT_FOUND.
    """
    scope = scope_of(visit)
    found = [one for one in scope.subject.panels if one.name == name and one.chart is Chart.LINES]
    if not found:
        raise NOT_FOUND("There is no such panel.", panel=name[:64])
    back = link(visit.to("", scope=visit.get("scope"), range=visit.get("range")), "Back to the overview")
    heading = element("h1", f"{found[0].title}, {scope.words}, {scope.range.words}")
    shown = Live("numbers", as_table(desk, visit, scope, found[0], _window(desk, scope)))
    return Page(found[0].title, [heading, element("p", back), shown], "overview")


def _window(desk: Desk, scope: Scope) -> Window:
    """From the beginning of a step on: what is counted as bars is then what the lines show."""
    now_us = desk.store.atomic(lambda tx: tx.now_us(), write=False)
    step_us = scope.range.step_s * 1_000_000
    since_us = (now_us - scope.range.length_s * 1_000_000) // step_us * step_us
    return Window(since_us, now_us, scope.range.step_s)


def _firing(desk: Desk, visit: Visit) -> Markup:
    """What somebody has been told of, if anything."""
    standings = Alerts(desk.store, desk.series, rules=desk.rules).standings()
    firing = [one for one in standings if one.state.phase is Phase.FIRING]
    if not firing:
        return Markup()
    what = summary_of(firing[0].rule) if len(firing) == 1 else f"{len(firing)} alerts fire."
    return notice(what, " ", link(visit.to("alerts"), "Look at the alerts"), tone="bad")
