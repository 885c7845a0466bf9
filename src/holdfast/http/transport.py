"""How what aiohttp raises becomes a failure of the core catalog, and how a connection is made."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any

import aiohttp
from aiohttp import http_exceptions

from holdfast.base import Private
from holdfast.catalog import Classifier, Failure
from holdfast.catalog.core import CONNECTION_RESET, INVALID_RESPONSE, NETWORK_TIMEOUT
from holdfast.http.ssrf import AddressRefused, CheckedResolver, Lookup, Reach
from holdfast.http.wire import Wire

LOOK_UP_KEPT_S = 10
"""How long checked answers of a look-up serve for further connections."""
CAUSES_MAX = 5
"""Maximum number of errors in a chain of causes that are searched for a reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long each phase of an exchange may take; the deadline of the context counts besides."""

    connect_s: float = 5.0
    """For a place in the pool, the look-up, the connection and TLS together."""
    read_s: float = 30.0
    """Between two pieces of the reply."""
    total_s: float = 60.0
    """For everything, redirects included."""

    def __post_init__(self) -> None:
        for name in ("connect_s", "read_s", "total_s"):
            seconds = getattr(self, name)
            if not (isfinite(seconds) and seconds > 0):
                raise ValueError(f"{name}: {seconds} is not a positive number of seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """How many connections a client keeps."""

    connections_max: int = 200
    per_host_max: int = 100
    idle_s: float = 15.0
    """Time after which a connection that was not used is closed."""

    def __post_init__(self) -> None:
        if self.connections_max < 1 or self.per_host_max < 1 or self.idle_s <= 0:
            raise ValueError("a pool has room for at least one connection, for some time")


def open_wire(reach: Reach, pool: Pool, tls: ssl.SSLContext | None, lookup: Lookup | None) -> Wire:
    """Connections on the running loop that go only where the reach allows."""
    resolver = CheckedResolver(reach, lookup)
    return Wire(
        aiohttp.TCPConnector(
            resolver=resolver,
            socket_factory=resolver.open_socket,
            ttl_dns_cache=LOOK_UP_KEPT_S,
            limit=pool.connections_max,
            limit_per_host=pool.per_host_max,
            keepalive_timeout=pool.idle_s,
            ssl=True if tls is None else tls,
            timeout_ceil_threshold=inf,
        )
    )


TRANSPORT_ERRORS = (aiohttp.ClientError, http_exceptions.HttpProcessingError, OSError)
"""What an exchange may raise because of the network or the other side."""


def transport_failure(error: BaseException, host: str) -> Failure:
    """The failure that an error of an exchange is; the host is for the log."""
    refused = getattr(error, "os_error", None)
    failure = refused.failure() if isinstance(refused, AddressRefused) else _CLASSIFIER.classify(error)
    failure.details = {**failure.details, "host": Private(host)}
    failure.__cause__ = error
    return failure


def reason_of(error: BaseException | None) -> str:
    """Why a name was not found, or why TLS or a connection failed, in the words of the system; empty when unknown."""
    for _ in range(CAUSES_MAX):
        if error is None or isinstance(error, AddressRefused):
            break
        words = getattr(error, "verify_message", "") or getattr(error, "reason", "")
        if isinstance(error, ssl.SSLError) and isinstance(words, str) and words:
            return words.replace("_", " ").lower() if words.isupper() else words.rstrip(".")
        inner = getattr(error, "os_error", None) or getattr(error, "certificate_error", None)
        if inner is None and isinstance(error, OSError) and error.strerror:
            return str(error.strerror)
        error = inner or error.__cause__
    return ""


def _read_payload(error: BaseException) -> Any:
    """A body that ends too early was cut off; one whose framing makes no sense was never right."""
    cause = error.__cause__
    cut = isinstance(cause, http_exceptions.ContentLengthError) or "Not enough data" in str(cause)
    return CONNECTION_RESET if cut or isinstance(cause, OSError) or cause is None else INVALID_RESPONSE


def _read_disconnect(error: BaseException) -> Any:
    """A server that closes in the middle of a header has answered, if badly; one that closes before has not."""
    begun = not isinstance(getattr(error, "message", ""), str)
    return INVALID_RESPONSE if begun else CONNECTION_RESET


_CLASSIFIER = Classifier(
    {
        "aiohttp.ConnectionTimeoutError": Failure(NETWORK_TIMEOUT, details={"phase": "connect"}),
        "aiohttp.SocketTimeoutError": Failure(NETWORK_TIMEOUT, details={"phase": "read"}),
        "aiohttp.ClientPayloadError": _read_payload,
        "aiohttp.ServerDisconnectedError": _read_disconnect,
        "aiohttp.http_exceptions.HttpProcessingError": INVALID_RESPONSE,
        "aiohttp.ClientResponseError": INVALID_RESPONSE,
    }
)
"""For errors of the exchange itself: a status is not an error here, so whatever carries one could not be read."""
