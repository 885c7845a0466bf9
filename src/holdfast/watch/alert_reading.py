"""A measure, read from the series: one number for each cause. A cause with nothing to read is not there."""

from __future__ import annotations

from itertools import product
from typing import assert_never

from holdfast.watch.names import Metric
from holdfast.watch.rules import Rule
from holdfast.watch.rules_measure import Average, Count, Counted, Level, Measure, Quantile, Ratio, Surge
from holdfast.watch.series import Series

Readings = dict[str, float]
"""By cause; the one cause of a measure that is not taken apart is the empty text."""

CAUSES_MAX = 200
"""Maximum number of causes of one rule that are judged, the worst ones; the labels of a metric are bounded too."""


def read_rule(rule: Rule, series: Series, until_us: int) -> Readings:
    """What the rule is judged by; nothing while it is switched off."""
    if not rule.enabled:
        return {}
    found = sorted(read(rule.what, rule.per, series, until_us).items())
    worst = sorted(found, key=lambda item: item[1], reverse=rule.above is not None)
    return dict(sorted(worst[:CAUSES_MAX]))


def read(measure: Measure, per: str | None, series: Series, until_us: int) -> Readings:
    """The measure for each value of the label, or for everything together."""
    match measure:
        case Count():
            return _count(measure, per, series, until_us)
        case Ratio(part=part, whole=whole, over_s=over_s, minimum=minimum):
            total = _grown(whole, "", per, over_s, series, until_us)
            share = _grown(part, "", per, over_s, series, until_us)
            counted = {cause: value for cause, value in total.items() if value > 0 and value >= minimum}
            return {cause: share.get(cause, 0.0) / value for cause, value in counted.items()}
        case Average(of=of, over_s=over_s):
            counts = _grown(of, "_count", per, over_s, series, until_us)
            sums = _grown(of, "_sum", per, over_s, series, until_us)
            return {cause: sums.get(cause, 0.0) / count for cause, count in counts.items() if count > 0}
        case Quantile():
            return _quantile(measure, per, series, until_us)
        case Level():
            return _level(measure, per, series)
        case Surge():
            return _surge(measure, per, series, until_us)
        case _:
            assert_never(measure)


def _count(measure: Count, per: str | None, series: Series, until_us: int) -> Readings:
    worst_of = measure.worst_of
    if worst_of is None:
        return _added(*(_grown(one, "", per, measure.over_s, series, until_us) for one in measure.of))
    values = {value for one in measure.of for value in _grown(one, "", worst_of, measure.over_s, series, until_us)}
    found: Readings = {}
    for value in sorted(values)[:CAUSES_MAX]:
        narrowed = [_narrowed(one, worst_of, value) for one in measure.of]
        here = _added(*(_grown(one, "", per, measure.over_s, series, until_us) for one in narrowed))
        found = {cause: max(here.get(cause, 0.0), found.get(cause, 0.0)) for cause in {*here, *found}}
    return found or ({} if per else {"": 0.0})


def _quantile(measure: Quantile, per: str | None, series: Series, until_us: int) -> Readings:
    name, where = measure.of.metric.name, _only_one(measure.of)
    causes = [""] if per is None else list(_grown(measure.of, "_count", per, measure.over_s, series, until_us))
    found: Readings = {}
    for cause in causes[:CAUSES_MAX]:
        here = where if per is None else {**where, per: cause}
        value = series.quantile(name, measure.share, over_s=measure.over_s, where=here, until_us=until_us)
        if value is not None:
            found[cause] = value
    return found


def _level(measure: Level, per: str | None, series: Series) -> Readings:
    metric = measure.of
    if not measure.where and not measure.unless:
        if per is not None:
            return series.gauges(metric.name, per)
        value = series.gauge(metric.name)
        return {} if value is None else {"": value}
    (label,) = metric.labels
    found = series.gauges(metric.name, label)
    for others, wanted in ((measure.where, True), (measure.unless, False)):
        for other in others:
            shown = series.gauges(other.name, label)
            found = {key: value for key, value in found.items() if (shown.get(key, 0.0) > 0) is wanted}
    return found if per is not None or not found else {"": _merged(metric, found)}


def _surge(measure: Surge, per: str | None, series: Series, until_us: int) -> Readings:
    before = sum(
        sign * _grown(measure.baseline, "", None, over_s, series, until_us)[""]
        for sign, over_s in ((1, measure.usual_s), (-1, measure.over_s))
    )
    if before < measure.baseline_minimum:
        return {}
    lately = _grown(measure.of, "", per, measure.over_s, series, until_us)
    usually = _grown(measure.of, "", per, measure.usual_s, series, until_us)
    share = measure.over_s / measure.usual_s
    return {
        cause: value / (usually[cause] * share)
        for cause, value in lately.items()
        if value > measure.minimum and usually.get(cause, 0.0) > 0
    }


def _grown(counted: Counted, suffix: str, per: str | None, over_s: float, series: Series, until_us: int) -> Readings:
    """How much the series that count grew: those with a value that counts, less those with one that never does."""
    name = counted.metric.name + suffix
    wheres = [
        dict(zip([label for label, _ in counted.only], values, strict=True))
        for values in product(*(values for _, values in counted.only))
    ]
    excluded = [(label, value) for label, values in counted.never for value in values]

    def grown(where: dict[str, str]) -> Readings:
        if per is None:
            return {"": series.increase(name, over_s=over_s, where=where, until_us=until_us)}
        return series.increase_by(name, per, over_s=over_s, where=where, until_us=until_us)

    total = _added(*(grown(where) for where in wheres))
    for label, value in excluded:
        for where in wheres:
            for cause, less in grown({**where, label: value}).items():
                total[cause] = total.get(cause, 0.0) - less
    return total


def _added(*parts: Readings) -> Readings:
    total: Readings = {}
    for part in parts:
        for cause, value in part.items():
            total[cause] = total.get(cause, 0.0) + value
    return total


def _narrowed(counted: Counted, label: str, value: str) -> Counted:
    others = tuple(one for one in counted.only if one[0] != label)
    return Counted(counted.metric, only=(*others, (label, (value,))), never=counted.never)


def _only_one(counted: Counted) -> dict[str, str]:
    return {label: values[0] for label, values in counted.only}


def _merged(metric: Metric, values: Readings) -> float:
    from holdfast.watch.gauges import merged

    return merged(metric, values.values()) or 0.0
