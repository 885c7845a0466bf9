"""Which IP addresses are public. Pure: nothing is looked up, nothing is connected to.

Always true: an address that is not known to be public is refused. `ipaddress.is_global` is not asked: it lets through
multicast, NAT64, 6to4, mapped and compatible forms, and addresses that a cloud answers from inside.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# Where two ranges overlap, the narrower one stands first.
_SPECIAL_V4 = tuple(
    (kind, IPv4Network(text))
    for kind, text in (
        ("unspecified", "0.0.0.0/32"),
        ("broadcast", "255.255.255.255/32"),
        # Azure answers its virtual machines from here, although the range is a public one.
        ("cloud_platform", "168.63.129.16/32"),
        ("this_network", "0.0.0.0/8"),
        ("private", "10.0.0.0/8"),
        ("carrier_nat", "100.64.0.0/10"),
        ("loopback", "127.0.0.0/8"),
        ("link_local", "169.254.0.0/16"),
        ("private", "172.16.0.0/12"),
        ("protocol_assignments", "192.0.0.0/24"),
        ("documentation", "192.0.2.0/24"),
        ("as112", "192.31.196.0/24"),
        ("multicast_relay", "192.52.193.0/24"),
        ("6to4_relay", "192.88.99.0/24"),
        ("private", "192.168.0.0/16"),
        ("as112", "192.175.48.0/24"),
        ("benchmark", "198.18.0.0/15"),
        ("documentation", "198.51.100.0/24"),
        ("documentation", "203.0.113.0/24"),
        ("multicast", "224.0.0.0/4"),
        ("reserved", "240.0.0.0/4"),
    )
)

_SPECIAL_V6 = tuple(
    (kind, IPv6Network(text))
    for kind, text in (
        ("unspecified", "::/128"),
        ("loopback", "::1/128"),
        ("ipv4_mapped", "::ffff:0:0/96"),
        ("ipv4_translated", "::ffff:0:0:0/96"),
        ("ipv4_compatible", "::/96"),
        ("nat64", "64:ff9b::/96"),
        ("nat64_local", "64:ff9b:1::/48"),
        ("discard_only", "100::/64"),
        ("dummy_prefix", "100:0:0:1::/64"),
        ("teredo", "2001::/32"),
        ("benchmark", "2001:2::/48"),
        ("orchid", "2001:10::/28"),
        ("orchid", "2001:20::/28"),
        ("protocol_assignments", "2001::/23"),
        ("documentation", "2001:db8::/32"),
        ("6to4", "2002::/16"),
        ("as112", "2620:4f:8000::/48"),
        ("6bone", "3ffe::/16"),
        ("documentation", "3fff::/20"),
        ("segment_routing", "5f00::/16"),
        ("unique_local", "fc00::/7"),
        ("link_local", "fe80::/10"),
        ("site_local", "fec0::/10"),
        ("multicast", "ff00::/8"),
    )
)

_GLOBAL_UNICAST = IPv6Network("2000::/3")
"""The only part of IPv6 from which addresses are handed out."""
_ISATAP_MARKS = frozenset({0x0000_5EFE, 0x0200_5EFE})
"""An interface id that starts so carries an IPv4 address, to which a host may tunnel."""

_CANONICAL_V4 = re.compile(r"(0|[1-9][0-9]{0,2})(\.(0|[1-9][0-9]{0,2})){3}\Z")
_NUMBER = re.compile(r"([0-9]+|0[xX][0-9a-fA-F]*)\Z")


def is_public(address: str | Address) -> bool:
    """Whether the address belongs to somebody on the public Internet, as far as anyone can tell."""
    return special_kind(address) is None


def special_kind(address: str | Address) -> str | None:
    """What makes the address special, such as `loopback`; None when it is public, `not_an_address` when it is none."""
    if isinstance(address, str):
        try:
            address = ip_address(address)
        except ValueError:
            return "not_an_address"
    if isinstance(address, IPv4Address):
        return next((kind for kind, network in _SPECIAL_V4 if address in network), None)
    if address.scope_id is not None:
        return "zone"
    kind = next((kind for kind, network in _SPECIAL_V6 if address in network), None)
    if kind is None and address not in _GLOBAL_UNICAST:
        return "unassigned"
    if kind is None and (int(address) >> 32) & 0xFFFF_FFFF in _ISATAP_MARKS:
        return "isatap"
    return kind


def literal_address(host: str) -> Address | None:
    """The address that a host in a URL spells out, without brackets; None when it is a name.

    Raises:
        ValueError: some programs would read it as an address and some would not, as with `127.1` or `0x7f000001`;
            or it names a zone, which means something on one machine only.
    """
    if "%" in host:
        raise ValueError(f"{host!r} names a zone or is encoded")
    if ":" in host:
        return ip_address(host)
    if _CANONICAL_V4.match(host):
        return ip_address(host)
    # No top-level domain is a number, so a name that ends in one is an address in disguise.
    if _NUMBER.match(host.rstrip(".").rpartition(".")[2]):
        raise ValueError(f"{host!r} is a number that is spelt in an unusual way")
    return None
