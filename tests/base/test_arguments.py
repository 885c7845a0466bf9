"""Arguments that cannot be meant are refused by name, with what to write instead."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Any

import pytest

from holdfast.base.arguments import (
    ArgumentInvalid,
    function,
    instance,
    is_a,
    number,
    numeric,
    one_of,
    shown,
    suggestion,
)


class Colour(StrEnum):
    RED = "red"
    DARK_BLUE = "dark_blue"


@pytest.mark.parametrize("wrong", [0, -1, "5", None, True, float("nan"), float("inf"), timedelta(seconds=5)])
def test_what_is_not_a_number_of_seconds_above_0_is_none(wrong: Any) -> None:
    with pytest.raises(
        ArgumentInvalid, match=r"^timeout_s=.*: give a number of seconds above 0, or None for no limit$"
    ):
        number("timeout_s", wrong, above=0, otherwise="None for no limit")


def test_bounds_are_told_and_those_within_pass() -> None:
    number("count", 3, least=1, most=3, whole=True)
    number("share", 0.5, above=0, most=1)
    with pytest.raises(ArgumentInvalid, match=r"count=2\.5: give a whole number of at least 1 and of at most 3"):
        number("count", 2.5, least=1, most=3, whole=True)


def test_a_span_of_time_is_told_in_seconds() -> None:
    with pytest.raises(ArgumentInvalid, match=r"every_s: <timedelta> is not a number; write 90$"):
        numeric("every_s", timedelta(seconds=90))


def test_it_can_be_caught_as_a_value_error_and_as_a_type_error() -> None:
    for kind in (ValueError, TypeError):
        with pytest.raises(kind):
            instance("store", "sqlite://", int, "give the Store")
    with pytest.raises(ArgumentInvalid, match="by: 'client' is not a function; give by_client"):
        function("by", "client", "give by_client")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("SOLDOUT", "did you mean SOLD_OUT?"),
        ("sold-out", "did you mean SOLD_OUT?"),
        ("SOLD_UOT", "did you mean SOLD_OUT?"),
        ("x", "choose one of SOLD_OUT, BANK_SILENT"),
        (5, "choose one of SOLD_OUT, BANK_SILENT"),
    ],
)
def test_the_nearest_name_is_suggested(given: object, told: str) -> None:
    assert suggestion(given, ["SOLD_OUT", "BANK_SILENT"]) == told


def test_a_member_may_be_given_by_its_name_and_a_wrong_one_lists_them() -> None:
    assert one_of("colour", "red", Colour) is one_of("colour", Colour.RED, Colour) is Colour.RED
    with pytest.raises(ArgumentInvalid, match=r"colour='darkblue': did you mean dark_blue\?"):
        one_of("colour", "darkblue", Colour)


def test_a_value_is_shown_short_and_an_object_by_its_type_alone() -> None:
    assert shown(object()) == "<object>"
    assert shown(Colour) == "the class Colour"
    assert len(shown("x" * 1_000)) <= 80
    assert not is_a(True, int)
