"""Only addresses of somebody on the public Internet are public; everything else is refused by name."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.http.addresses import is_public, literal_address, special_kind

SPECIAL = [
    ("unspecified", ["0.0.0.0", "::"]),
    ("this_network", ["0.0.0.1", "0.255.255.255"]),
    ("private", ["10.0.0.0", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.0.1", "192.168.255.255"]),
    ("carrier_nat", ["100.64.0.0", "100.100.100.200", "100.127.255.255"]),
    ("loopback", ["127.0.0.1", "127.255.255.255", "::1"]),
    ("link_local", ["169.254.0.1", "169.254.169.254", "169.254.170.2", "fe80::1", "febf::1"]),
    ("protocol_assignments", ["192.0.0.1", "192.0.0.192", "2001:1::1", "2001:3::1", "2001:1ff::1"]),
    ("documentation", ["192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1", "3fff::1", "3fff:fff::1"]),
    ("benchmark", ["198.18.0.1", "198.19.255.255", "2001:2::1"]),
    ("6to4_relay", ["192.88.99.1"]),
    ("multicast_relay", ["192.52.193.1"]),
    ("as112", ["192.31.196.1", "192.175.48.1", "2620:4f:8000::1"]),
    ("multicast", ["224.0.0.1", "239.255.255.255", "ff02::1", "ff0e::1"]),
    ("reserved", ["240.0.0.1", "255.255.255.254"]),
    ("broadcast", ["255.255.255.255"]),
    ("cloud_platform", ["168.63.129.16"]),
    ("ipv4_mapped", ["::ffff:127.0.0.1", "::ffff:8.8.8.8", "::ffff:a9fe:a9fe"]),
    ("ipv4_compatible", ["::127.0.0.1", "::8.8.8.8", "::2"]),
    ("ipv4_translated", ["::ffff:0:127.0.0.1"]),
    ("nat64", ["64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b::8.8.8.8"]),
    ("nat64_local", ["64:ff9b:1::10.0.0.1", "64:ff9b:1:ffff::1"]),
    ("6to4", ["2002:7f00:1::", "2002:a9fe:a9fe::1", "2002:808:808::1"]),
    ("teredo", ["2001:0:7f00:1::", "2001::1"]),
    ("orchid", ["2001:10::1", "2001:20::1", "2001:2f:ffff::1"]),
    ("unique_local", ["fc00::1", "fd00:ec2::254", "fdff::1"]),
    ("site_local", ["fec0::1", "feff::1"]),
    ("discard_only", ["100::1"]),
    ("dummy_prefix", ["100:0:0:1::1"]),
    ("6bone", ["3ffe::1"]),
    ("segment_routing", ["5f00::1"]),
    ("isatap", ["2606:4700::5efe:10.0.0.1", "2606:4700::200:5efe:127.0.0.1"]),
    ("unassigned", ["4000::1", "1::1", "8000::1", "e000::1", "64:ff9a::1"]),
    ("zone", ["fe80::1%eth0", "2606:4700::1%1", "::1%lo"]),
    ("not_an_address", ["", "localhost", "127.1", "0x7f.0.0.1", "0177.0.0.1", "2130706433", "127.0.0.1.", "::g"]),
]
CASES = [(kind, text) for kind, texts in SPECIAL for text in texts]

PUBLIC = ["8.8.8.8", "1.1.1.1", "93.184.215.14", "100.63.255.255", "100.128.0.0", "172.15.255.255", "172.32.0.0",
          "192.0.1.0", "198.17.255.255", "198.20.0.0", "223.255.255.255", "168.63.129.15", "168.63.129.17",
          "2606:4700:4700::1111", "2001:4860:4860::8888", "2a00:1450::1", "2001:200::1", "2620:4f:8001::1"]  # fmt: skip


@pytest.mark.parametrize(("kind", "text"), CASES, ids=lambda value: value)
def test_a_special_address_is_refused_by_its_kind(kind: str, text: str) -> None:
    assert special_kind(text) == kind
    assert not is_public(text)


@pytest.mark.parametrize("text", PUBLIC)
def test_a_public_address_is_public(text: str) -> None:
    assert is_public(text)
    assert is_public(ip_address(text))


def test_is_global_alone_would_let_more_than_a_dozen_kinds_through() -> None:
    fooled = {
        kind
        for kind, text in CASES
        if kind not in {"zone", "not_an_address"} and ip_address(text).is_global and not is_public(text)
    }
    assert len(fooled) >= 12, fooled
    assert fooled >= {"multicast", "nat64", "6to4", "cloud_platform", "isatap", "6bone", "unassigned"}


@given(st.ip_addresses(v=4))
def test_what_python_calls_private_is_never_public(address: IPv4Address) -> None:
    assert address.is_global or not is_public(address)


@given(st.ip_addresses(v=6))
def test_no_ipv6_address_is_public_outside_of_what_is_handed_out(address: IPv6Address) -> None:
    assert not is_public(address) or (address.is_global and int(address) >> 125 == 1)


@given(st.ip_addresses(v=4), st.sampled_from(["::ffff:{}", "::{}", "64:ff9b::{}", "64:ff9b:1::{}"]))
def test_no_ipv4_address_is_public_inside_an_ipv6_one(address: IPv4Address, shape: str) -> None:
    assert not is_public(shape.format(address))


@given(st.ip_addresses(v=4))
def test_an_address_that_is_spelt_plainly_is_read_as_it_is(address: IPv4Address) -> None:
    assert literal_address(str(address)) == address


@pytest.mark.parametrize(
    "host",
    ["0", "127.1", "127.0.1", "2130706433", "0x7f000001", "0X7F.1", "0177.0.0.1", "127.0.0.01", "00.0.0.0", "256.1.1.1",
     "1.2.3.4.5", "127.0.0.1.", "example.0x7f", "example.1", "0x", "99999999999", "fe80::1%eth0", "%31.0.0.1", ":",
     "::g", "1.1.1.1111"],
)  # fmt: skip
def test_an_address_in_disguise_is_neither_an_address_nor_a_name(host: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        literal_address(host)


@pytest.mark.parametrize("host", ["example.com", "localhost", "1password.com", "0x7f.example", "a1", "xn--fa-hia.de"])
def test_a_name_is_no_address(host: str) -> None:
    assert literal_address(host) is None
