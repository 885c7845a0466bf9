"""Values and facts as they may be shown: plain JSON with `***` for every secret, by type, by name and by look."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from holdfast.base.plain import plain
from holdfast.base.redaction.names import is_header, is_secret
from holdfast.base.redaction.texts import CUT, redacted_text
from holdfast.base.secret import MASK, Private

if TYPE_CHECKING:
    from holdfast.base.codec import Json

BODY_FIELDS = frozenset({
    "body", "payload", "result", "request_body", "response_body", "received", "content", "headers",
})  # fmt: skip
"""What others sent us or we send them: a log tells its size, not what it says."""
JSON_CHARS_MAX = 20_000
_NAMED_BY = ("name", "key", "field", "header")
"""A document that names a field and gives its `value`, as lists of headers and of bad fields do."""
_PAIR = 2


def redacted(value: object) -> Json:
    """Any value as an operator may see it; bodies are shown, because the operator came to read them."""
    return _shown(plain(value))


def redacted_json(stored: str | None, *, chars_max: int = JSON_CHARS_MAX, indent: int | None = 2) -> str:
    """Stored JSON as an operator may read it, cut where it is too long."""
    if stored is None:
        return ""
    try:
        text = json.dumps(redacted(json.loads(stored)), indent=indent, ensure_ascii=False)
    except (ValueError, RecursionError):
        return "This is not JSON that can be shown."
    if len(text) <= chars_max:
        return text
    return f"{text[:chars_max]}\n{CUT} cut after {chars_max:,} characters" if indent else text[: chars_max - 1] + CUT


def redacted_facts(facts: Mapping[str, Any]) -> dict[str, Json]:
    """Facts as a log may show them: what has no value is left out, and a body is told by its size."""
    return {
        redacted_text(str(name)): _fact(str(name), value)
        for name, value in facts.items()
        if value is not None and type(value) is not Private
    }


def _fact(name: str, value: Any) -> Json:
    if name.lower() in BODY_FIELDS:
        return _size(value)
    if is_secret(name, value):
        return MASK
    value = plain(value)
    if isinstance(value, dict):
        return {redacted_text(key): _fact(key, item) for key, item in value.items()}
    return _shown(value)


def _shown(value: Json) -> Json:
    if isinstance(value, str):
        return redacted_text(value)
    if isinstance(value, dict):
        named = next((value[key] for key in _NAMED_BY if isinstance(value.get(key), str)), "")
        return {
            redacted_text(key): MASK
            if is_secret(key, item) or (key == "value" and is_secret(named, item))
            else _shown(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        if len(value) == _PAIR and isinstance(value[0], str) and is_header(value[0]):
            return [redacted_text(value[0]), MASK]
        return [_shown(item) for item in value]
    return value


def _size(value: Any) -> str:
    if isinstance(value, str | bytes | bytearray):
        return f"<{len(value)} {'characters' if isinstance(value, str) else 'bytes'}>"
    return f"<{type(value).__name__}>"
