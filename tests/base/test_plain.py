"""Whatever a detail is, it can be written into a log and an error body."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.base import Limits, World, decode, encode, plain, replaced

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
JSONS = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=20)


def holding_itself() -> list[Any]:
    endless: list[Any] = []
    endless.append(endless)
    return endless


class Unspeakable:
    """Fails at everything that anybody may ask of it."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class Shy:
    """Like a proxy outside of its request: it does not even tell its class."""

    @property
    def __class__(self) -> Any:
        raise RuntimeError("no class")


class Broken(Mapping[str, int]):
    def __getitem__(self, key: str) -> int:
        raise OSError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(("a",))

    def __len__(self) -> int:
        return 1


class Endless(Mapping[str, object]):
    def __getitem__(self, key: str) -> object:
        return Endless()

    def __iter__(self) -> Iterator[str]:
        while True:
            yield "a"

    def __len__(self) -> int:
        return 1


class EvilText(str):
    def __str__(self) -> str:
        raise RuntimeError

    def isascii(self) -> bool:
        raise RuntimeError


@dataclass
class Unfinished:
    name: str = field(init=False)


class FailingUUID(UUID):
    def __str__(self) -> str:
        raise RuntimeError


ODDITIES = [
    Unspeakable(),
    Shy(),
    Broken(),
    Endless(),
    EvilText("evil"),
    Unfinished(),
    FailingUUID(int=1),
    object(),
    Unspeakable,
    b"\xff",
    "\ud800",
    10**5_000,
    -(10**5_000),
    float("nan"),
    float("-inf"),
    1j,
    holding_itself(),
    (letter for letter in "abc"),
    MappingProxyType({"a": Unspeakable()}),
    ValueError("x"),
]


@pytest.mark.parametrize("number", range(len(ODDITIES)))
@pytest.mark.parametrize("wrap", [lambda odd: odd, lambda odd: [odd, odd], lambda odd: {"a": {"b": (odd,)}}])
def test_plain_says_something_that_can_be_encoded_about_any_oddity(number: int, wrap: Any) -> None:
    decode(encode(plain(wrap(ODDITIES[number]))), bytes_max=10**9, depth_max=100)


# By number: even the test tools cannot print some of them.
ODD = st.integers(0, len(ODDITIES) - 1).map(lambda number: ODDITIES[number])


@given(
    st.recursive(
        SCALARS | st.text() | st.floats() | st.binary() | ODD | st.datetimes() | st.decimals(),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.tuples(inner, inner)
            | st.dictionaries(st.text() | st.none() | st.tuples(st.integers()), inner, max_size=4)
            | inner.map(lambda value: {Unspeakable(): value})
        ),
        max_leaves=8,
    )
)
def test_plain_never_raises_and_always_gives_json(value: object) -> None:
    with replaced(World(limits=Limits(plain_items_max=50))):
        said = plain(value)
    json.dumps(said, allow_nan=False, ensure_ascii=False).encode()


@given(JSONS)
def test_plain_leaves_json_as_it_is(value: Any) -> None:
    assert plain(value) == value


def test_a_container_that_holds_itself_is_cut_where_it_begins_again() -> None:
    knot: dict[str, Any] = {"name": "knot"}
    knot["self"] = knot
    knot["also"] = [knot, {"deep": knot}]
    assert plain(knot) == {"name": "knot", "self": "…", "also": ["…", {"deep": "…"}]}


def test_a_value_that_stands_in_two_places_is_said_twice() -> None:
    shared = [1]
    assert plain({"a": shared, "b": shared}) == {"a": [1], "b": [1]}


def test_a_value_that_doubles_at_every_level_is_cut() -> None:
    doubling: Any = "x"
    for _ in range(60):
        doubling = [doubling, doubling]
    with replaced(World(limits=Limits(plain_items_max=1_000))):
        assert len(encode(plain(doubling))) < 20_000


def test_what_is_too_deep_or_too_much_becomes_an_ellipsis() -> None:
    with replaced(World(limits=Limits(json_depth_max=2))):
        assert plain([[["deep"]], "flat"]) == [["…"], "flat"]
    with replaced(World(limits=Limits(plain_items_max=4))):
        assert plain(list(range(1_000))) == [0, 1, 2, "…"]
        assert plain(dict.fromkeys("abcdefgh", 1)) == {"a": 1, "b": 1, "c": 1, "…": "…"}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (10**5_000, "<int>"),
        (2**64, 2**64),
        ("a\ud800b", "a?b"),
        (b"bytes", "<bytes>"),
        (Unspeakable(), "<Unspeakable>"),
        ({Unspeakable(): 1, 2: 3, None: 4}, {"<Unspeakable>": 1, "2": 3, "None": 4}),
        ({"c", "a", "b"}, ["a", "b", "c"]),
        (True, True),
    ],
    ids=range(10),
)
def test_plain_forms(value: object, said: object) -> None:
    assert plain(value) == said
