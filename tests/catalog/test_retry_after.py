"""Retry-After is read or ignored, never believed blindly."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from holdfast.base import REAL, Limits, limits, replaced
from holdfast.catalog.retry_after import longest_s, retry_after_s

SUNDAY_US = 784_111_777_000_000
"""Sun, 06 Nov 1994 08:49:37 GMT."""


def at_sunday():
    return replaced(replace(REAL, wall_us=lambda: SUNDAY_US))


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("60", 60.0),
        (" 60 ", 60.0),
        ("0", 0.0),
        ("1.5", 1.5),
        (b"7", 7.0),
        (60, 60.0),
        (0.25, 0.25),
    ],
)
def test_seconds_are_read_from_text_and_numbers(value, seconds):
    assert retry_after_s(value) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "Sun, 06 Nov 1994 08:51:37 GMT",
        "Sunday, 06-Nov-94 08:51:37 GMT",
        "Sun Nov  6 08:51:37 1994",
        "Sun, 06 Nov 1994 10:51:37 +0200",
    ],
)
def test_every_form_of_an_http_date_is_the_time_until_then(text):
    with at_sunday():
        assert retry_after_s(text) == 120.0


def test_a_date_that_has_passed_means_now():
    with at_sunday():
        assert retry_after_s("Sun, 06 Nov 1994 08:00:00 GMT") == 0.0


@pytest.mark.parametrize(
    "garbage",
    [
        "",
        "soon",
        "-5",
        "+5",
        "1e3",
        "0x10",
        "inf",
        "nan",
        "٣",
        "60 seconds",
        "Sun, 99 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 25:99:99 GMT",
        "Mon 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 GMT" + " " * 80 + "x",
        None,
        True,
        -1,
        -0.5,
        -(10**400),
        float("nan"),
        [],
        {"seconds": 5},
    ],
)
def test_what_is_neither_seconds_nor_a_date_is_ignored(garbage):
    assert retry_after_s(garbage) is None


@pytest.mark.parametrize(
    "absurd",
    ["999999999", "9" * 5_000, 10**400, float("inf"), "Fri, 31 Dec 9999 23:59:59 GMT"],
    ids=lambda v: str(type(v)),
)
def test_an_absurd_wait_counts_as_the_longest_allowed(absurd):
    assert retry_after_s(absurd) == limits().retry_after_s_max


def test_the_ceiling_is_a_setting():
    with replaced(replace(REAL, limits=Limits(retry_after_s_max=30.0))):
        assert retry_after_s("60") == 30.0


ANYTHING = st.one_of(st.text(), st.binary(), st.integers(), st.floats(), st.none(), st.booleans())
DATE_LIKE = st.from_regex(
    r"\A[A-Za-z]{0,4},? ?[0-9-]{0,6} ?[A-Za-z0-9]{0,4} [0-9]{1,5} [0-9]{1,2}:[0-9]{2}:[0-9]{2} ?.{0,6}\Z"
)


@given(ANYTHING | DATE_LIKE)
def test_nothing_makes_it_raise_or_leave_its_bounds(value):
    seconds = retry_after_s(value)
    assert seconds is None or 0 <= seconds <= limits().retry_after_s_max


@pytest.mark.parametrize(
    ("said", "wait_s"),
    [
        ("5, 9", 9.0),
        ("9,5", 9.0),
        ("soon, 9", 9.0),
        ("9, soon", None),
        ("Sun, 06 Nov 1994 08:49:37 GMT, 7", 7.0),
        ("7, Sun, 06 Nov 1994 08:49:37 GMT", 7.0),
        ("Sun, 06 Nov 1994 08:49:37 GMT, Mon, 07 Nov 1994 08:49:37 GMT", 0.0),
        ("5, " * 1_000 + "9", 5.0),
    ],
)
def test_of_several_the_longest_counts(said: str, wait_s: float | None) -> None:
    assert retry_after_s(said) == wait_s


def test_two_headers_are_read_as_one_with_two_values() -> None:
    twice = CIMultiDict([("Retry-After", "5"), ("retry-after", "9")])
    assert longest_s(twice) == longest_s({"retry-after": "5, 9"}) == 9.0
    assert longest_s(None) is None
    assert longest_s({}) is None
