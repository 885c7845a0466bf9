"""Owners: a signature of ours or nothing."""

from __future__ import annotations

import pytest

from holdfast.base import Secret
from holdfast_systems.conversion.session import Sessions

SESSIONS = Sessions(Secret("s"))
OWNER = "1ed71b1505ae5b4b2ba2c77fa1ec60b6"  # the same in every process: it is part of the names of tests


def test_a_signed_owner_is_known_again() -> None:
    assert SESSIONS.owner(SESSIONS.signed(OWNER)) == OWNER


@pytest.mark.parametrize(
    "value",
    ["", ".", OWNER, f"{OWNER}.", f"x{SESSIONS.signed(OWNER)}", SESSIONS.signed(OWNER)[:-1], f"{OWNER}.é", "é.é"],
)
def test_a_cookie_that_was_changed_is_as_good_as_none(value: str) -> None:
    assert SESSIONS.owner(value) is None


def test_no_two_owners_are_the_same() -> None:
    assert len({SESSIONS.new() for _ in range(100)}) == 100


def test_another_secret_signs_otherwise() -> None:
    assert Sessions(Secret("other")).owner(SESSIONS.signed(OWNER)) is None
