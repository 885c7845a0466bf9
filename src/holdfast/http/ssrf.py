"""The guard for addresses that users supply: no URL leads into our own network.

Always true: a name is resolved once for a connection, every answer is checked, and the connection goes to an address
that was checked, so a name that changes its answer in between gains nothing. Host and SNI keep the name.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Any

from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from holdfast.base import Private
from holdfast.catalog import Failure
from holdfast.catalog.edge_faults import ADDRESS_REFUSED
from holdfast.http.addresses import literal_address, special_kind

if TYPE_CHECKING:
    from aiohttp.connector import AddrInfoType

Lookup = Callable[[str, int], Awaitable[Sequence[str]]]
"""Finds the addresses of a name, for a port; raises OSError when it cannot."""

URL_CHARS_MAX = 8_192
HOST_CHARS_MAX = 253
ADDRESSES_TRIED_MAX = 8
ADDRESSES_REMEMBERED_MAX = 256
"""Maximum number of URLs that have passed and are remembered, so that they are not checked again."""
PORT_UNPRIVILEGED = 1_024

# Ports from 1024 on that belong to other protocols, which an HTTP request could be made to speak; browsers agree.
_FOREIGN_PORTS = frozenset(
    {1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080}
)
_UNWRITTEN = re.compile(r"[\x00-\x20\x7f\\]")
_HOST = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*\Z")
_ALLOWED = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+):[0-9]{1,5}\Z")
_NUMERIC_FLAGS = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How far a client reaches: which addresses and ports it may call."""

    public_only: bool = True
    """Only public addresses; switch it off for addresses that come from your own configuration."""
    ports: frozenset[int] | None = None
    """Only these ports. None is 80, 443 and all from 1024 that belong to no other protocol, or any port where private
    addresses may be called."""
    allowed: frozenset[str] = frozenset()
    """For development: exactly these, written as `localhost:8080` or `[::1]:8080`, are called whatever they resolve
    to."""
    refused: tuple[str, ...] = ()
    """Networks that are refused too, such as `203.0.113.0/24`: public addresses of one's own."""

    def __post_init__(self) -> None:
        for entry in self.allowed:
            if not _ALLOWED.match(entry):
                raise ValueError(f"{entry!r} is not an exact host and port in lower case, such as 'localhost:8080'")
        for text in self.refused:
            ip_network(text)

    def allows(self, host: str, port: int) -> bool:
        """Whether the exact host and port stand on the list for development."""
        return bool(self.allowed) and (f"[{host}]:{port}" if ":" in host else f"{host}:{port}") in self.allowed

    def kind_refused(self, address: str) -> str | None:
        """What makes the address one that is not called; None when it may be."""
        kind = special_kind(address) if self.public_only else None
        if kind is None and self.refused and any(ip_address(address) in ip_network(text) for text in self.refused):
            return "refused_network"
        return kind

    def takes_port(self, port: int) -> bool:
        """Whether the port may be called."""
        if self.ports is not None:
            return port in self.ports
        if not self.public_only:
            return port > 0
        return port in {80, 443} or (port >= PORT_UNPRIVILEGED and port not in _FOREIGN_PORTS)


PUBLIC = Reach()
"""For addresses that users supply."""
ANYWHERE = Reach(public_only=False)
"""For addresses that come from your own configuration."""


@lru_cache(ADDRESSES_REMEMBERED_MAX)
def checked(address: str | URL, reach: Reach) -> URL:
    """The URL, if it may be called as far as its text tells; what its name leads to is checked when connecting.

    Raises:
        Failure: ADDRESS_REFUSED, with the reason.
    """
    url = _parsed(address)
    host, port = url.raw_host or "", url.port
    if url.scheme not in {"http", "https"}:
        raise _refusal(host, "scheme")
    # yarl forgets an empty name before the @; the text does not.
    if url.raw_user is not None or url.raw_password is not None or "@" in _authority(str(address)):
        raise _refusal(host, "userinfo")
    try:
        literal = literal_address(host)
    except ValueError:
        raise _refusal(host, "host") from None
    if literal is None and (len(host) > HOST_CHARS_MAX or not _HOST.match(host)):
        raise _refusal(host, "host")
    if port is None or port == 0:
        raise _refusal(host, "port")
    if reach.allows(host, port):
        return url
    if not reach.takes_port(port):
        raise _refusal(host, "port")
    kind = None if literal is None else reach.kind_refused(str(literal))
    if kind is not None:
        raise _refusal(host, "address", kind)
    return url


class AddressRefused(OSError):
    """A name leads where the guard does not go; an OSError, so that the connector carries it along."""

    def __init__(self, host: str, kind: str) -> None:
        super().__init__(f"{host} leads to an address that is refused: {kind}")
        self.host = host
        self.kind = kind

    def failure(self) -> Failure:
        """The same as a failure: one for each caller, though several may wait for one look-up."""
        return _refusal(self.host, "address", self.kind)


class CheckedResolver(AbstractResolver):
    """Looks a name up and hands out the answers only if every one of them may be called."""

    def __init__(self, reach: Reach, lookup: Lookup | None = None) -> None:
        self._reach = reach
        self._lookup = look_up if lookup is None else lookup
        self._allowed: set[tuple[str, int]] = set()

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_UNSPEC,  # noqa: ARG002 - aiohttp's signature; every answer counts
    ) -> list[ResolveResult]:
        """The addresses of the name.

        Raises:
            AddressRefused: one of them is refused.
            OSError: the name has no address.
        """
        answers = await self._lookup(host, port)
        if not answers:
            raise socket.gaierror(socket.EAI_NONAME, "the name has no address")
        if self._reach.allows(host, port):
            self._allowed.update((answer, port) for answer in answers)
        else:
            self._check(host, answers)
        return [_result(host, answer, port) for answer in answers[:ADDRESSES_TRIED_MAX]]

    async def close(self) -> None:
        """There is nothing to close."""

    def open_socket(self, info: AddrInfoType) -> socket.socket:
        """The socket for a connection: the last look at where it really goes, should the steps before have erred.

        Raises:
            AddressRefused: this address was not let through.
        """
        family, kind, protocol, _, where = info
        address, port = str(where[0]), int(where[1])
        if (address, port) not in self._allowed and not self._reach.allows(address, port):
            self._check(address, [address])
        return socket.socket(family=family, type=kind, proto=protocol)

    def _check(self, host: str, answers: Sequence[str]) -> None:
        for answer in answers:
            kind = self._reach.kind_refused(answer)
            if kind is not None:
                raise AddressRefused(host, kind)


async def look_up(host: str, port: int) -> list[str]:
    """The addresses of the name, as the system finds them."""
    import asyncio

    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [_text(address) for _, _, _, _, address in found]


def _text(address: tuple[Any, ...]) -> str:
    # The last of four is the zone of an IPv6 address; with one it is not a public address.
    return f"{address[0]}%{address[3]}" if len(address) == 4 and address[3] and "%" not in address[0] else address[0]


def _result(host: str, address: str, port: int) -> ResolveResult:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=_NUMERIC_FLAGS)


def _parsed(address: str | URL) -> URL:
    text = str(address)
    if len(text) > URL_CHARS_MAX or _UNWRITTEN.search(text):
        raise _refusal("", "url")
    try:
        url = URL(address)
        _ = url.host  # reading it decodes the name, which fails for one that IDNA does not know
    except ValueError:
        raise _refusal("", "url") from None
    return url


def _authority(text: str) -> str:
    return re.split(r"[/?#]", text.partition("://")[2], maxsplit=1)[0]


def _refusal(host: str, reason: str, kind: str = "") -> Failure:
    # Which kind of address a name leads to is a map of our network: for the log, not for the user who supplied the URL.
    return ADDRESS_REFUSED(reason=reason, host=Private(host), kind=Private(kind))
