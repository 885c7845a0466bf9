"""Alerts: every rule, how it stands, what is read now and when somebody is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from holdfast.catalog.fault import Severity
from holdfast.console.page import Desk, Live, Page, Part
from holdfast.console.parts import Column, badge, moment, table
from holdfast.console.visit import Visit
from holdfast.http.markup import Markup, element, joined
from holdfast.watch.alert_state import Phase
from holdfast.watch.alerts import Alerts, Standing
from holdfast.watch.rules_wording import condition_of, summary_of, value_text

ORDER = {Phase.FIRING: 0, Phase.PENDING: 1, Phase.RESOLVED: 2, Phase.INACTIVE: 3}
COLUMNS = (
    Column("state", "self"),
    Column("what", "wide"),
    Column("read now", "number"),
    Column("told when"),
    Column("since"),
)


def page(desk: Desk, visit: Visit) -> Page:  # noqa: ARG001 - as every page
    """What fires first, then what is about to, then the rest."""
    now_us = desk.store.atomic(lambda tx: tx.now_us(), write=False)
    standings = gathered(Alerts(desk.store, desk.series, rules=desk.rules).standings(read=True))
    standings.sort(key=lambda one: (ORDER[one.state.phase], one.rule.severity is not Severity.CRITICAL, one.rule.name))
    rows = [_row(one, now_us) for one in standings]
    firing = sum(one.state.phase is Phase.FIRING for one in standings)
    words = f"{firing} firing." if firing else "Nothing fires."
    shown = table(COLUMNS, rows, caption="Alerts", empty="There is no rule.")
    parts: list[Part] = [element("h1", "Alerts"), Live("alerts", joined(element("p", words, class_="lead"), shown))]
    return Page("Alerts", parts, "alerts")


def gathered(standings: Sequence[Standing]) -> list[Standing]:
    """The same with one entry for all the causes of a rule that are well: the one that is nearest to its threshold."""
    shown = [one for one in standings if one.state.phase is not Phase.INACTIVE]
    well: dict[str, list[Standing]] = {}
    for one in standings:
        if one.state.phase is Phase.INACTIVE:
            well.setdefault(one.rule.name, []).append(one)
    for several in well.values():
        sign = 1 if several[0].rule.above is not None else -1
        nearest = max(several, key=lambda one: -inf if one.reading is None else sign * one.reading)
        others = f" and {len(several) - 1} more" if len(several) > 1 else ""
        shown.append(replace(nearest, cause=f"{nearest.cause}{others}"))
    return shown


def _row(one: Standing, now_us: int) -> list[str]:
    rule, state = one.rule, one.state
    tone = {Phase.FIRING: "bad", Phase.PENDING: "warn", Phase.RESOLVED: "good"}.get(state.phase, "plain")
    cause = joined(" ", element("code", one.cause)) if one.cause else Markup()
    reading = value_text(rule.what, one.reading)
    since = {Phase.FIRING: state.fired_us, Phase.PENDING: state.began_us, Phase.RESOLVED: state.resolved_us}
    return [
        joined(
            badge(state.phase.value, tone) if rule.enabled else badge("off"), " ", badge(rule.severity.value, "plain")
        ),
        joined(
            element("span", summary_of(rule), cause, class_="summary"), element("span", rule.remedy, class_="message")
        ),
        badge(reading, "bad") if one.exceeded else reading,
        condition_of(rule),
        moment(since.get(state.phase), now_us),
    ]
