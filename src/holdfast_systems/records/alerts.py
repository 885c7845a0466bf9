"""The alert rules of the error model, read from `alerts.yml`: the core's own measures with the thresholds of the file.

A condition is `NAME > NUMBER%` over a `window`, or `NAME > NUMBER in WINDOW`; a window is `5_minutes` or `1_minute`.
The action says how loudly: `slack_alert` is a warning, `page_on_call` is critical, `switch_provider` switches too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import as_file, files
from typing import Any

from holdfast.catalog import Severity
from holdfast.policy.overlay import OverlayInvalid, Problem, read_document
from holdfast.watch.rules import Action, Rule
from holdfast.watch.rules_builtin import RULES
from holdfast.watch.rules_measure import Count, Ratio

FILE = "alerts.yml"
SECONDS = {"second": 1.0, "minute": 60.0, "hour": 3_600.0}
ACTIONS: Mapping[str, tuple[Severity, Action | None]] = {
    "slack_alert": (Severity.WARNING, None),
    "page_on_call": (Severity.CRITICAL, None),
    "switch_provider": (Severity.WARNING, Action.SWITCH_PROVIDER),
}
MEASURES = {
    "error_rate": "high_error_rate",
    "database_errors": "database_errors",
    "external_service_errors": "external_service_down",
}
"""What a condition names, and the core's rule that measures it."""

_CONDITION = re.compile(r"(\w+) > (\d+(?:\.\d+)?)(%?)(?: in (\w+))?\Z")
_WINDOW = re.compile(r"(\d+)_(second|minute|hour)s?\Z")


def load_rules() -> tuple[Rule, ...]:
    """The rules of the file that this system comes with.

    Raises:
        OverlayInvalid: listing everything that is wrong with it.
    """
    with as_file(files("holdfast_systems.records").joinpath(FILE)) as path:
        return read_rules(str(path), read_document(str(path)))


def read_rules(place: str, document: Any) -> tuple[Rule, ...]:
    """The rules that a document declares.

    Raises:
        OverlayInvalid: listing everything that is wrong with it.
    """
    blocks = document.get("alerts") if isinstance(document, dict) else None
    if not isinstance(blocks, dict) or document.keys() != {"alerts"}:
        raise OverlayInvalid(place, Problem("alerts", "is missing or not alone", "put the rules under it, by name"))
    found: list[Rule] = []
    problems: list[Problem] = []
    for name, block in blocks.items():
        try:
            found.append(_rule(name, block))
        except (ValueError, KeyError, TypeError) as wrong:
            problems.append(Problem(f"alerts.{name}", str(wrong), "see the rules that come with this system"))
    if problems:
        raise OverlayInvalid(place, *problems)
    return tuple(found)


def _rule(name: str, block: Mapping[str, str]) -> Rule:
    unknown = block.keys() - {"condition", "window", "action"}
    if unknown:
        raise ValueError(f"{', '.join(sorted(unknown))} is not a field of a rule")
    condition = _CONDITION.match(block["condition"])
    if condition is None or condition[1] not in MEASURES:
        raise ValueError(f"{block['condition']!r} is not a condition on one of {', '.join(MEASURES)}")
    if block["action"] not in ACTIONS:
        raise ValueError(f"{block['action']!r} is none of {', '.join(ACTIONS)}")
    known = next(rule for rule in RULES if rule.name == MEASURES[condition[1]])
    if not isinstance(known.what, Count | Ratio):
        raise ValueError(f"{name} has no window")
    severity, action = ACTIONS[block["action"]]
    threshold = float(condition[2]) / (100 if condition[3] else 1)
    window_s = _seconds(condition[4] or block.get("window", ""))
    what = replace(known.what, over_s=window_s)
    return replace(known, name=name, what=what, above=threshold, severity=severity, action=action)


def _seconds(window: str) -> float:
    found = _WINDOW.match(window)
    if found is None:
        raise ValueError(f"{window!r} is not a window such as 5_minutes")
    return float(found[1]) * SECONDS[found[2]]
