"""Validation errors of any framework, told in one way: every bad field, what was wrong with it, and no secret."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from holdfast.base import encode, is_secret, plain
from holdfast.catalog.dialect import Dialect

ENTRIES_BYTES_MAX = 12_000
"""All entries together stay below the limit of details; `total_errors` counts those that found no room, too."""
TEXT_CHARS_MAX = 200
REQUIRED = "required"

_PLACES = frozenset({"body", "query", "path", "header", "cookie", "form"})
# What pydantic calls it, and what a reader of the body calls it; the first word that fits.
_CONSTRAINTS = (
    (re.compile(r"missing"), REQUIRED),
    (re.compile(r"extra_forbidden|unexpected"), "unknown_field"),
    (re.compile(r"pattern"), "pattern"),
    (re.compile(r"too_short|min_length"), "min_length"),
    (re.compile(r"too_long|max_length"), "max_length"),
    (re.compile(r"greater_than"), "minimum"),
    (re.compile(r"less_than"), "maximum"),
    (re.compile(r"multiple_of"), "multiple_of"),
    (re.compile(r"enum|literal"), "enum"),
    (re.compile(r"url|uuid|date|time|email|value_error|assertion_error"), "format"),
    (re.compile(r"_type$|_parsing|_from_"), "type"),
)
_OWN_WORDS = frozenset({"value_error", "assertion_error"})


def entry(error: Mapping[str, Any]) -> dict[str, Any]:
    """One error of pydantic (`loc`, `type`, `msg`, `input`) as details list it."""
    kind = str(error.get("type", ""))
    field = _field(error.get("loc", ()))
    constraint = next((word for shape, word in _CONSTRAINTS if shape.search(kind)), kind[:TEXT_CHARS_MAX] or "valid")
    hidden = is_secret(field)
    message = str(error.get("msg", ""))[:TEXT_CHARS_MAX]
    if hidden and kind in _OWN_WORDS:
        message = "Value is not acceptable"  # a validator's own words may quote the value
    told = {"field": field, "constraint": constraint, "message": message}
    value = error.get("input")
    # A container shows its neighbours, and what is missing has no value.
    if hidden or constraint == REQUIRED or not isinstance(value, str | int | float | bool | None):
        return told
    shown = plain(value[:TEXT_CHARS_MAX] if isinstance(value, str) else value)
    return {"field": field, "value": shown, "constraint": constraint, "message": message}


def told(entries: Sequence[Mapping[str, Any]], dialect: Dialect) -> tuple[str | None, dict[str, Any]]:
    """The message, where the dialect has one of its own, and the details: all bad fields, in order."""
    details: dict[str, Any] = {"errors": _fitting(entries), "total_errors": len(entries)}
    if dialect is not Dialect.FLAT or not entries:
        return None, details
    first = entries[0]
    missing = first["constraint"] == REQUIRED
    message = f"Missing required field: {first['field']}" if missing else f"{first['field']}: {first['message']}"
    # Braces would be taken for the names of details.
    return message.replace("{", "(").replace("}", ")"), {
        "field": first["field"],
        "reason": first["constraint"],
        **details,
    }


def _field(location: Iterable[object]) -> str:
    parts = [str(part) for part in location]
    if len(parts) > 1 and parts[0] in _PLACES:
        parts = parts[1:]
    return ".".join(parts)[:TEXT_CHARS_MAX]


def _fitting(entries: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    kept: list[Mapping[str, Any]] = []
    used = 0
    for one in entries:
        used += len(encode(plain(one)).encode())
        if used > ENTRIES_BYTES_MAX:
            break
        kept.append(one)
    return kept
