"""Reasoning about policies before they run: drawing them, writing them down for others, and comparing versions."""

from typing import TYPE_CHECKING

from holdfast.analysis.diagrams import DECISION_ORDER, Step, breaker_states, decision_order, schedule
from holdfast.base.lazy import lazily

if TYPE_CHECKING:
    from holdfast.analysis.export import Entry, entries
    from holdfast.analysis.export_diff import Change, Changed, changes
    from holdfast.analysis.export_json import ExportUnreadable, from_json, to_json
    from holdfast.analysis.export_markdown import to_markdown
    from holdfast.analysis.export_openapi import to_openapi
    from holdfast.analysis.export_python import to_python
    from holdfast.analysis.export_typescript import to_typescript

# Exports are made now and then: loaded when first used.
__getattr__ = lazily(
    __name__,
    globals(),
    dict.fromkeys(("Entry", "entries"), "holdfast.analysis.export")
    | dict.fromkeys(("Change", "Changed", "changes"), "holdfast.analysis.export_diff")
    | dict.fromkeys(("ExportUnreadable", "from_json", "to_json"), "holdfast.analysis.export_json")
    | {"to_markdown": "holdfast.analysis.export_markdown", "to_openapi": "holdfast.analysis.export_openapi"}
    | {"to_python": "holdfast.analysis.export_python", "to_typescript": "holdfast.analysis.export_typescript"},
)

__all__ = [
    "DECISION_ORDER",
    "Change",
    "Changed",
    "Entry",
    "ExportUnreadable",
    "Step",
    "breaker_states",
    "changes",
    "decision_order",
    "entries",
    "from_json",
    "schedule",
    "to_json",
    "to_markdown",
    "to_openapi",
    "to_python",
    "to_typescript",
]
