"""What JSON can say: the one rule by which payloads, results, events and bodies become JSON, and what is refused.

`None`, `bool`, `int`, finite `float`, `str`, `list`, `tuple` and `dict` with keys that are text are JSON as they are; a
tuple comes back as a list. A `datetime` or `date` becomes ISO 8601 text, a `UUID`, `Decimal` or path its text, an
`Enum` its value, a set a sorted list, a dataclass an object. Everything else is refused by name: keys that are not
text, which JSON would change silently, `NaN` and infinities, bytes, half a surrogate pair, a `Secret`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from math import isfinite

PLACES_MAX = 100_000
"""Maximum number of values that are examined to find the one that has no JSON form."""

_SCALARS = frozenset({str, int, float, bool, type(None)})
_REMEDIES = {
    "bytes": "write base64 text, or store it as an artifact",
    "bytearray": "write base64 text, or store it as an artifact",
    "timedelta": "write its seconds",
    "complex": "write its parts",
}


def refuse_keys(value: object, json_form: Callable[[object], object]) -> None:
    """Refuse keys that are not text; the value is known to have a JSON form.

    Raises:
        TypeError: with the key and its place.
    """
    kind = type(value)
    if kind is dict or isinstance(value, dict):
        for key, item in value.items():  # type: ignore[attr-defined]
            if type(key) is not str and not isinstance(key, str):
                raise TypeError(f"the key {key!r} is not text, and JSON would change it; write {str(key)!r}")
            if type(item) not in _SCALARS:
                refuse_keys(item, json_form)
    elif kind is list or isinstance(value, list | tuple | Set):
        for item in value:  # type: ignore[attr-defined]
            if type(item) not in _SCALARS:
                refuse_keys(item, json_form)
    elif kind not in _SCALARS and not isinstance(value, str | int | float):
        refuse_keys(json_form(value), json_form)


def explained(value: object, error: BaseException, json_form: Callable[[object], object]) -> str:
    """Why a value has no JSON form, with the place where it has none: `lines[2].photo is bytes; write base64 text`."""
    try:
        for place, item in _walk(value):
            if (why := _unsayable(item, json_form)) is not None:
                return f"{place} {why}" if place else f"it {why}"
    except Exception:  # noqa: BLE001 - the value's own code may raise anything; what was told first is enough
        return str(error)
    return str(error)


def _walk(value: object) -> Iterator[tuple[str, object]]:
    waiting: list[tuple[str, object]] = [("", value)]
    for _ in range(PLACES_MAX):
        if not waiting:
            return
        place, item = waiting.pop()
        yield place, item
        if isinstance(item, dict):
            inside = [(f"{place}.{key}" if place else str(key), one) for key, one in item.items()]
            waiting += reversed(inside)
        elif isinstance(item, list | tuple | Set):
            waiting += reversed([(f"{place}[{number}]", one) for number, one in enumerate(item)])


def _unsayable(item: object, json_form: Callable[[object], object]) -> str | None:
    if isinstance(item, float) and not isfinite(item):
        return f"is {item}, which JSON cannot say; write None"
    if isinstance(item, str):
        return None if item == item.encode("utf-8", "replace").decode() else "holds half a surrogate pair"
    if isinstance(item, int | float | dict | list | tuple | Set | None):
        return None
    try:
        json_form(item)
    except TypeError:
        name = type(item).__name__
        return f"is {name}, which has no JSON form; {_REMEDIES.get(name, 'convert it first')}"
    return None
