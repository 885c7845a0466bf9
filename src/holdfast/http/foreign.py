"""The error replies that frameworks make by themselves, read from outside: FastAPI, Starlette, Litestar, Flask, Django.

A body that the application wrote on purpose is none of these, and stays as it is; plain text alone cannot be told
from Starlette's own, and counts as a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from holdfast.base import CodecError, decode

HTML_BYTES_MAX = 4_096
"""Default pages are short; a longer one was made by somebody."""

_WERKZEUG = b"<!doctype html>\n<html lang=en>\n<title>%d "
_DJANGO = re.compile(
    rb'\s*<!doctype html>\n<html lang="en">\n<head>\n  <title>[^<]*</title>\n</head>\n<body>\n  <h1>[^<]*</h1><p>'
    rb"[^<]*</p>\n</body>\n</html>\s*\Z"
)


@dataclass(frozen=True, slots=True)
class Foreign:
    """What a framework's reply says: a sentence, and the bad fields of a refused request."""

    message: str | None = None
    errors: tuple[Mapping[str, Any], ...] | None = None
    """As pydantic writes them; None when the reply is not about validation."""


def read_reply(status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> Foreign | None:
    """What a reply with an error status says; None when it is the application's own."""
    known = {name.lower(): value for name, value in headers}
    if b"content-encoding" in known:
        return None
    kind = known.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if not body.strip():
        return Foreign()
    if kind == b"application/json":
        return _json(body)
    if kind == b"text/plain":
        return _text(status, body)
    if kind == b"text/html":
        return _page(status, body)
    return None


def _json(body: bytes) -> Foreign | None:
    try:
        said = decode(body, bytes_max=len(body))
    except CodecError:
        return None
    if not isinstance(said, dict) or "detail" not in said or not said.keys() <= {"detail", "status_code", "extra"}:
        return None
    detail = said["detail"]
    if isinstance(detail, list) and detail and all(_is_pydantic(one) for one in detail):
        return Foreign(errors=tuple(detail))
    extra = said.get("extra")
    if isinstance(extra, list) and extra and all(isinstance(one, dict) and "message" in one for one in extra):
        return Foreign(errors=tuple(_of_litestar(one) for one in extra))
    return Foreign(detail if isinstance(detail, str) else None)


def _is_pydantic(one: object) -> bool:
    return isinstance(one, dict) and isinstance(one.get("loc"), list) and isinstance(one.get("msg"), str)


def _of_litestar(one: Mapping[str, Any]) -> dict[str, Any]:
    message = str(one["message"])
    missing = "missing required" in message.lower()
    place = [str(one["source"])] if one.get("source") else []
    key = str(one.get("key") or "")
    return {"loc": [*place, *([key] if key else [])], "msg": message, "type": "missing" if missing else "invalid"}


def _text(status: int, body: bytes) -> Foreign | None:
    said = body.decode("utf-8", "replace").strip()
    return Foreign(None if said == _phrase(status) else said)


def _page(status: int, body: bytes) -> Foreign | None:
    if len(body) > HTML_BYTES_MAX:
        return None
    return Foreign() if body.startswith(_WERKZEUG % status) or _DJANGO.match(body) else None


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
