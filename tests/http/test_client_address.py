"""Where a request comes from, and who may say so."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest

from holdfast.http.client_address import address_of, within

PROXIES = (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))


@pytest.mark.parametrize(
    ("client", "forwarded", "expected"),
    [
        ("203.0.113.7", None, "203.0.113.7"),
        ("203.0.113.7", "198.51.100.1", "203.0.113.7"),  # a stranger's word
        ("10.1.2.3", "198.51.100.1", "198.51.100.1"),
        ("10.1.2.3", "203.0.113.9, 198.51.100.1, 10.9.9.9", "198.51.100.1"),  # the nearest that is not a proxy
        ("10.1.2.3", "198.51.100.1, nonsense", None),
        ("10.1.2.3", None, None),
        ("::ffff:203.0.113.7", None, "203.0.113.7"),
        ("fd00::1", "2001:db8::7", "2001:db8::7"),
        ("testclient", None, None),
    ],
)
def test_only_trusted_proxies_are_believed(client: str, forwarded: str | None, expected: str | None) -> None:
    headers = [] if forwarded is None else [(b"x-forwarded-for", forwarded.encode())]
    found = address_of({"client": (client, 1), "headers": headers}, PROXIES)
    assert (None if found is None else str(found)) == expected


def test_nobody_is_within_a_network_of_the_other_family() -> None:
    assert within(ip_address("10.0.0.1"), PROXIES)
    assert not within(ip_address("::1"), (ip_network("0.0.0.0/0"),))
    assert not within(None, (ip_network("0.0.0.0/0"),))
