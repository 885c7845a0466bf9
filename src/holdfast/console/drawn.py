"""A panel, drawn: its definition is data that the Grafana dashboard is written from as well."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from holdfast.base import redacted_text
from holdfast.base.formatting import count, moment_of, number, span
from holdfast.catalog.fault import Severity
from holdfast.console.charts import Bar, Threshold, bars, columns, line_chart, line_table
from holdfast.console.charts.canvas import floor_tenth
from holdfast.console.measured import Measured, Window, counted, measured, narrowed_to
from holdfast.console.page import Desk
from holdfast.console.parts import Column, code_link, link, moment, panel, table
from holdfast.console.scope import Scope
from holdfast.console.visit import Visit
from holdfast.http.markup import Markup, element, joined
from holdfast.operate.dead_groups import Group, most_frequent
from holdfast.watch.panels import TOP_ROWS, Chart, Panel, Unit
from holdfast.watch.rules import Rule
from holdfast.watch.rules_measure import Level

MESSAGE_CHARS_MAX = 140
BARS_MAX = 12
RATE_FLOOR = 0.9
"""A success rate is drawn from here on, or from the lowest that was measured."""
_TOLD: dict[Unit, Callable[[float], str]] = {
    Unit.SHARE: lambda value: f"{value * 100:.4g} %",
    Unit.SECONDS: span,
    Unit.COUNT: number,
}
_TOP = (Column("letters", "number"), Column("message", "wide"), Column("last seen"))
_CODES = (Column("times", "number"), Column("code"), Column("what the person reads", "wide"))


def drawn(desk: Desk, visit: Visit, scope: Scope, one: Panel, window: Window) -> Markup:
    """The panel with its heading."""
    match one.chart:
        case Chart.LINES:
            return panel(one.title, _lines(desk, visit, scope, one, window), note=_narrowness(one, scope))
        case Chart.BARS:
            return panel(one.title, _bars(desk, visit, scope, one, window))
        case Chart.DISTRIBUTION:
            return panel(one.title, _distribution(desk, scope, one, window))
        case Chart.TABLE:
            return panel("Top error messages", _top(desk, visit, scope, one, window))


def thresholds(rules: Sequence[Rule], one: Panel) -> list[Threshold]:
    """The thresholds of the rules that the panel names."""
    told = _TOLD[one.unit]
    return [
        Threshold(
            rule.threshold,
            "bad" if rule.severity is Severity.CRITICAL else "warn",
            f"{told(rule.threshold)} {rule.severity.value}",
        )
        for rule in rules
        if rule.name in one.rules and rule.enabled
    ]


def as_table(desk: Desk, visit: Visit, scope: Scope, one: Panel, window: Window) -> Markup:
    """The numbers of a panel of lines."""
    found = measured(desk.series, one, scope.where, window)
    where = _behind(visit, scope)
    shown = line_table(one.title, found.lines, found.starts_us, found.step_us, told=_TOLD[one.unit], where=where)
    return panel(one.title, shown, note=_narrowness(one, scope))


def _lines(desk: Desk, visit: Visit, scope: Scope, one: Panel, window: Window) -> Markup:
    found = measured(desk.series, one, scope.where, window)
    is_rate = one.unit is Unit.SHARE
    return line_chart(
        one.title,
        found.lines,
        found.starts_us,
        found.step_us,
        told=_TOLD[one.unit],
        where=_behind(visit, scope),
        as_table=visit.to("table", one.name, **{name: visit.get(name) for name in ("scope", "range")}),
        thresholds=thresholds(desk.rules, one),
        least=_least(found) if is_rate else None,
        most=1.0 if is_rate else None,
    )


def _behind(visit: Visit, scope: Scope) -> Callable[[int, int], str]:
    return lambda start_us, end_us: scope.behind(visit, start_us, end_us)


def _least(found: Measured) -> float:
    known = [value for line in found.lines for value in line.values if value is not None]
    return min(RATE_FLOOR, floor_tenth(min(known, default=RATE_FLOOR)))


def _narrowness(one: Panel, scope: Scope) -> str:
    """Said where a choice does not narrow what is shown."""
    levels = [line.what.of for line in one.lines if isinstance(line.what, Level)]
    narrow = [bool(narrowed_to(metric, scope.where)) for metric in levels]
    return "Of all together; this is not known for each." if scope.name and narrow and not all(narrow) else ""


def _bars(desk: Desk, visit: Visit, scope: Scope, one: Panel, window: Window) -> Markup:
    label, found = counted(desk.series, one, scope.where, window)
    shown = [
        Bar(value or "?", times, scope.failed(visit, label, value, window.since_us), tone=_tone(label, value))
        for value, times in list(found.items())[:BARS_MAX]
        if times > 0
    ]
    return bars(one.title, shown, empty="Nothing in this time.")


def _tone(label: str, value: str) -> str:
    """Codes speak of failures; other bars only count."""
    if label == "status_code":
        return "warn" if value in {"429", "503"} else "bad"
    return "bad" if label == "error_code" else "tone-1"


def _distribution(desk: Desk, scope: Scope, one: Panel, window: Window) -> Markup:
    assert one.histogram is not None
    name, where = one.histogram.name, narrowed_to(one.histogram, scope.where)
    over_s, until_us = window.length_s, window.until_us
    found = desk.series.buckets(name, over_s=over_s, where=where, until_us=until_us)
    bounds = sorted(found)
    shown = [Bar("more" if bound == float("inf") else f"{bound:g}", found[bound]) for bound in bounds]
    told = thresholds(desk.rules, one)
    after = sum(bound <= told[0].value for bound in bounds) if told else None
    total = sum(found.values())
    summed = desk.series.increase(f"{name}_sum", over_s=over_s, where=where, until_us=until_us)
    mean = summed / total if total else 0.0
    note = f"On average {number(mean)}" + (f"; {told[0].words}" if told else "")
    return columns(one.title, shown, threshold_after=after, note=note, empty="Nothing in this time.")


def _top(desk: Desk, visit: Visit, scope: Scope, one: Panel, window: Window) -> Markup:
    """What people read most often; where there are no dead letters to read it from, the codes with their sentence."""
    died = scope.died()
    if died is None:
        return _codes(desk, visit, scope, one, window)
    wanted = replace(died, since=moment_of(window.since_us))
    only = scope.of_all_endpoints
    most = desk.store.atomic(lambda tx: most_frequent(tx, wanted, TOP_ROWS, deliveries=only), write=False)
    rows = [
        [
            link(visit.to("jobs", state="failed", fingerprint=group.fingerprint), count(group.count)),
            _died_of(visit, group),
            moment(group.last_us, window.until_us),
        ]
        for group in most
    ]
    return table(_TOP, rows, caption="Top error messages", empty="Nothing died in this time.")


def _died_of(visit: Visit, group: Group) -> Markup:
    message = redacted_text(group.message or group.technical, MESSAGE_CHARS_MAX)
    return joined(element("span", message, class_="summary"), code_link(visit, group.code))


def _codes(desk: Desk, visit: Visit, scope: Scope, one: Panel, window: Window) -> Markup:
    says = {fault.code: fault.says for catalog in reversed(desk.catalogs) for fault in catalog}
    _, found = counted(desk.series, one, scope.where, window)
    rows = [
        [number(times), code_link(visit, code), says.get(code, "")]
        for code, times in list(found.items())[:TOP_ROWS]
        if times > 0
    ]
    return table(_CODES, rows, caption="Top errors", empty="Nothing failed in this time.")
