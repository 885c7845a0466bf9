"""An upstream's error body, as far as anybody needs it who does not speak its language. Never raises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from holdfast.base import CodecError, decode, limits
from holdfast.base.redaction import redacted_text
from holdfast.catalog.fault import CODE_CHARS_MAX, CODE_SHAPE
from holdfast.catalog.remote import Remote

BODY_BYTES_MAX = 65_536
"""A longer error body is not read for a code."""


class Said(NamedTuple):
    """What an error body says, whatever its shape; nothing in it is trusted."""

    remote: Remote
    details: Mapping[str, Any] = {}
    alone: bool = False
    """Whether the body is an error and nothing else."""


def said_by(body: bytes | None, status: int | None) -> Said:
    """Read an error body of any dialect, or one that is close to one. Never raises."""
    document = _document(body)
    if document is None:
        return Said(Remote(status))
    inner = document.get("error")
    holder = inner if isinstance(inner, dict) else document
    code = _text(holder.get("error_code")) or _text(holder.get("code"))
    message = next((text for text in map(_text, _sentences(holder, inner)) if text), "")
    details = holder.get("details")
    return Said(
        Remote(status, code[:CODE_CHARS_MAX], redacted_text(message[: limits().message_chars_max])),
        details if isinstance(details, dict) else {},
        alone=bool(inner or "error_code" in document) and document.keys() <= _ERROR_MEMBERS,
    )


def is_code(text: str) -> bool:
    """Whether the text could be the code of a fault."""
    return len(text) <= CODE_CHARS_MAX and CODE_SHAPE.match(text) is not None


_ERROR_MEMBERS = frozenset({
    "error", "code", "details", "error_code", "message", "request_id", "timestamp", "retry_after", "documentation_url",
})  # fmt: skip


def _sentences(holder: Mapping[str, Any], inner: object) -> tuple[object, ...]:
    return (holder.get("message"), inner, holder.get("detail"), holder.get("error_description"), holder.get("title"))


def _document(body: bytes | None) -> dict[str, Any] | None:
    if not body or len(body) > BODY_BYTES_MAX:
        return None
    try:
        document = decode(body)
    except CodecError:
        return None
    return document if isinstance(document, dict) else None


def _text(value: object) -> str:
    # Google's APIs say the code as a word, RAGFlow's as a number.
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if value else ""
    return value if isinstance(value, str) else ""
