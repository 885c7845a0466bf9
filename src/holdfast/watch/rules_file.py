"""A policy file for alerts, in TOML: other thresholds for the rules, and the sinks that are told.

```toml
[alerts.high_error_rate]
threshold = 0.02
for_s = 120

[sinks.oncall]
kind = "pagerduty"
routing_key_variable = "PAGERDUTY_ROUTING_KEY"
```

A file is used as a whole or, when anything in it is wrong, not at all. What it does not name stays as declared.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from holdfast.catalog.fault import Severity
from holdfast.policy.overlay import OverlayInvalid, Problem, read_document
from holdfast.watch.rules import FOR_S_MAX, Rule
from holdfast.watch.rules_measure import Level, Ratio, Surge, labels_of
from holdfast.watch.sinks import Sink
from holdfast.watch.sinks_file import sink_of, sink_problems

RULES_KEY = "alerts"
SINKS_KEY = "sinks"
WINDOW_S_MIN = 10.0
WINDOW_S_MAX = 86_400.0


@dataclass(frozen=True, slots=True)
class AlertPolicy:
    """The rules in force, and who is told."""

    rules: tuple[Rule, ...]
    sinks: tuple[Sink, ...] = ()


def load_alerts(
    path: str | os.PathLike[str], rules: Sequence[Rule], *, environment: Mapping[str, str] | None = None
) -> AlertPolicy:
    """The rules with the numbers of the file, and its sinks.

    Raises:
        OverlayInvalid: listing everything that is wrong, each with the file, the key, the reason and a remedy.
    """
    place = os.fspath(path)
    known = os.environ if environment is None else environment
    document = read_document(place)
    problems = list(_problems(document, {rule.name: rule for rule in rules}, known))
    if problems:
        raise OverlayInvalid(place, *problems)
    blocks = document.get(RULES_KEY, {})
    sinks = document.get(SINKS_KEY, {})
    return AlertPolicy(
        tuple(_overridden(rule, blocks.get(rule.name, {})) for rule in rules),
        tuple(sink_of(name, block, known) for name, block in sinks.items()),
    )


def _overridden(rule: Rule, block: Mapping[str, Any]) -> Rule:
    changes: dict[str, Any] = {name: block[name] for name in ("for_s", "enabled", "per") if name in block}
    if "threshold" in block:
        changes["above" if rule.above is not None else "below"] = float(block["threshold"])
    if "severity" in block:
        changes["severity"] = Severity(block["severity"])
    measured = {"over_s": block.get("window_s"), "minimum": block.get("minimum")}
    given = {name: float(value) for name, value in measured.items() if value is not None}
    if given:
        changes["what"] = replace(rule.what, **given)  # type: ignore[arg-type]  # checked: this measure has them
    return replace(rule, **changes)


def _problems(document: Any, rules: Mapping[str, Rule], environment: Mapping[str, str]) -> Iterator[Problem]:
    for top in document if isinstance(document, dict) else ():
        if top not in {RULES_KEY, SINKS_KEY}:
            yield Problem(top, "is not known here", f"only {RULES_KEY} and {SINKS_KEY} may stand at the top")
    for name, block in _table(document, RULES_KEY):
        if isinstance(block, Problem):
            yield block
        elif name not in rules:
            yield Problem(f"{RULES_KEY}.{name}", "there is no such rule", _suggestion(name, rules))
        else:
            yield from _rule_problems(f"{RULES_KEY}.{name}", rules[name], block)
    for name, block in _table(document, SINKS_KEY):
        if isinstance(block, Problem):
            yield block
        else:
            yield from sink_problems(f"{SINKS_KEY}.{name}", block, environment)


def _table(document: Any, top: str) -> Iterator[tuple[str, Any]]:
    found = document.get(top, {}) if isinstance(document, dict) else document
    if not isinstance(found, dict):
        yield "", Problem(top, "is not a table", f"write [{top}.NAME]")
        return
    for name, block in found.items():
        if isinstance(block, dict):
            yield name, block
        else:
            yield name, Problem(f"{top}.{name}", "is not a table", f"write [{top}.{name}]")


def _rule_problems(at: str, rule: Rule, block: Mapping[str, Any]) -> Iterator[Problem]:
    for name, value in block.items():
        check = _FIELDS.get(name)
        if check is None:
            yield Problem(f"{at}.{name}", "is not a field of a rule", f"the fields are {', '.join(_FIELDS)}")
            continue
        found = check(rule, value)
        if found:
            yield Problem(f"{at}.{name}", *found)


Found = tuple[str, str] | None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _threshold(rule: Rule, value: Any) -> Found:
    if not _is_number(value) or value < 0:
        return f"{_shown(value)} is not a number from 0 on", "write a number"
    if isinstance(rule.what, Ratio) and value > 1:
        return f"{_shown(value)} is not a share", "write 5 % as 0.05"
    return None


def _for_s(rule: Rule, value: Any) -> Found:  # noqa: ARG001 - all checks are called alike
    if not _is_number(value) or not 0 <= value <= FOR_S_MAX:
        return f"{_shown(value)} is not a number between 0 and {FOR_S_MAX:g}", "write seconds"
    return None


def _window_s(rule: Rule, value: Any) -> Found:
    if isinstance(rule.what, Level):
        return "this rule looks at the moment and has no window", "remove it; for_s says how long it has to last"
    most = rule.what.usual_s / 2 if isinstance(rule.what, Surge) else WINDOW_S_MAX
    if not _is_number(value) or not WINDOW_S_MIN <= value <= most:
        return f"{_shown(value)} is not a number between {WINDOW_S_MIN:g} and {most:g}", "write seconds"
    return None


def _minimum(rule: Rule, value: Any) -> Found:
    if not isinstance(rule.what, Ratio | Surge):
        return "this rule counts every time", "remove it; threshold says from how many on it matters"
    if not _is_number(value) or value < 0:
        return f"{_shown(value)} is not a number from 0 on", "write how often it has to happen in the window"
    return None


def _severity(rule: Rule, value: Any) -> Found:  # noqa: ARG001
    if value not in (Severity.WARNING.value, Severity.CRITICAL.value):
        return f"{_shown(value)} is not a severity", "write warning or critical"
    return None


def _per(rule: Rule, value: Any) -> Found:
    known = sorted(labels_of(rule.what))
    if rule.action is not None:
        return "the action of this rule needs its own label", "remove it"
    if value not in known:
        return (
            f"{_shown(value)} is not a label of what it looks at",
            f"write one of {', '.join(known)}" if known else "remove it",
        )
    return None


def _enabled(rule: Rule, value: Any) -> Found:  # noqa: ARG001
    return None if isinstance(value, bool) else (f"{_shown(value)} is neither true nor false", "write true or false")


_FIELDS: dict[str, Callable[[Rule, Any], Found]] = {
    "threshold": _threshold,
    "for_s": _for_s,
    "window_s": _window_s,
    "minimum": _minimum,
    "severity": _severity,
    "per": _per,
    "enabled": _enabled,
}


def _shown(value: object) -> str:
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    text = repr(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _suggestion(name: str, rules: Mapping[str, Rule]) -> str:
    from difflib import get_close_matches  # only a mistake pays for loading it

    near = get_close_matches(name[:100], list(rules), n=1)
    return f"did you mean {near[0]}?" if near else f"the rules are {', '.join(rules)}"
