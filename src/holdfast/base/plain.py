"""Any value as JSON can say it, for logs and error bodies.

Always true: it ends, it raises nothing, it shows no `Secret`, and what comes out can be encoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from math import isfinite
from typing import TYPE_CHECKING

from holdfast.base.secret import MASK, Private, Secret
from holdfast.base.world import limits

if TYPE_CHECKING:
    from holdfast.base.codec import Json

MORE = "…"
INT_BITS_MAX = 2_048
"""Longer whole numbers may be refused by the interpreter when it writes them in decimal."""


def plain(value: object, depth: int = 0) -> Json:
    """Any value as JSON can say it: `Private` is left out; what is too deep, too much or holds itself becomes `…`."""
    bound = limits()
    return _Walk(bound.json_depth_max, bound.plain_items_max).say(value, depth)


class _Walk:
    """One walk through a value: how much may still be said, and inside which containers it stands."""

    __slots__ = ("depth_max", "inside", "left")

    def __init__(self, depth_max: int, items_max: int) -> None:
        self.depth_max = depth_max
        self.left = items_max
        self.inside: set[int] = set()

    def say(self, value: object, depth: int) -> Json:
        self.left -= 1
        try:
            if value is None or isinstance(value, str | int | float):
                return _scalar(value)
            if isinstance(value, Secret):
                return MASK
            if depth >= self.depth_max or id(value) in self.inside:
                return MORE
            self.inside.add(id(value))
            try:
                return self._contents(value, depth + 1)
            finally:
                self.inside.discard(id(value))
        except Exception:  # noqa: BLE001 - a log line or an error body must not fail because of what it reports
            return f"<{type(value).__name__}>"

    def _contents(self, value: object, depth: int) -> Json:
        if isinstance(value, Mapping):
            return self._object(value.items(), depth)
        if isinstance(value, list | tuple):
            return self._array(value, depth)
        if isinstance(value, Set):
            return sorted(self._array(value, depth), key=lambda said: (str(said), type(said).__name__))
        from holdfast.base.codec import json_form  # loaded by the first value that JSON does not know

        return self.say(json_form(value), depth)

    def _object(self, items: Iterable[tuple[object, object]], depth: int) -> dict[str, Json]:
        said: dict[str, Json] = {}
        for key, item in items:
            if self.left <= 0:
                said[MORE] = MORE
                break
            if type(item) is Private or type(key) is Private:
                self.left -= 1
            else:
                said[_key(key)] = self.say(item, depth)
        return said

    def _array(self, items: Iterable[object], depth: int) -> list[Json]:
        said: list[Json] = []
        for item in items:
            if self.left <= 0:
                said.append(MORE)
                break
            if type(item) is Private:
                self.left -= 1
            else:
                said.append(self.say(item, depth))
        return said


def _scalar(value: str | int | float | None) -> Json:
    # Asked of the built-in type, because a subclass may answer otherwise.
    if isinstance(value, str):
        return value if str.isascii(value) else str.encode(value, "utf-8", "replace").decode()
    if isinstance(value, int):
        return value if int.bit_length(value) <= INT_BITS_MAX else "<int>"
    return value if value is None or isfinite(value) else str(value)


def _key(key: object) -> str:
    try:
        return str(_scalar(key if isinstance(key, str) else str(key)))
    except Exception:  # noqa: BLE001 - as above
        return f"<{type(key).__name__}>"
