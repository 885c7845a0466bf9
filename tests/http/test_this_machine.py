"""Who counts as a client on this very machine."""

from __future__ import annotations

import pytest

from holdfast.http.asgi import Scope
from holdfast.http.this_machine import FORWARDED, within_this_machine


def scope(client: str | None, host: str = "127.0.0.1:8080", **headers: str) -> Scope:
    named = {"host": host, **headers}
    return {
        "client": None if client is None else (client, 5_000),
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in named.items()],
    }


@pytest.mark.parametrize(
    ("client_host", "host", "allowed"),
    [
        ("127.0.0.1", "127.0.0.1:8080", True),
        ("127.8.8.8", "localhost:8080", True),
        ("::1", "[::1]:8080", True),
        ("::ffff:127.0.0.1", "localhost", True),
        ("10.0.0.7", "127.0.0.1", False),
        ("testclient", "localhost", False),
        ("127.0.0.1", "evil.example:8080", False),
        (None, "localhost", False),
    ],
)
def test_only_a_client_on_this_machine_may_switch(client_host: str | None, host: str, allowed: bool) -> None:
    assert within_this_machine(scope(client_host, host)) is allowed


@pytest.mark.parametrize("name", sorted(name.decode() for name in FORWARDED))
def test_a_request_with_a_header_of_a_proxy_comes_from_elsewhere(name: str) -> None:
    assert within_this_machine(scope("127.0.0.1"))
    assert not within_this_machine(scope("127.0.0.1", **{name: "127.0.0.1"}))


@pytest.mark.parametrize("name", ["for", "host", "proto", "port", "server", "prefix", "ssl", "anything"])
def test_so_does_every_header_that_begins_with_x_forwarded(name: str) -> None:
    assert not within_this_machine(scope("127.0.0.1", **{f"x-forwarded-{name}": ""}))
