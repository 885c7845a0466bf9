"""Nothing secret in a log: masked by type, by the name of the field, and by what secrets look like.

Always true: it ends, it raises nothing, and a `Secret`, a `Private` and a body never come out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from holdfast.base import MASK, Json, Private, plain

TEXT_CHARS_MAX = 8_192
"""A longer text is cut; a technical reason with its trace of calls fits."""
CUT = "…"

_SECRET_FIELD = re.compile(
    r"(?:^|[_. -])(?:authorization|cookie|password|passwd|passphrase|passcode|pwd|pin|otp|cvv|cvc|secrets?|jwt"
    r"|(?:api|access|private|signing|secret|encryption|master|license)[_-]?key|credentials?|tokens?|signature"
    r"|session[_-]?id|(?:api|auth|access|refresh|bearer|session|csrf|id)token)(?:[_-]?(?:hash|value|text|raw))?\Z",
    re.IGNORECASE,
)
_COUNTED = re.compile(r"(?i:tokens?)\Z")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
BODY_FIELDS = frozenset({
    "body", "payload", "result", "request_body", "response_body", "received", "content", "headers",
})  # fmt: skip
"""What others sent us or we send them: its size is told, not what it says."""

# Each is linear in the text: no pattern has two ways to match the same characters.
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*(?:-----END [A-Z ]*PRIVATE KEY-----)?"), MASK),
    (
        re.compile(r"(?i)\b((?:proxy-)?authorization|cookie|set-cookie|x-api-key)(['\"]?\s*[:=]\s*)[^\r\n]*"),
        rf"\1\2{MASK}",
    ),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}"), rf"\1 {MASK}"),
    (re.compile(r"\bwhs(ec|k|pk)_[A-Za-z0-9+/=_-]+"), rf"whs\1_{MASK}"),
    (re.compile(r"\b((?:sk|rk|pk)[-_](?:live_|test_|proj-|ant-)?)[A-Za-z0-9_-]{8,}"), rf"\1{MASK}"),
    (re.compile(r"\b(gh[pousr]_|github_pat_|xox[abprs]-|glpat-|hvs\.|AIza|ya29\.)[A-Za-z0-9._-]{8,}"), rf"\1{MASK}"),
    (re.compile(r"\b(AKIA|ASIA)[0-9A-Z]{16}\b"), rf"\1{MASK}"),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?"), MASK),
    (re.compile(r"(?<=://)([^\s/:@]*):[^\s/@]*@"), rf"\1:{MASK}@"),
    (
        re.compile(
            r"(?i)((?:password|passwd|passphrase|pwd|secret|token|signature|api[_-]?key|access[_-]?key|client[_-]?secret)"
            r"['\"]?\s*[=:]\s*['\"]?)(?!\*\*\*)[^\s'\"&;,)}\]]+"
        ),
        rf"\1{MASK}",
    ),
    (re.compile(r"(?i)(\bkey['\"]?\s*[=:]\s*['\"]?)[0-9a-z+/_=-]{16,}"), rf"\1{MASK}"),
)


def is_secret(name: str, value: object) -> bool:
    """Whether a field has a name whose value is never shown, as `db_password`, `webhook-secret` or `accessToken`.

    Yes and no give nothing away, and numbers called `token` are counts.
    """
    if isinstance(value, bool) or (isinstance(value, int | float) and _COUNTED.search(name)):
        return False
    return _SECRET_FIELD.search(_HUMP.sub("_", name)) is not None


def redacted_text(text: str) -> str:
    """The text with everything that looks like a secret masked, cut where it is too long."""
    if len(text) > TEXT_CHARS_MAX:
        text = text[:TEXT_CHARS_MAX] + CUT
    for pattern, mask in _PATTERNS:
        text = pattern.sub(mask, text)
    return text


def redacted(facts: Mapping[str, Any]) -> dict[str, Json]:
    """Facts as a log may show them; what has no value is left out."""
    return {
        str(name): _field(str(name), value)
        for name, value in facts.items()
        if value is not None and type(value) is not Private
    }


def _field(name: str, value: Any) -> Json:
    if name.lower() in BODY_FIELDS:
        return _size(value)
    return MASK if is_secret(name, value) else _said(plain(value))


def _said(value: Json) -> Json:
    if isinstance(value, str):
        return redacted_text(value)
    if isinstance(value, dict):
        return {redacted_text(name): _field(name, item) for name, item in value.items()}
    if isinstance(value, list):
        return [_said(item) for item in value]
    return value


def _size(value: Any) -> str:
    if isinstance(value, str | bytes | bytearray):
        return f"<{len(value)} {'characters' if isinstance(value, str) else 'bytes'}>"
    return f"<{type(value).__name__}>"
