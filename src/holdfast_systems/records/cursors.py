"""Cursors: where a list goes on, signed, so that nobody can make one up or use one in another list or account."""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode

from holdfast.base import CodecError, Secret, decode, encode
from holdfast_systems.records.fields import problem, refused

CHARS_MAX = 500
MARK_CHARS = 24


class Cursors:
    """Writes and reads cursors with one secret."""

    def __init__(self, secret: Secret) -> None:
        self._secret = secret

    def write(self, place: str, *, of: str) -> str:
        """The cursor that stands for a place in a list; `of` says which list, of whom, with which filters."""
        body = urlsafe_b64encode(encode(place).encode()).decode().rstrip("=")
        return f"{body}.{self._mark(body, of)}"

    def read(self, cursor: str | None, *, of: str) -> str:
        """The place that a cursor stands for; without one, the beginning.

        Raises:
            Failure: VALIDATION_ERROR when it is not one of ours, or is of another list.
        """
        if not cursor:
            return ""
        body, _, mark = cursor.partition(".")
        if len(cursor) <= CHARS_MAX and Secret(self._mark(body, of)).matches(mark):
            try:
                place = decode(urlsafe_b64decode(body + "=" * (-len(body) % 4)))
            except (ValueError, CodecError):
                place = None
            if isinstance(place, str):
                return place
        raise refused([problem("cursor", cursor, "signature", "This cursor is not one that this list has given")])

    def _mark(self, body: str, of: str) -> str:
        said = f"{of}\n{body}".encode("utf-8", "surrogatepass")
        return hmac.digest(self._secret.reveal().encode(), said, "sha256").hex()[:MARK_CHARS]
