"""Cursors: where a list goes on, signed, so that nobody can make one up or use one in another list."""

from __future__ import annotations

import hmac

from holdfast.base import Secret
from holdfast_systems.commerce.faults import INVALID_REQUEST

CHARS_MAX = 200
MARK_CHARS = 24


class Cursors:
    """Writes and reads cursors with one secret."""

    def __init__(self, secret: Secret) -> None:
        self._secret = secret

    def write(self, place: str, *, of: str) -> str:
        """The cursor that stands for a place in a list; `of` says which list."""
        return f"{place}.{self._mark(place, of)}"

    def read(self, cursor: str | None, *, of: str) -> str:
        """The place that a cursor stands for; without one, the beginning.

        Raises:
            Failure: INVALID_REQUEST when this list has not given it.
        """
        if not cursor:
            return ""
        place, _, mark = cursor.rpartition(".")
        if len(cursor) > CHARS_MAX or not Secret(self._mark(place, of)).matches(mark):
            raise INVALID_REQUEST("This cursor is not one that this list has given.", field="cursor")
        return place

    def _mark(self, place: str, of: str) -> str:
        said = f"{of}\n{place}".encode("utf-8", "surrogatepass")
        return hmac.digest(self._secret.reveal().encode(), said, "sha256").hex()[:MARK_CHARS]
