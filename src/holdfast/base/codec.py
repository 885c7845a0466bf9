"""JSON in and out: compact, UTF-8, bounded, and closed to secrets."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Set
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime
from enum import Enum
from typing import Any

from holdfast.base.secret import MASK, Private, Secret, SecretLeak
from holdfast.base.world import limits

Json = Any
"""What JSON can say: None, bool, int, float, str, list of Json, dict of str to Json."""


class CodecError(ValueError):
    """The text is not JSON that we accept; `reason` is a word a program can compare."""

    def __init__(self, reason: str, explanation: str) -> None:
        super().__init__(explanation)
        self.reason = reason


def encode(value: object) -> str:
    """Compact JSON text.

    Raises:
        SecretLeak: the value holds a `Secret`.
        TypeError: the value holds something JSON cannot say.
    """
    return _ENCODER.encode(value)


def canonical(value: object) -> str:
    """JSON text that is equal for equal values: keys sorted, no spaces."""
    return _CANONICAL.encode(value)


def digest(value: object) -> str:
    """SHA-256 of the canonical text, in hex."""
    import hashlib  # loaded when first needed: it maps the crypto library

    return hashlib.sha256(canonical(value).encode()).hexdigest()


def decode(text: str | bytes, *, bytes_max: int | None = None, depth_max: int | None = None) -> Json:
    """Parse JSON from outside: bounded in size and depth, duplicate keys and NaN refused.

    Raises:
        CodecError: with reason `too_large`, `not_utf8`, `too_deep`, `duplicate_key`, `not_a_number` or `syntax`.
    """
    bound = limits()
    _check_size(text, bound.json_bytes_max if bytes_max is None else bytes_max)
    if isinstance(text, bytes):
        try:
            text = text.decode()
        except UnicodeDecodeError as broken:
            raise CodecError("not_utf8", f"byte {broken.start} is not UTF-8") from None
    _check_depth(text, bound.json_depth_max if depth_max is None else depth_max)
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as broken:
        raise CodecError("syntax", f"{broken.msg} at line {broken.lineno} column {broken.colno}") from None
    except RecursionError:
        raise CodecError("too_deep", "nested too deeply") from None


def plain(value: object, depth: int = 0) -> Json:
    """Any value as JSON can say it, for logs and error bodies: never raises, shows no `Secret`, drops `Private`."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    if isinstance(value, Secret):
        return MASK
    if depth >= limits().json_depth_max:
        return "…"
    if isinstance(value, Mapping):
        return {str(key): plain(item, depth + 1) for key, item in value.items() if not isinstance(item, Private)}
    if isinstance(value, list | tuple | Set):
        return [plain(item, depth + 1) for item in value if not isinstance(item, Private)]
    try:
        return plain(_default(value), depth + 1)
    except TypeError:
        return f"<{type(value).__name__}>"


def utc_text(wall_us: int) -> str:
    """Microseconds since 1970 as ISO 8601 in UTC: `2024-08-28T15:30:00Z`, with a fraction only where there is one."""
    moment = datetime.fromtimestamp(wall_us // 1_000_000, UTC).replace(microsecond=wall_us % 1_000_000)
    return moment.isoformat().replace("+00:00", "Z")


def _default(value: object) -> object:
    if isinstance(value, Secret):
        raise SecretLeak
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if any(kind.__name__ in _AS_TEXT for kind in type(value).__mro__):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Set):
        return sorted(value, key=str)
    if is_dataclass(value) and not isinstance(value, type | Private):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    raise TypeError(f"{type(value).__name__} has no JSON form")


# By name, so that the modules that define them are loaded by whoever uses them.
_AS_TEXT = frozenset({"UUID", "Decimal", "PurePath"})


_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_BRACKET = re.compile(r"[][{}]")


def _check_size(text: str | bytes, bytes_max: int) -> None:
    # A str has at most four bytes a character, so only long ones need the exact count.
    size = len(text)
    if isinstance(text, str) and size * 4 > bytes_max >= size:
        size = len(text.encode("utf-8", "surrogatepass"))
    if size > bytes_max:
        raise CodecError("too_large", f"{size} bytes where {bytes_max} are allowed")


def _check_depth(text: str, depth_max: int) -> None:
    # Cheap bound first: fewer opening brackets than the limit can never nest too deep.
    if text.count("[") + text.count("{") <= depth_max:
        return
    depth = 0
    for bracket in _BRACKET.findall(_STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        if depth > depth_max:
            raise CodecError("too_deep", f"nested deeper than {depth_max} levels")


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise CodecError("duplicate_key", f"the key {twice!r} stands twice in one object")
    return result


def _no_constant(name: str) -> Json:
    raise CodecError("not_a_number", f"{name} is not JSON")


_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_default)
_CANONICAL = json.JSONEncoder(
    separators=(",", ":"), ensure_ascii=False, allow_nan=False, sort_keys=True, default=_default
)
_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)
