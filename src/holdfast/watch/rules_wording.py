"""Rules and readings in words, for notices, tables and pages."""

from __future__ import annotations

from holdfast.watch.rules import Rule
from holdfast.watch.rules_measure import Measure, Ratio, Surge, metrics_of, window_s

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def span_text(seconds: float) -> str:
    """`5 min`, `90 s`: the largest unit that leaves nothing over."""
    for size, unit in _UNITS:
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"


def value_text(measure: Measure, value: float | None) -> str:
    """A reading with its unit."""
    if value is None:
        return "nothing"
    if isinstance(measure, Ratio):
        return f"{value * 100:.4g} %"
    if isinstance(measure, Surge):
        return f"{value:.3g} times"
    if metrics_of(measure)[0].name.endswith("_seconds"):
        return span_text(round(value, 1 if value >= 10 else 3))
    return f"{value:.6g}"


def summary_of(rule: Rule) -> str:
    """The rule's sentence with its numbers."""
    over_s = window_s(rule.what)
    filled = rule.summary.replace("{threshold}", value_text(rule.what, rule.threshold))
    return filled.replace("{window}", "" if over_s is None else span_text(over_s))


def condition_of(rule: Rule) -> str:
    """`below 95 % for 5 min`."""
    side = "above" if rule.above is not None else "below"
    held = f" for {span_text(rule.for_s)}" if rule.for_s else ""
    return f"{side} {value_text(rule.what, rule.threshold)}{held}"
