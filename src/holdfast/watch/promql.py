"""A measure as PromQL, so that Prometheus and Holdfast judge by the same numbers.

Every process shows the numbers of all processes together. Where Prometheus scrapes several of them it sees the same
series several times; `max without (instance, pod)` takes each once.
"""

from __future__ import annotations

from typing import assert_never

from holdfast.watch.names import WEBHOOK_DEAD
from holdfast.watch.rules import Rule
from holdfast.watch.rules_measure import Average, Count, Counted, Level, Measure, Quantile, Ratio, Surge

ONCE = "max without (instance, pod)"
ALWAYS_SHOWN = WEBHOOK_DEAD
"""A gauge without labels that every process shows from the beginning."""


def condition(rule: Rule) -> str:
    """The expression that has a result while the rule's condition holds."""
    return f"{promql(rule.what, rule.per)} {rule.sign} {rule.threshold:.15g}"


def promql(measure: Measure, per: str | None = None) -> str:
    """The measure for each value of the label, or for everything together."""
    match measure:
        case Count(of=several, over_s=over_s, worst_of=worst_of, rare=rare):
            grown = " or ".join(_from_nothing(one, over_s) if rare else increase(one, "", over_s) for one in several)
            if worst_of is None:
                return total(grown, per)
            return f"max{_by(per)} (sum{_by(per, worst_of)} ({grown}))"
        case Ratio(part=part, whole=whole, over_s=over_s, minimum=minimum):
            below = total(increase(whole, "", over_s), per)
            enough = f"({below} >= {minimum:g})" if minimum else below
            # A part that never happened has no series; it is none of the whole, not unknown.
            return f"({total(increase(part, '', over_s), per)} or {below} * 0) / {enough}"
        case Average(of=of, over_s=over_s):
            return f"{total(increase(of, '_sum', over_s), per)} / {total(increase(of, '_count', over_s), per)}"
        case Quantile(of=of, share=share, over_s=over_s):
            return f"histogram_quantile({share:g}, sum{_by(per, 'le')} ({increase(of, '_bucket', over_s)}))"
        case Level():
            return _level(measure, per)
        case Surge():
            return _surge(measure, per)
        case _:
            assert_never(measure)


def total(inner: str, per: str | None) -> str:
    """Everything together, or for each value of the label."""
    return f"sum{_by(per)} ({inner})"


def increase(counted: Counted, suffix: str, over_s: float | str) -> str:
    """How much the series grew; each once, however many processes show it."""
    window = over_s if isinstance(over_s, str) else duration(over_s)
    return f"{ONCE} (increase({selector(counted, suffix)}[{window}]))"


def selector(counted: Counted, suffix: str = "") -> str:
    """The series that count."""
    matchers = [
        *(_matcher(label, values, "=") for label, values in counted.only),
        *(_matcher(label, values, "!") for label, values in counted.never),
    ]
    return counted.metric.name + suffix + (f"{{{', '.join(matchers)}}}" if matchers else "")


def duration(seconds: float) -> str:
    """`5m`, `90s`, `1h`."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")):
        if seconds >= size and seconds % size == 0:
            return f"{int(seconds // size)}{unit}"
    return f"{round(seconds * 1_000)}ms"


def _from_nothing(counted: Counted, over_s: float) -> str:
    """How much the series grew; one that is new grew from nothing to what it is.

    `increase` knows nothing before the first value that was scraped, so what happened once would never be seen. A
    series is new when something that is always shown was scraped more often than it; otherwise Prometheus itself is.
    """
    series, back = selector(counted), duration(over_s)
    scraped = f"max (count_over_time({ALWAYS_SHOWN.name}[{back}]))"
    new = f"({ONCE} (count_over_time({series}[{back}])) < on () group_left () {scraped})"
    return f"({ONCE} ({series}) and {new}) or {increase(counted, '', over_s)}"


def _level(measure: Level, per: str | None) -> str:
    metric = measure.of
    shown = f"{ONCE} ({metric.name})"
    for word, others in (("and", measure.where), ("unless", measure.unless)):
        for other in others:
            shown += f" {word} on ({metric.labels[0]}) ({ONCE} ({other.name}) > 0)"
    return f"{metric.merge.value}{_by(per)} ({shown})"


def _surge(measure: Surge, per: str | None) -> str:
    lately = total(increase(measure.of, "", measure.over_s), per)
    usually = total(increase(measure.of, "", measure.usual_s), per)
    spans = (measure.usual_s, measure.over_s)
    before = " - ".join(total(increase(measure.baseline, "", over_s), None) for over_s in spans)
    ratio = f"({lately} > {measure.minimum:g}) / ({usually} * {measure.over_s / measure.usual_s:.15g})"
    return f"({ratio} and on () ({before} >= {measure.baseline_minimum:g}))"


def _by(*labels: str | None) -> str:
    named = [label for label in labels if label is not None]
    return f" by ({', '.join(named)})" if named else ""


def _matcher(label: str, values: tuple[str, ...], sign: str) -> str:
    if len(values) == 1:
        return f"{label}{'=' if sign == '=' else '!='}{quoted(values[0])}"
    return f"{label}{'=~' if sign == '=' else '!~'}{quoted('|'.join(_literal(value) for value in values))}"


def quoted(text: str) -> str:
    """A text in double quotes, as PromQL and YAML both read it."""
    from holdfast.base import encode

    return encode(text)


def _literal(text: str) -> str:
    """The text as a regular expression that matches nothing else."""
    return "".join(f"\\{sign}" if sign in r".+*?()[]{}|^$\\" else sign for sign in text)
