"""Numbers over time: how much a counter grew, the points of a chart, quantiles, and what a gauge shows.

Counters are known by slices of time, which are coarser the longer ago they are. A window takes in every slice that it
touches, so it may reach back further than asked by as much as the slice at its beginning is wide (ten seconds for five
minutes), and never misses what it should count. An event counts from the flush that brought it to the store.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil, inf
from types import MappingProxyType
from typing import Protocol

from holdfast.catalog.core import BAD_REQUEST
from holdfast.store import Row, Store, Tx
from holdfast.watch.gauges import Gauges, Sample, merged
from holdfast.watch.labels import Labels, fits, read_labels
from holdfast.watch.names import BY_NAME, Kind
from holdfast.watch.slices import width_at

POINTS_MAX = 2_000
"""Maximum number of points in a chart."""
HELD_S = 90
"""A gauge is sampled now and then; between two samples, and no longer than this, it is taken to stay as it was."""
NOWHERE: Labels = MappingProxyType({})

Points = list[tuple[int, dict[str, float]]]
"""When, and the value of each label; without `by` the one label is empty."""


class Series(Protocol):
    """What is asked of the numbers. `until_us` is now unless given."""

    def now_us(self) -> int:
        """The time of the clock by which slices are cut."""
        ...

    def increase(self, name: str, *, over_s: float, where: Labels = NOWHERE, until_us: int | None = None) -> float:
        """How much a counter grew; also the `_sum` and `_count` of a histogram."""
        ...

    def increase_by(
        self, name: str, label: str, *, over_s: float, where: Labels = NOWHERE, until_us: int | None = None
    ) -> dict[str, float]:
        """The same for each value of a label."""
        ...

    def points(
        self,
        name: str,
        *,
        since_us: int,
        until_us: int,
        step_s: float,
        where: Labels = NOWHERE,
        by: str | None = None,
    ) -> Points:
        """How much a counter grew in each step, or the highest that a gauge showed; one entry for every step."""
        ...

    def buckets(
        self, name: str, *, over_s: float, where: Labels = NOWHERE, until_us: int | None = None
    ) -> dict[float, float]:
        """How many observations of a histogram fell in each bucket, by its upper bound; not cumulative."""
        ...

    def quantile(
        self, name: str, q: float, *, over_s: float, where: Labels = NOWHERE, until_us: int | None = None
    ) -> float | None:
        """The q-quantile (0 to 1) of a histogram; None when nothing was observed."""
        ...

    def quantiles(
        self,
        name: str,
        qs: Sequence[float],
        *,
        since_us: int,
        until_us: int,
        step_s: float,
        where: Labels = NOWHERE,
    ) -> list[tuple[int, dict[float, float]]]:
        """The quantiles of each step; a step with no observation has none."""
        ...

    def gauge(self, name: str, *, where: Labels = NOWHERE) -> float | None:
        """What a gauge shows now, several values merged as its declaration says; None when there is none."""
        ...

    def gauges(self, name: str, label: str, *, where: Labels = NOWHERE) -> dict[str, float]:
        """The same for each value of a label."""
        ...


class StoreSeries:
    """The numbers of all processes, as the store has them; `Series` says what each question means.

    Threads may share it.
    """

    def __init__(self, store: Store, *, gauges: Gauges | None = None) -> None:
        self._store = store
        self._gauges = Gauges(store) if gauges is None else gauges

    def now_us(self) -> int:
        return self._store.atomic(lambda tx: tx.now_us(), write=False)

    def increase(self, name: str, *, over_s: float, where: Labels = NOWHERE, until_us: int | None = None) -> float:
        return sum(value for labels, value in self._increases(name, over_s, until_us) if fits(labels, where))

    def increase_by(
        self, name: str, label: str, *, over_s: float, where: Labels = NOWHERE, until_us: int | None = None
    ) -> dict[str, float]:
        found: dict[str, float] = {}
        for labels, value in self._increases(name, over_s, until_us):
            if fits(labels, where):
                key = labels.get(label, "")
                found[key] = found.get(key, 0.0) + value
        return found

    def points(
        self,
        name: str,
        *,
        since_us: int,
        until_us: int,
        step_s: float,
        where: Labels = NOWHERE,
        by: str | None = None,
    ) -> Points:
        metric = BY_NAME.get(name)
        is_gauge = metric is not None and metric.kind is Kind.GAUGE
        steps = _Steps(self._store, since_us, until_us, step_s)
        if not is_gauge and by is None and not where:
            grown: dict[int, dict[str, float]] = {
                at_us: {"": value} for at_us, value in steps.rows("metric.sums", name)
            }
            return _filled(steps, grown, [""])
        found: dict[int, dict[str, list[float]]] = {}
        for at_us, text, total, highest in steps.rows("metric.points", name):
            labels = read_labels(text)
            if fits(labels, where):
                key = labels.get(by, "") if by else ""
                found.setdefault(at_us, {}).setdefault(key, []).append(highest if is_gauge else total)
        keys = sorted({key for one in found.values() for key in one} | (set() if by else {""}))
        if metric is not None and is_gauge:
            shown = {
                at_us: {key: merged(metric, values) or 0.0 for key, values in one.items()}
                for at_us, one in found.items()
            }
            return _held(steps, shown)
        summed = {at_us: {key: sum(values) for key, values in one.items()} for at_us, one in found.items()}
        return _filled(steps, summed, keys)

    def buckets(
        self, name: str, *, over_s: float, where: Labels = NOWHERE, until_us: int | None = None
    ) -> dict[float, float]:
        found = self.increase_by(f"{name}_bucket", "le", over_s=over_s, where=where, until_us=until_us)
        counted = {float(bound): value for bound, value in found.items()}
        return {bound: counted.get(bound, 0.0) for bound in sorted({*counted, *_bounds(name)})}

    def quantile(
        self, name: str, q: float, *, over_s: float, where: Labels = NOWHERE, until_us: int | None = None
    ) -> float | None:
        return quantile_of(self.buckets(name, over_s=over_s, where=where, until_us=until_us), q)

    def quantiles(
        self,
        name: str,
        qs: Sequence[float],
        *,
        since_us: int,
        until_us: int,
        step_s: float,
        where: Labels = NOWHERE,
    ) -> list[tuple[int, dict[float, float]]]:
        asked = {"since_us": since_us, "until_us": until_us}
        found = self.points(f"{name}_bucket", **asked, step_s=step_s, where=where, by="le")
        bounds = _bounds(name)
        answer = []
        for at_us, counted in found:
            buckets = dict.fromkeys(bounds, 0.0) | {float(bound): value for bound, value in counted.items()}
            known = {q: value for q in qs if (value := quantile_of(buckets, q)) is not None}
            answer.append((at_us, known))
        return answer

    def gauge(self, name: str, *, where: Labels = NOWHERE) -> float | None:
        return merged(BY_NAME[name], (one.value for one in self._showing(name, where)))

    def gauges(self, name: str, label: str, *, where: Labels = NOWHERE) -> dict[str, float]:
        found: dict[str, list[float]] = {}
        for one in self._showing(name, where):
            found.setdefault(one.labels.get(label, ""), []).append(one.value)
        return {key: merged(BY_NAME[name], values) or 0.0 for key, values in found.items()}

    def _showing(self, name: str, where: Labels) -> list[Sample]:
        return [one for one in self._gauges.read() if one.name == name and fits(one.labels, where)]

    def _increases(self, name: str, over_s: float, until_us: int | None) -> list[tuple[Labels, float]]:
        def phase(tx: Tx) -> list[Row]:
            now_us = tx.now_us()
            end_us = now_us + 1 if until_us is None else until_us
            since_us = end_us - int(over_s * 1_000_000)
            widest_us = width_at((now_us - since_us) / 1_000_000) * 1_000_000
            span = {"after_us": since_us - widest_us, "since_us": since_us, "until_us": end_us}
            return tx.rows("metric.increases", name=name, **span)

        return [(read_labels(text), value) for text, value in self._store.atomic(phase, write=False)]


def quantile_of(buckets: Mapping[float, float], q: float) -> float | None:
    """The q-quantile of counts by upper bound, taken as evenly spread inside a bucket; None when there are none.

    As Prometheus does it: what lies above the highest bound counts as lying on it.
    """
    total = sum(buckets.values())
    if total <= 0:
        return None
    rank, below, lower = min(max(q, 0.0), 1.0) * total, 0.0, 0.0
    for bound in sorted(buckets):
        count = buckets[bound]
        if count > 0 and below + count >= rank:
            if bound == inf:
                return lower
            start = lower if bound > 0 else bound
            return start + (bound - start) * (rank - below) / count
        below += count
        lower = bound if bound != inf else lower
    return lower


class _Steps:
    """The steps of a chart, and which slices they are made of."""

    def __init__(self, store: Store, since_us: int, until_us: int, step_s: float) -> None:
        self._store = store
        if not (until_us > since_us and step_s > 0):
            raise BAD_REQUEST("A chart ends after it begins, and its steps have a length.")
        now_us = store.atomic(lambda tx: tx.now_us(), write=False)
        width_s = width_at((now_us - since_us) / 1_000_000)
        # A step is whole slices, also of the coarsest, which are those at its beginning.
        self.step_us = max(1, ceil(step_s / width_s)) * width_s * 1_000_000
        self.since_us = since_us // self.step_us * self.step_us
        self.until_us = until_us
        if (until_us - self.since_us) // self.step_us >= POINTS_MAX:
            raise BAD_REQUEST("A chart has at most {most} points.", most=POINTS_MAX)

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.since_us, self.until_us, self.step_us))

    def rows(self, statement: str, name: str) -> list[Row]:
        asked = {"since_us": self.since_us, "until_us": self.until_us, "step_us": self.step_us}
        return self._store.atomic(lambda tx: tx.rows(statement, name=name, **asked), write=False)


def _filled(steps: _Steps, found: Mapping[int, Mapping[str, float]], keys: Sequence[str]) -> Points:
    """Where a counter did not grow it grew by nothing."""
    zeros = dict.fromkeys(keys, 0.0)
    return [(at_us, {**zeros, **found.get(at_us, {})}) for at_us in steps]


def _held(steps: _Steps, found: Mapping[int, Mapping[str, float]]) -> Points:
    """Where a gauge was not sampled it stays as it was, for a while; then nothing is known."""
    answer: Points = []
    last_us, last = 0, dict[str, float]()
    for at_us in steps:
        if at_us in found:
            last_us, last = at_us, dict(found[at_us])
        answer.append((at_us, dict(last) if at_us - last_us <= HELD_S * 1_000_000 else {}))
    return answer


def _bounds(name: str) -> tuple[float, ...]:
    metric = BY_NAME.get(name)
    return () if metric is None else (*metric.buckets, inf)
