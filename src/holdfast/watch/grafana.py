"""The panels as a Grafana dashboard: the file that Grafana imports, with the thresholds of the rules drawn in."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from holdfast.watch.panels import SUBJECTS, TOP_ROWS, Chart, Line, Panel, Subject, Unit
from holdfast.watch.promql import increase, promql
from holdfast.watch.rules import Rule
from holdfast.watch.rules_builtin import RULES
from holdfast.watch.rules_measure import Count, Counted

SCHEMA = 39
WIDTH = 8
HEIGHT = 8
ACROSS = 24
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
UNITS = {Unit.SHARE: "percentunit", Unit.SECONDS: "s", Unit.COUNT: "short"}
COLOURS = {"critical": "red", "warning": "orange"}
TYPES = {Chart.LINES: "timeseries", Chart.BARS: "timeseries", Chart.DISTRIBUTION: "bargauge", Chart.TABLE: "table"}
RANGE = "$__range"


def dashboard_file(subjects: Iterable[Subject] = SUBJECTS, rules: Sequence[Rule] = RULES) -> str:
    """The dashboard as JSON text."""
    return json.dumps(dashboard(subjects, rules), indent=2, ensure_ascii=False) + "\n"


def dashboard(subjects: Iterable[Subject] = SUBJECTS, rules: Sequence[Rule] = RULES) -> dict[str, Any]:
    """The dashboard; thresholds are those of the rules that are switched on."""
    by_name = {rule.name: rule for rule in rules if rule.enabled}
    panels: list[dict[str, Any]] = []
    top = 0
    for subject in subjects:
        panels.append(_row(subject, len(panels) + 1, top))
        top += 1
        for number, panel in enumerate(subject.panels):
            place = {
                "x": number * WIDTH % ACROSS,
                "y": top + number * WIDTH // ACROSS * HEIGHT,
                "w": WIDTH,
                "h": HEIGHT,
            }
            panels.append(_panel(panel, by_name, len(panels) + 1, place))
        top += -(-len(subject.panels) * WIDTH // ACROSS) * HEIGHT
    return {
        "uid": "holdfast",
        "title": "Holdfast",
        "tags": ["holdfast"],
        "schemaVersion": SCHEMA,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "browser",
        "templating": {
            "list": [{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}]
        },
        "annotations": {"list": []},
        "panels": panels,
    }


def _row(subject: Subject, number: int, top: int) -> dict[str, Any]:
    place = {"x": 0, "y": top, "w": ACROSS, "h": 1}
    return {"id": number, "type": "row", "title": subject.title, "collapsed": False, "gridPos": place, "panels": []}


def _panel(panel: Panel, rules: Mapping[str, Rule], number: int, place: dict[str, int]) -> dict[str, Any]:
    drawn = [] if panel.chart is Chart.DISTRIBUTION else [rules[name] for name in panel.rules if name in rules]
    defaults: dict[str, Any] = {"unit": UNITS[panel.unit], "min": 0, "thresholds": _thresholds(drawn)}
    if panel.unit is Unit.SHARE:
        defaults["max"] = 1
    if TYPES[panel.chart] == "timeseries":
        defaults["custom"] = {
            "drawStyle": "bars" if panel.chart is Chart.BARS else "line",
            "fillOpacity": 60 if panel.chart is Chart.BARS else 5,
            "stacking": {"mode": "normal" if panel.chart is Chart.BARS else "none", "group": "A"},
            "thresholdsStyle": {"mode": "line" if drawn else "off"},
        }
    return {
        "id": number,
        "type": TYPES[panel.chart],
        "title": panel.title,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": _options(panel),
        "targets": _targets(panel),
    }


def _thresholds(rules: Sequence[Rule]) -> dict[str, Any]:
    """Grafana colours from a value upwards; a rule that matters below a value colours what is under it."""
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    below = sorted((rule for rule in rules if rule.below is not None), key=lambda rule: rule.threshold)
    if below:
        colours = [*(COLOURS[rule.severity.value] for rule in below), "green"]
        steps = [{"color": colours[0], "value": None}]
        steps += [{"color": colour, "value": rule.threshold} for rule, colour in zip(below, colours[1:], strict=True)]
    above = sorted((rule for rule in rules if rule.above is not None), key=lambda rule: rule.threshold)
    steps += [{"color": COLOURS[rule.severity.value], "value": rule.threshold} for rule in above]
    return {"mode": "absolute", "steps": steps}


def _options(panel: Panel) -> dict[str, Any]:
    if panel.chart is Chart.TABLE:
        return {"showHeader": True, "sortBy": [{"displayName": "Value", "desc": True}]}
    if panel.chart is Chart.DISTRIBUTION:
        return {"orientation": "horizontal", "displayMode": "basic", "reduceOptions": {"calcs": ["lastNotNull"]}}
    return {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}}


def _targets(panel: Panel) -> list[dict[str, Any]]:
    if panel.histogram is not None:
        buckets = increase(Counted(panel.histogram), "_bucket", RANGE)
        return [_target(0, f"sum by (le) ({buckets})", "{{le}}", instant=True, format="heatmap")]
    if panel.chart is Chart.TABLE:
        return [
            _target(number, _most(line), "", instant=True, format="table") for number, line in enumerate(panel.lines)
        ]
    return [_target(number, promql(line.what, line.per), _legend(line)) for number, line in enumerate(panel.lines)]


def _most(line: Line) -> str:
    """The highest values over the time that is shown."""
    assert isinstance(line.what, Count)
    grown = " or ".join(increase(one, "", RANGE) for one in line.what.of)
    return f"topk({TOP_ROWS}, sum by ({line.per}) ({grown}))"


def _target(
    number: int, expression: str, legend: str, *, instant: bool = False, format: str = "time_series"
) -> dict[str, Any]:
    return {
        "refId": chr(ord("A") + number),
        "datasource": SOURCE,
        "expr": expression,
        "legendFormat": legend,
        "instant": instant,
        "range": not instant,
        "format": format,
    }


def _legend(line: Line) -> str:
    return line.title.replace("{", "{{").replace("}", "}}")
