"""Owners: a signature of ours or nothing, and the same secret for everyone who shares the store."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast.base import Secret
from holdfast.store import Store
from holdfast_systems.conversion import tables
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


def test_machines_that_start_together_agree_on_one_secret(store: Store) -> None:
    tables.prepare(store)
    with ThreadPoolExecutor(8) as threads:
        secrets = {secret.reveal() for secret in threads.map(tables.shared_secret, [store] * 8)}
    assert len(secrets) == 1
    assert len(secrets.pop()) == 64
