"""Counting in memory: what the bus tells becomes numbers, which the flush takes to the store.

Hearing an event only puts it in a queue; the thread that fills the queue counts what is in it. So no thread waits for
another, and the numbers are exact however many threads there are. Always true: no metric has more sets of labels than
it declares, whatever comes in.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from holdfast.base import Facts
from holdfast.watch.counting import RULES
from holdfast.watch.names import METRICS, OTHER, Kind, Metric

FOLD_AT = 256
"""Number of waiting events from which on the thread that adds the next one counts them."""
LABEL_CHARS_MAX = 120
"""A longer value of a label is cut."""
UNKNOWN = "unknown"
"""The value of a label that an event does not tell."""

Values = tuple[str, ...]
"""The values of a metric's labels, in their order."""


@dataclass(frozen=True, slots=True)
class Delta:
    """By how much one series grew."""

    metric: Metric
    values: Values
    amount: float
    """The sum of what was observed, for a histogram."""
    buckets: tuple[int, ...] = ()
    """How many observations fell in each bucket of a histogram."""


class Meter:
    """The numbers of this process since they were last taken. Threads may share it."""

    def __init__(self) -> None:
        self._heard: deque[tuple[str, Facts]] = deque()
        self._counting = threading.Lock()
        self._cells: dict[str, dict[Values, _Cell]] = {one.name: {} for one in METRICS}
        self._gauges: dict[tuple[str, Values], float] = {}
        self._grown = False

    def hear(self, verb: str, facts: Facts) -> None:
        """What the bus calls."""
        heard = self._heard
        heard.append((verb, facts))
        if len(heard) >= FOLD_AT and self._counting.acquire(blocking=False):
            try:
                self._fold()
            finally:
                self._counting.release()

    def count(self, metric: Metric, *values: Any, amount: float = 1.0) -> None:
        """Add to a counter; only rules call this, while they hold the count."""
        cells = self._cells[metric.name]
        cell = cells.get(values)
        if cell is None:
            cell = _new_cell(cells, metric, values)
        cell.amount += amount
        cell.touched = True

    def observe(self, metric: Metric, *values: Any, value: float) -> None:
        """Add an observation to a histogram; as `count`."""
        cells = self._cells[metric.name]
        cell = cells.get(values)
        if cell is None:
            cell = _new_cell(cells, metric, values)
        cell.amount += value
        cell.buckets[bisect_left(metric.buckets, value)] += 1
        cell.touched = True

    def show(self, metric: Metric, *values: Any, value: float) -> None:
        """Set a gauge that only this process knows; as `count`."""
        of_metric = sum(name == metric.name for name, _ in self._gauges)
        key = (metric.name, _clean(values))
        if key in self._gauges or of_metric < metric.series_max:
            self._gauges[key] = value

    def set(self, metric: Metric, *values: Any, value: float) -> None:
        """Set a gauge that only this process knows; for everybody but rules."""
        with self._counting:
            self.show(metric, *values, value=value)

    def take(self) -> list[Delta]:
        """What was counted since the last time; now it is the taker's to keep."""
        with self._counting:
            self._fold()
            if not self._grown:
                return []
            self._grown = False
            return [
                cell.take(values) for cells in self._cells.values() for values, cell in cells.items() if cell.touched
            ]

    def gauges(self) -> dict[tuple[str, Values], float]:
        """The gauges of this process as they stand."""
        with self._counting:
            self._fold()
            return dict(self._gauges)

    def forget(self) -> None:
        """Begin anew, also with new locks: for a forked child, whose parent keeps the numbers."""
        self.__init__()  # type: ignore[misc]  # nobody else has this object yet

    def _fold(self) -> None:
        # Only what waits now: others may go on telling meanwhile.
        heard = self._heard
        for _ in range(len(heard)):
            verb, facts = heard.popleft()
            rule = RULES.get(verb)
            if rule is not None:
                self._grown = True
                rule(self, facts)


class _Cell:
    """What one series grew by."""

    __slots__ = ("amount", "buckets", "metric", "touched")

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self.amount = 0.0
        self.buckets = [0] * (len(metric.buckets) + 1) if metric.kind is Kind.HISTOGRAM else []
        self.touched = False

    def take(self, values: Values) -> Delta:
        taken = Delta(self.metric, values, self.amount, tuple(self.buckets))
        self.amount, self.touched = 0.0, False
        self.buckets = [0] * len(self.buckets)
        return taken


def _new_cell(cells: dict[Values, _Cell], metric: Metric, values: Iterable[Any]) -> _Cell:
    """The cell of values that were not met before in this spelling; beyond the bound it is the one for the others."""
    clean = _clean(values)
    if clean not in cells and len(cells) >= metric.series_max:
        clean = (OTHER,) * len(metric.labels)
    return cells.setdefault(clean, _Cell(metric))


def _clean(values: Iterable[Any]) -> Values:
    return tuple(_label(value) for value in values)


def _label(value: Any) -> str:
    if value is None:
        return UNKNOWN
    text = str(value)[:LABEL_CHARS_MAX]
    # A text of PostgreSQL cannot hold a NUL, and half a surrogate pair has no UTF-8.
    return text.encode("utf-8", "replace").decode().replace("\0", "")
