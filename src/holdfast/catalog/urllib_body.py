"""The body of urllib's HTTPError, read for its code and put back for the caller."""

from __future__ import annotations

from http.client import HTTPException
from io import BytesIO
from typing import Any

from holdfast.catalog.error_body import BODY_BYTES_MAX


def peeked(error: Any) -> bytes | None:
    """The whole body where its length is known and small; code that reads the error afterwards still finds it there."""
    length = (error.headers or {}).get("Content-Length", "")
    if not length.isdecimal() or int(length[:10]) > BODY_BYTES_MAX or error.fp is None:
        return None
    try:
        body: bytes = error.fp.read()
    except (OSError, HTTPException, ValueError):
        body = b""
    # The error hands out methods of its file, and keeps those that were asked for.
    error.fp = error.file = BytesIO(body)
    for name in ("read", "readline", "readlines", "readinto"):
        error.__dict__.pop(name, None)
    return body
