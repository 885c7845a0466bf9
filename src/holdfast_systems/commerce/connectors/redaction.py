"""Takes the literal secret out of what a tool answered, in the forms in which it may be echoed. Pure."""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode
from urllib.parse import quote, quote_plus

from holdfast.base import MASK, Json, Secret

PARTS_MAX = 200_000
"""An answer has fewer values than this: its size was bounded when it was received."""


def masked(answer: Json, secret: Secret | None) -> Json:
    """The answer without the secret, in keys and values."""
    if not secret:
        return answer
    return _masked(answer, _forms(secret.reveal()))


def holds(text: str, secret: Secret | None) -> bool:
    """Whether a text holds the secret in one of its forms."""
    return bool(secret) and any(form in text for form in _forms(secret.reveal() if secret else ""))


def _masked(value: Json, forms: tuple[str, ...]) -> Json:
    if isinstance(value, str):
        for form in forms:
            value = value.replace(form, MASK)
        return value
    if isinstance(value, dict):
        return {str(_masked(name, forms)): _masked(one, forms) for name, one in value.items()}
    if isinstance(value, list):
        return [_masked(one, forms) for one in value]
    return value


def _forms(secret: str) -> tuple[str, ...]:
    """The secret as it is, percent-encoded, and in base64; the longest first, so that none leaves a part behind."""
    encoded = secret.encode()
    found = {secret, quote(secret, safe=""), quote_plus(secret)}
    for code in (b64encode, urlsafe_b64encode):
        whole = code(encoded).decode()
        found |= {whole, whole.rstrip("=")}
    return tuple(sorted(found, key=len, reverse=True))
