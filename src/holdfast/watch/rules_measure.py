"""What an alert or a panel looks at, as a value. Each measure can be read from a series and written as PromQL.

Names are those of the metrics in `names.py`; a measure that names a metric or a label that does not exist is refused
when it is made, so that a rule can be wrong only where it is written.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from holdfast.watch.names import Kind, Metric

Where = tuple[tuple[str, tuple[str, ...]], ...]
"""Labels with the values that count; a label that is not named may have any."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A counter or histogram, and which of its series count."""

    metric: Metric
    only: Where = ()
    """A series counts when each of these labels has one of these values."""
    never: Where = ()
    """A series with one of these values does not count."""

    def __post_init__(self) -> None:
        for label, values in (*self.only, *self.never):
            _check_label(self.metric, label)
            if not values:
                raise ValueError(f"{self.metric.name}: {label} is given no value")
        if len(self.never) > 1:
            raise ValueError(f"{self.metric.name}: only one label may be excluded")


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """How often it happened in the window; several counters are added up."""

    of: tuple[Counted, ...]
    over_s: float
    worst_of: str | None = None
    """Where one failure is counted under each value of this label, only the highest of them counts."""
    rare: bool = False
    """Whether the first time counts too: in Prometheus, a series that was never seen before needs more words."""

    def __post_init__(self) -> None:
        _check_kind(Kind.COUNTER, (one.metric for one in self.of))
        labels = [one.metric.labels for one in self.of]
        if len(set(labels)) != len(labels):
            raise ValueError("counters with the same labels are not told apart in PromQL; write two rules")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """Which share of `whole` was `part`, in the window; nothing when nothing happened."""

    part: Counted
    whole: Counted
    over_s: float
    minimum: float = 0.0
    """Nothing is read while `whole` happened less often than this in the window: one of two is not a rate."""

    def __post_init__(self) -> None:
        _check_kind(Kind.COUNTER, (self.part.metric, self.whole.metric))
        _check_minimum(self.minimum)


@dataclass(frozen=True, slots=True, kw_only=True)
class Average:
    """The mean of what a histogram saw in the window; nothing when it saw nothing."""

    of: Counted
    over_s: float

    def __post_init__(self) -> None:
        _check_kind(Kind.HISTOGRAM, (self.of.metric,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantile:
    """The value that the given share of what a histogram saw in the window did not exceed."""

    of: Counted
    share: float
    over_s: float

    def __post_init__(self) -> None:
        _check_kind(Kind.HISTOGRAM, (self.of.metric,))
        if not 0 < self.share < 1:
            raise ValueError(f"{self.share} is not between 0 and 1")
        if self.of.never or any(len(values) != 1 for _, values in self.of.only):
            raise ValueError("a quantile is read where each label has one value or any")


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A gauge as it stands, of those values of its label for which other gauges say so."""

    of: Metric
    where: tuple[Metric, ...] = ()
    """Each of these has to be above 0 for the same value of the label."""
    unless: tuple[Metric, ...] = ()
    """None of these may be above 0 for it."""

    def __post_init__(self) -> None:
        _check_kind(Kind.GAUGE, (self.of, *self.where, *self.unless))
        for other in (*self.where, *self.unless):
            if other.labels != self.of.labels:
                raise ValueError(f"{self.of.name} and {other.name} have different labels")
            if len(self.of.labels) != 1:
                raise ValueError(f"{self.of.name} has not one label by which to compare it")


@dataclass(frozen=True, slots=True, kw_only=True)
class Surge:
    """How many times more often than usual it happened; nothing while there is nothing usual to compare it with."""

    of: Counted
    over_s: float
    usual_s: float
    """The usual number is the mean over this longer time, which ends at the same moment."""
    minimum: float
    """Nothing is read while it happened no more often than this in the window."""
    baseline: Counted
    """What shows that there is a usual: all that happened, well or not."""
    baseline_minimum: float
    """Minimum number of baseline events in the longer time before the window; with fewer, nothing is read."""

    def __post_init__(self) -> None:
        _check_kind(Kind.COUNTER, (self.of.metric, self.baseline.metric))
        _check_minimum(self.minimum)
        _check_minimum(self.baseline_minimum)
        if not 0 < self.over_s < self.usual_s:
            raise ValueError("usual_s is not longer than over_s")


Measure = Count | Ratio | Average | Quantile | Level | Surge


def metrics_of(measure: Measure) -> tuple[Metric, ...]:
    """Every metric that the measure looks at."""
    match measure:
        case Count(of=several):
            return tuple(one.metric for one in several)
        case Ratio(part=part, whole=whole):
            return part.metric, whole.metric
        case Level(of=metric, where=where, unless=unless):
            return (metric, *where, *unless)
        case Average(of=one) | Quantile(of=one):
            return (one.metric,)
        case Surge(of=one, baseline=baseline):
            return (one.metric, baseline.metric)


def labels_of(measure: Measure) -> frozenset[str]:
    """The labels by which the measure can be taken apart."""
    if isinstance(measure, Surge):
        return frozenset(measure.of.metric.labels)  # the baseline is that of everything together
    return frozenset.intersection(*(frozenset(metric.labels) for metric in metrics_of(measure)))


def window_s(measure: Measure) -> float | None:
    """How far back the measure looks; None when it looks at this moment."""
    return None if isinstance(measure, Level) else measure.over_s


def _check_minimum(minimum: float) -> None:
    if not 0 <= minimum < inf:
        raise ValueError(f"{minimum} is not a number of times from 0 on")


def _check_kind(kind: Kind, metrics: Iterable[Metric]) -> None:
    for metric in metrics:
        if metric.kind is not kind:
            raise ValueError(f"{metric.name} is a {metric.kind}, not a {kind}")


def _check_label(metric: Metric, label: str) -> None:
    if label not in metric.labels:
        raise ValueError(f"{metric.name} has no label {label}; it has {', '.join(metric.labels) or 'none'}")
