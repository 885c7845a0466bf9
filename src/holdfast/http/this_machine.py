"""Whether a client is on this very machine, and speaks for itself.

Always true: a request that a proxy has passed on counts as coming from elsewhere, because nobody can tell from where.
"""

from __future__ import annotations

from ipaddress import ip_address

from holdfast.http.asgi import Scope, header

FORWARDED = frozenset(
    {
        b"forwarded",
        b"via",
        b"x-real-ip",
        b"x-client-ip",
        b"x-cluster-client-ip",
        b"x-remote-ip",
        b"x-remote-addr",
        b"x-original-url",
        b"x-original-host",
        b"x-original-forwarded-for",
        b"x-rewrite-url",
        b"x-azure-clientip",
        b"x-envoy-external-address",
        b"x-appengine-user-ip",
        b"cf-connecting-ip",
        b"cf-connecting-ipv6",
        b"cf-ray",
        b"cdn-loop",
        b"fastly-client-ip",
        b"fly-client-ip",
        b"true-client-ip",
    }
)
"""Headers that proxies add; besides these, everything that begins with `x-forwarded` or `x-proxy`."""
_PREFIXES = (b"x-forwarded", b"x-proxy")


def from_this_machine(scope: Scope) -> bool:
    """Whether the client is on loopback, and no header says that a proxy stands in between."""
    host, _ = scope.get("client") or ("", 0)
    return _is_loopback(host) and not is_forwarded(scope)


def within_this_machine(scope: Scope) -> bool:
    """Whether the client also asks for loopback by its name: a page of another site cannot make a browser do that."""
    return from_this_machine(scope) and _names_loopback(header(scope, "host"))


def is_forwarded(scope: Scope) -> bool:
    """Whether a header says that a proxy has passed the request on."""
    return any(name in FORWARDED or name.startswith(_PREFIXES) for name, _ in scope["headers"])


def _names_loopback(host: str) -> bool:
    name = host.partition("]")[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]
    return name in {"", "localhost"} or _is_loopback(name)


def _is_loopback(host: str) -> bool:
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)
