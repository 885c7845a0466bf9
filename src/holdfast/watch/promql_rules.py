"""The rules as a Prometheus rule file: the same names, thresholds and times as the ones judged here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.watch.promql import condition, duration, quoted
from holdfast.watch.rules import Rule
from holdfast.watch.rules_wording import condition_of, summary_of

GROUP = "holdfast"
INTERVAL_S = 15.0


def rule_file(rules: Iterable[Rule], *, interval_s: float = INTERVAL_S) -> str:
    """The file as YAML; rules that are switched off are left out."""
    lines = [
        "# Written by `holdfast alerts export`; change the policy file instead of this one.",
        "groups:",
        f"  - name: {GROUP}",
        f"    interval: {duration(interval_s)}",
    ]
    written = [line for rule in rules if rule.enabled for line in _alert(rule)]
    lines += ["    rules:", *written] if written else ["    rules: []"]
    return "\n".join(lines) + "\n"


def _alert(rule: Rule) -> Iterator[str]:
    yield f"      - alert: {rule.name}"
    yield f"        expr: {quoted(condition(rule))}"
    if rule.for_s:
        yield f"        for: {duration(rule.for_s)}"
    yield "        labels:"
    yield f"          severity: {rule.severity.value}"
    if rule.action is not None:
        yield f"          action: {rule.action.value}"
    yield "        annotations:"
    of = f" ({rule.per}: {{{{ $labels.{rule.per} }}}})" if rule.per else ""
    yield f"          summary: {quoted(_plain(summary_of(rule)) + of)}"
    yield f"          description: {quoted(f'Read: {{{{ $value }}}}; told when {_plain(condition_of(rule))}.')}"
    if rule.remedy:
        yield f"          remedy: {quoted(_plain(rule.remedy))}"


def _plain(text: str) -> str:
    """Text in which Prometheus finds nothing to fill in."""
    return text.replace("{{", '{{ "{{" }}')
