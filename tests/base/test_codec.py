"""JSON in: bounded and strict, one kind of refusal. JSON out: compact, UTF-8, closed to secrets."""

from __future__ import annotations

import json
import pickle
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.base import (
    CodecError,
    Limits,
    World,
    canonical,
    decode,
    digest,
    encode,
    plain,
    replaced,
    utc_text,
)
from holdfast.base.codec import canonical_json, canonical_list

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
JSONS = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=20)


def brief(value: object) -> str:
    """A name for a case that may be huge, or no text at all."""
    return ascii(value)[:30] if isinstance(value, str | bytes) else type(value).__name__


def reason(text: str | bytes, **bounds: int) -> str:
    with pytest.raises(CodecError) as refused:
        decode(text, **bounds)
    assert str(refused.value)
    return refused.value.reason


# -- round trips ------------------------------------------------------------------------------------------------


@given(JSONS)
def test_what_was_encoded_is_decoded_to_the_same(value: Any) -> None:
    assert decode(encode(value)) == value
    assert decode(encode(value).encode()) == value
    assert decode(canonical(value)) == value


@given(st.dictionaries(TEXTS, JSONS, max_size=5))
def test_the_canonical_text_and_digest_do_not_depend_on_the_order_of_keys(value: dict[str, Any]) -> None:
    turned = dict(reversed(value.items()))
    assert canonical([turned]) == canonical([value])
    assert digest(turned) == digest(value)


def test_text_is_compact_and_not_escaped() -> None:
    assert encode({"b": [1, 2.5, None, True], "a": "é…"}) == '{"b":[1,2.5,null,true],"a":"é…"}'
    assert canonical({"b": 1, "a": 2}) == '{"a":2,"b":1}'


@given(JSONS)
def test_the_cheaper_ways_write_the_same_canonical_text(value: object) -> None:
    assert canonical_json(value) == canonical(value)
    texts = [text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str)]
    assert canonical_list(*texts) == canonical(texts)


def test_the_digest_is_the_sha_256_of_the_canonical_text() -> None:
    assert digest({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


# -- decode -----------------------------------------------------------------------------------------------------


@given(st.text() | st.binary())
def test_decode_raises_nothing_but_its_own_error(text: str | bytes) -> None:
    with suppress(CodecError):
        decode(text)


JSON_ISH = st.lists(
    st.sampled_from(['"', "\\", "\\u", "d800", "\\udc00", "[", "]", "{", "}", ":", ",", "1", "-", ".", "e999", "0"])
    | st.sampled_from(["NaN", "Infinity", "true", "null", " ", "\n", "\ufeff", "\ud800", "é", '"a":', "9" * 5_000]),
    max_size=30,
).map("".join)


@given(JSON_ISH)
def test_decode_of_almost_json_gives_a_value_that_can_be_encoded_or_refuses(text: str) -> None:
    with suppress(CodecError):
        value = decode(text, depth_max=5)
        assert decode(encode(value)) == value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "syntax"),
        ("   ", "syntax"),
        ("\ufeff{}", "syntax"),
        (b"\xef\xbb\xbf{}", "syntax"),
        ("{}{}", "syntax"),
        ("{'a': 1}", "syntax"),
        ('{"a": 1,}', "syntax"),
        ('["a\nb"]', "syntax"),
        ("[01]", "syntax"),
        ("\u00a0{}", "syntax"),
        ("\x00", "syntax"),
        ('{"a": 1, "a": 2}', "duplicate_key"),
        ('[{"b": {"a": 1, "a": 1}}]', "duplicate_key"),
        ('{"a": 1, "\\u0061": 2}', "duplicate_key"),
        ("NaN", "not_a_number"),
        ("[-Infinity]", "not_a_number"),
        ('{"a": Infinity}', "not_a_number"),
        ("1e999", "number_too_large"),
        ("[-1.5E+400]", "number_too_large"),
        ("9" * 5_000, "number_too_large"),
        ("[-" + "9" * 5_000 + "]", "number_too_large"),
        (b"\xff", "not_utf8"),
        (b'"\xc3"', "not_utf8"),
        (b'"\xed\xa0\x80"', "not_utf8"),
        ("{}".encode("utf-16"), "not_utf8"),
        ('"\ud800"', "not_utf8"),
        ('"\\ud800"', "not_utf8"),
        ('{"\\uDFFF": 1}', "not_utf8"),
        ('["\\udc00\\ud800"]', "not_utf8"),
    ],
    ids=brief,
)
def test_text_that_is_not_json_is_refused_for_a_reason_with_a_name(text: str | bytes, expected: str) -> None:
    assert reason(text) == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (" \t\r\n[1]\n", [1]),
        ('"\\ud83d\\ude00"', "😀"),
        ('"😀"', "😀"),
        ('"\\\\ud800"', "\\ud800"),
        ('"\\u0000"', "\x00"),
        ("-0", 0),
        ("1e-999", 0.0),
        ("[" + "9" * 4_000 + "]", [int("9" * 4_000)]),
        ('{"a":{"a":1},"b":{"a":1}}', {"a": {"a": 1}, "b": {"a": 1}}),
    ],
    ids=brief,
)
def test_odd_but_valid_json_is_read(text: str, value: Any) -> None:
    assert decode(text) == value
    assert decode(text.encode()) == value


@pytest.mark.parametrize("letter", ["a", "é", "€", "😀"])
def test_size_is_counted_in_bytes_not_in_characters(letter: str) -> None:
    text = f'"{letter * 10}"'
    size = len(text.encode())
    assert decode(text, bytes_max=size) == decode(text.encode(), bytes_max=size) == letter * 10
    assert reason(text, bytes_max=size - 1) == reason(text.encode(), bytes_max=size - 1) == "too_large"


def test_the_size_limit_is_the_worlds_unless_told() -> None:
    with replaced(World(limits=Limits(json_bytes_max=4))):
        assert decode("[12]") == [12]
        assert reason("[123]") == "too_large"
        assert decode("[123]", bytes_max=5) == [123]


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
def test_depth_is_bounded_exactly(opening: str, closing: str) -> None:
    levels = sum(opening.count(bracket) for bracket in "[{")
    deep = opening * (12 // levels) + "1" + closing * (12 // levels)
    decode(deep, depth_max=12)
    assert reason(deep, depth_max=11) == "too_deep"


def test_brackets_in_strings_and_side_by_side_are_not_depth() -> None:
    assert decode('["[[[[{{{{", "\\"[[[[", "\\\\"]', depth_max=1) == ["[[[[{{{{", '"[[[[', "\\"]
    assert decode("[[],[],[],{},{}]", depth_max=2) == [[], [], [], {}, {}]


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[" * 100_000 + "]" * 100_000], ids=range(3))
def test_the_deepest_text_is_refused_and_does_not_end_the_process(text: str) -> None:
    assert reason(text) == "too_deep"
    assert reason(text, depth_max=1_000_000) in {"too_deep", "syntax"}


@pytest.mark.parametrize(
    "text",
    [
        "[" * 65 + '"' + '\\"' * 400_000,
        "[" * 65 + '"' + "\\" * 800_001,
        "]" * 400_000 + "[" * 400_000,
        '"[' * 400_000,
        '["' + "a" * 900_000 + '",' + "[" * 65,
        "{" * 65 + '"a\\',
    ],
    ids=range(6),
)
def test_hostile_text_is_refused_in_linear_time(text: str) -> None:
    started_s = time.process_time()
    assert reason(text) in {"too_deep", "syntax"}
    # Seconds that the host took away may count as ours; in squared time it would be hours.
    assert time.process_time() - started_s < 20


def test_a_refusal_can_cross_processes() -> None:
    refused = pickle.loads(pickle.dumps(CodecError("syntax", "no comma")))
    assert (refused.reason, str(refused)) == ("syntax", "no comma")
    assert isinstance(refused, ValueError)


# -- encode -----------------------------------------------------------------------------------------------------


class Colour(Enum):
    RED = "red"


class Size(IntEnum):
    BIG = 3


class Word(StrEnum):
    YES = "yes"


@dataclass(frozen=True)
class Point:
    x: int
    tags: tuple[str, ...] = ()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Colour.RED, '"red"'),
        (Size.BIG, "3"),
        (Word.YES, '"yes"'),
        (Point(1, ("a",)), '{"x":1,"tags":["a"]}'),
        (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (Decimal("1.10"), '"1.10"'),
        (PurePosixPath("/a"), '"/a"'),
        (datetime(2024, 8, 28, 15, 30, tzinfo=UTC), '"2024-08-28T15:30:00Z"'),
        (date(2024, 8, 28), '"2024-08-28"'),
        ({"b", "a"}, '["a","b"]'),
        (frozenset({2, "2", 1}), '[1,2,"2"]'),
    ],
)
def test_common_values_have_a_json_form(value: object, text: str) -> None:
    assert encode(value) == text
    assert plain(value) == json.loads(text)


@pytest.mark.parametrize("value", [object(), b"bytes", timedelta(1), Point, ValueError("x"), 1j, {(1, 2): 3}])
def test_what_json_cannot_say_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        encode(value)


def holding_itself() -> list[Any]:
    endless: list[Any] = []
    endless.append(endless)
    return endless


@pytest.mark.parametrize(
    "value", [float("nan"), [float("inf")], "\ud800", {"\udfff": 1}, holding_itself(), 10**5_000], ids=brief
)
def test_values_without_json_text_are_refused(value: object) -> None:
    for write in (encode, canonical, digest):
        with pytest.raises(ValueError):
            write(value)


# -- time -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wall_us", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_724_859_000_000_000, "2024-08-28T15:30:00Z"),
        (1_724_859_000_000_001, "2024-08-28T15:30:00.000001Z"),
        (1_724_859_000_500_000, "2024-08-28T15:30:00.500000Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
    ],
)
def test_time_is_written_in_iso_8601_and_utc(wall_us: int, text: str) -> None:
    assert utc_text(wall_us) == text


@given(st.integers(min_value=-(10**16), max_value=10**17))
def test_written_time_can_be_read_back_to_the_microsecond(wall_us: int) -> None:
    since = datetime.fromisoformat(utc_text(wall_us)) - datetime(1970, 1, 1, tzinfo=UTC)
    assert since // timedelta(microseconds=1) == wall_us
