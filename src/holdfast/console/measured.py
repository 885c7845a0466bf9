"""The lines of a panel over time: each measure of the panel's definition, read step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypedDict

from holdfast.console.charts import Line
from holdfast.watch.names import Metric
from holdfast.watch.panels import Line as Defined
from holdfast.watch.panels import Panel
from holdfast.watch.rules_measure import Counted, Level, Quantile, Ratio
from holdfast.watch.series import Points, Series

LINES_MAX = 6
"""Maximum number of lines of a chart that has one for each value of a label: the highest are drawn."""
TONES = ("tone-1", "tone-2", "tone-3", "tone-4", "tone-5", "tone-6")
Where = Mapping[str, str]


class Asked(TypedDict):
    """A span of time and its steps."""

    since_us: int
    until_us: int
    step_s: float


@dataclass(frozen=True, slots=True)
class Window:
    """The time that is shown, and its steps."""

    since_us: int
    until_us: int
    step_s: int

    @property
    def length_s(self) -> float:
        return (self.until_us - self.since_us) / 1_000_000

    def asked(self) -> Asked:
        """As the series takes it."""
        return {"since_us": self.since_us, "until_us": self.until_us, "step_s": self.step_s}


@dataclass(frozen=True, slots=True)
class Measured:
    """Lines over time, as a chart takes them."""

    starts_us: Sequence[int]
    step_us: int
    lines: Sequence[Line]


def measured(series: Series, panel: Panel, where: Where, window: Window) -> Measured:
    """Every line of the panel."""
    reading = _Reading(series, where, window)
    starts_us: list[int] = []
    lines: list[Line] = []
    for line in panel.lines:
        match line.what:
            case Ratio():
                starts_us, drawn = _ratio(reading, line.what, line.title)
            case Quantile():
                shares = [one.what.share for one in panel.lines if isinstance(one.what, Quantile)]
                starts_us, drawn = _quantile(reading, line.what, line.title, shares)
            case Level():
                starts_us, drawn = _level(reading, line, line.what)
            case _:
                continue  # what is counted is drawn as bars
        lines += drawn
    toned = [Line(line.name, line.tone or TONES[place % len(TONES)], line.values) for place, line in enumerate(lines)]
    step_us = starts_us[1] - starts_us[0] if len(starts_us) > 1 else window.step_s * 1_000_000
    return Measured(starts_us, step_us, toned)


def counted(series: Series, panel: Panel, where: Where, window: Window) -> tuple[str, dict[str, float]]:
    """What a panel of counts shows over the whole time: the label, and how often each value came, most first."""
    (line,) = panel.lines
    label = line.per or ""
    total: dict[str, float] = {}
    for one in getattr(line.what, "of", ()):
        for narrowed in _wheres(one, where):
            grown = series.increase_by(
                one.metric.name, label, over_s=window.length_s, where=narrowed, until_us=window.until_us
            )
            for value, count in grown.items():
                total[value] = total.get(value, 0.0) + count
    return label, dict(sorted(total.items(), key=lambda item: (-item[1], item[0])))


def narrowed_to(metric: Metric, where: Where) -> Where:
    """As much of a choice as the metric knows."""
    return {label: value for label, value in where.items() if label in metric.labels}


def _wheres(one: Counted, where: Where) -> list[Where]:
    labels = [label for label, _ in one.only]
    chosen = narrowed_to(one.metric, where)
    return [{**chosen, **dict(zip(labels, values, strict=True))} for values in product(*(v for _, v in one.only))]


class _Reading:
    """What one panel reads. Lines that need the same numbers share them."""

    def __init__(self, series: Series, where: Where, window: Window) -> None:
        self._series = series
        self._where = where
        self._window = window
        self._points: dict[tuple[str, str | None], Points] = {}
        self._quantiles: dict[Counted, list[tuple[int, dict[float, float]]]] = {}

    def points(self, metric: Metric, by: str | None) -> Points:
        key = (metric.name, by)
        if key not in self._points:
            where = narrowed_to(metric, self._where)
            self._points[key] = self._series.points(metric.name, **self._window.asked(), where=where, by=by)
        return self._points[key]

    def quantiles(self, one: Counted, shares: Sequence[float]) -> list[tuple[int, dict[float, float]]]:
        if one not in self._quantiles:
            (where,) = _wheres(one, self._where)
            self._quantiles[one] = self._series.quantiles(one.metric.name, shares, **self._window.asked(), where=where)
        return self._quantiles[one]

    def grown(self, one: Counted) -> dict[int, float]:
        """How much it grew in each step."""
        if one.never:
            ((label, values),) = one.never  # the panels that leave something out count everything else
            points = self.points(one.metric, label)
            return {at_us: sum(n for value, n in found.items() if value not in values) for at_us, found in points}
        if not one.only:
            return {at_us: found.get("", 0.0) for at_us, found in self.points(one.metric, None)}
        if len(one.only) == 1:
            ((label, values),) = one.only
            points = self.points(one.metric, label)
            return {at_us: sum(found.get(value, 0.0) for value in values) for at_us, found in points}
        total: dict[int, float] = {}
        for narrowed in _wheres(one, self._where):
            for at_us, found in self._series.points(one.metric.name, **self._window.asked(), where=narrowed):
                total[at_us] = total.get(at_us, 0.0) + found.get("", 0.0)
        return total


def _ratio(reading: _Reading, what: Ratio, title: str) -> tuple[list[int], list[Line]]:
    whole, part = reading.grown(what.whole), reading.grown(what.part)
    values = [part.get(at_us, 0.0) / count if count > 0 else None for at_us, count in whole.items()]
    return list(whole), [Line(title, "", values)]


def _quantile(reading: _Reading, what: Quantile, title: str, shares: Sequence[float]) -> tuple[list[int], list[Line]]:
    points = reading.quantiles(what.of, shares)
    return [at_us for at_us, _ in points], [Line(title, "", [found.get(what.share) for _, found in points])]


def _level(reading: _Reading, line: Defined, what: Level) -> tuple[list[int], list[Line]]:
    points = reading.points(what.of, line.per)
    highest: dict[str, float] = {}
    for _, found in points:
        for key, value in found.items():
            highest[key] = max(value, highest.get(key, 0.0))
    kept = sorted(sorted(highest, key=lambda key: -highest[key])[:LINES_MAX])
    names = {key: line.title.replace(f"{{{line.per}}}", key) for key in kept}
    return [at_us for at_us, _ in points], [
        Line(names[key], "", [found.get(key) for _, found in points]) for key in kept
    ]
