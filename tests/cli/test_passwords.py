"""The password of a database address is not echoed, however the address is spelt."""

from __future__ import annotations

import pytest

from .conftest import Hand

ADDRESSES = [
    "postgresql://app:hunter2@127.0.0.1:1/shop",
    "postgres:/app:hunter2@h/shop",
    "postgresql:app:hunter2@h/shop",
    "app:hunter2@h/shop",
    "postgresql://app:hunter2@[::1/shop",
    "postgresql://app:x@hunter2@127.0.0.1:1/shop",
    "postgresql://app:x/hunter2@127.0.0.1:1/shop",
    "mysql://app:hunter2@h/db",
    "host=127.0.0.1 port=1 password=hunter2 dbname=shop",
    "postgresql://127.0.0.1:1/shop?password=hunter2",
    "postgresql://app:hunter2@127.0.0.1:notaport/shop",
    "postgresql://app:hunter2@127.0.0.1:1/shop?schema=Bad-Schema",
    "postgresql://app:hunter2@127.0.0.1:1/shop?pooled=maybe",
    "postgresql://app:hunter2@127.0.0.1:1/shop?nosuch=1",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_command_does_not_show_it(hand_on: type[Hand], address: str) -> None:
    ended = hand_on(address)("jobs", "list")
    assert ended.exit_code != 0
    assert "hunter2" not in ended.output + str(ended.exception)
