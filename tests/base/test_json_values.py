"""One rule for JSON: what it can say is kept, what has a documented form is converted, everything else is refused."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import pytest

from holdfast.base.codec import canonical, encode, why_no_json


class Size(Enum):
    LARGE = "l"


@dataclass
class Line:
    sku: str
    at: date


CONVERTED: dict[str, tuple[Any, Any]] = {
    "a tuple": ((1, 2), [1, 2]),
    "a set": ({3, 1, 2}, [1, 2, 3]),
    "a Decimal": (Decimal("1.10"), "1.10"),
    "a datetime": (datetime(2024, 8, 28, 15, 30, tzinfo=UTC), "2024-08-28T15:30:00Z"),
    "a date": (date(2024, 8, 28), "2024-08-28"),
    "a UUID": (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
    "a path": (PurePosixPath("/a/b"), "/a/b"),
    "an Enum": (Size.LARGE, "l"),
    "a dataclass": (Line("x", date(2024, 1, 2)), {"sku": "x", "at": "2024-01-02"}),
}


@pytest.mark.parametrize("name", list(CONVERTED))
def test_what_has_a_documented_form_becomes_it(name: str) -> None:
    given, wanted = CONVERTED[name]
    assert json.loads(encode({"value": [given]})) == {"value": [wanted]}


REFUSED: dict[str, tuple[Any, str]] = {
    "a key that is a number": ({1: 2}, "the key 1 is not text, and JSON would change it; write '1'"),
    "a key that is None": ({"a": [{None: 1}]}, "the key None is not text"),
    "a key deep inside": ({"a": ({"b": {True: 1}},)}, "the key True is not text"),
    "bytes": ({"a": [1, {"photo": b"x"}]}, "a[1].photo is bytes, which has no JSON form; write base64 text"),
    "NaN": ({"a": float("nan")}, "a is nan, which JSON cannot say; write None"),
    "infinity": ([1.0, float("inf")], "[1] is inf"),
    "a timedelta": ({"t": timedelta(1)}, "t is timedelta, which has no JSON form; write its seconds"),
    "an object": (object(), "it is object, which has no JSON form; convert it first"),
    "half a pair": ({"a": "\ud800"}, "a holds half a surrogate pair"),
}


@pytest.mark.parametrize("write", [encode, canonical])
@pytest.mark.parametrize("name", list(REFUSED))
def test_what_json_would_change_or_cannot_say_is_refused_with_its_place(name: str, write: Any) -> None:
    given, told = REFUSED[name]
    with pytest.raises((TypeError, ValueError)) as refused:
        write(given)
    assert told in why_no_json(given, refused.value)
