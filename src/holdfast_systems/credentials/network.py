"""Which address a request comes from, and whether a platform may send from there. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from holdfast.http.asgi import Scope, header

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address

FORWARDED = "x-forwarded-for"
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
            return here  # also None: what a trusted proxy says, and nobody can read, is no address
    return here


def _address(text: str) -> Address | None:
    try:
        found = ip_address(text)
    except ValueError:
        return None
    # A server that listens on both families sees IPv4 in its IPv6 form.
    return found.ipv4_mapped or found if isinstance(found, IPv6Address) else found
