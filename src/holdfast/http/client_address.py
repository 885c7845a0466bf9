"""Which address a request comes from, and which addresses count as one client. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from holdfast.http.asgi import Scope, header

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address

FORWARDED = "x-forwarded-for"
IPV6_PREFIX = 64
"""Prefix length of the smallest IPv6 network given to one customer: the holder of one address there has all of them."""
HOPS_MAX = 20


def within(address: Address | None, networks: Sequence[Network]) -> bool:
    """Whether the address lies in one of the networks."""
    return address is not None and any(address.version == net.version and address in net for net in networks)


def address_of(scope: Scope, trusted: Sequence[Network]) -> Address | None:
    """Where the request comes from. What trusted proxies say counts, from the nearest one on; nobody else's word."""
    client = scope.get("client")
    here = _address(client[0]) if client else None
    if not trusted or not within(here, trusted):
        return here
    for hop in reversed(header(scope, FORWARDED).split(",")[-HOPS_MAX:]):
        here = _address(hop.strip())
        if not within(here, trusted):
            return here  # also None: what a trusted proxy says and cannot be read is not an address
    return here


def client_group(address: Address | None) -> str:
    """The addresses that count as one client: an IPv4 address, an IPv6 /64; all whose address is unknown are one."""
    if address is None:
        return "unknown"
    if isinstance(address, IPv6Address):
        return str(IPv6Network((address, IPV6_PREFIX), strict=False))
    return str(address)


def networks_of(text: str) -> tuple[Network, ...]:
    """The networks of a list with commas, such as `10.0.0.0/8, 2001:db8::/32`.

    Raises:
        ValueError: one of them is not a network.
    """
    return tuple(ip_network(part.strip()) for part in text.split(",") if part.strip())


def _address(text: str) -> Address | None:
    try:
        found = ip_address(text)
    except ValueError:
        return None
    # A server that listens on both families sees IPv4 in its IPv6 form.
    return found.ipv4_mapped or found if isinstance(found, IPv6Address) else found
