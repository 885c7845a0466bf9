"""Payloads and messages as they may be shown: bounded, and without what its name or its look gives away as a secret."""

from __future__ import annotations

import json

from holdfast.base import MASK, Json
from holdfast.base.formatting import MORE, cut
from holdfast.watch.redact import is_secret, redacted_text

SHOWN_CHARS_MAX = 20_000


def shown(stored: str | None) -> str:
    """Stored JSON on many lines, with `***` for secrets; what is too long is cut."""
    if stored is None:
        return ""
    try:
        text = json.dumps(masked(json.loads(stored)), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return "This is no JSON that can be shown."
    if len(text) <= SHOWN_CHARS_MAX:
        return text
    return f"{text[:SHOWN_CHARS_MAX]}\n{MORE} cut after {SHOWN_CHARS_MAX:,} characters"


def said(text: str | None, chars_max: int) -> str:
    """A message or a reason: what a failed call reports may hold the address or the header that it was made with."""
    return cut(redacted_text(text), chars_max) if text else ""


def masked(value: Json) -> Json:
    """The value with `***` for secrets. Unlike a log, a page shows bodies: the operator came to read them."""
    if isinstance(value, dict):
        return {redacted_text(name): _field(name, item) for name, item in value.items()}
    if isinstance(value, list):
        return [masked(item) for item in value]
    return redacted_text(value) if isinstance(value, str) else value


def _field(name: str, value: Json) -> Json:
    return MASK if is_secret(name, value) else masked(value)
