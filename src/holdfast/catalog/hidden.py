"""Details without their secrets: masked by the name of a field and by the look of a text; everything else as it was."""

from __future__ import annotations

from holdfast.base import Json
from holdfast.base.redaction import is_secret, redacted_text
from holdfast.base.secret import MASK

_NAMED_BY = ("field", "name", "key", "header")
"""What a document calls the field whose `value` it gives, as lists of bad fields do."""


def without_secrets(value: Json) -> Json:
    """The value as an error body may show it."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list):
        return [without_secrets(item) for item in value]
    if not isinstance(value, dict):
        return value
    named = next((text for name in _NAMED_BY if isinstance(text := value.get(name), str)), "")
    return {
        name: MASK if is_secret(named if name == "value" and named else name, item) else without_secrets(item)
        for name, item in value.items()
    }


def _text(text: str) -> str:
    hidden = redacted_text(text)
    # The redactor also makes lines out of texts; a body has to say what was said, unless there is a secret in it.
    return hidden if hidden.count(MASK) > text.count(MASK) else text
