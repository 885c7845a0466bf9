"""How network errors are read: refused, name, timeout and reset may be tried again, TLS may not.

Errors of other libraries are named, not imported: `"httpx.ConnectTimeout"` costs nothing where httpx is not used.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.base import limits
from holdfast.catalog.core import (
    CONNECTION_REFUSED,
    CONNECTION_RESET,
    DNS_FAILED,
    INVALID_RESPONSE,
    NETWORK_TIMEOUT,
    STORAGE_FULL,
    TLS_ERROR,
    UPSTREAM_ERROR,
)
from holdfast.catalog.fault import Fault

if TYPE_CHECKING:
    from holdfast.catalog.classify import Readings

NETWORK_CODES = frozenset(fault.code for fault in (CONNECTION_REFUSED, CONNECTION_RESET, DNS_FAILED, NETWORK_TIMEOUT))
"""The codes of a network that failed for now; TLS is not among them, because trying again does not mend it."""


@dataclass(frozen=True, slots=True)
class Wrapper:
    """The reading of an error that stands around another: the inner one decides, if it is known."""

    through: tuple[str, ...]
    """The attributes that may hold the inner error, best first."""
    otherwise: Fault | None = None
    """What it is when nothing known is inside."""

    def inner(self, error: BaseException) -> BaseException | None:
        """The error inside, or None; a tuple such as `args` counts when it holds just one thing."""
        for name in self.through:
            held = getattr(error, name, None)
            if isinstance(held, tuple) and len(held) == 1:
                held = held[0]
            if isinstance(held, BaseException) and held is not error:
                return held
        return None


ERRNO_FAULTS: Mapping[int, Fault] = {
    number: fault
    for fault, names in (
        (CONNECTION_REFUSED, ("ECONNREFUSED", "ENETUNREACH", "EHOSTUNREACH", "ENETDOWN", "EHOSTDOWN")),
        (CONNECTION_RESET, ("ECONNRESET", "EPIPE", "ECONNABORTED", "ENETRESET", "ENOTCONN", "ESHUTDOWN")),
        (NETWORK_TIMEOUT, ("ETIMEDOUT",)),
        (STORAGE_FULL, ("ENOSPC", "EDQUOT")),
    )
    for name in names
    # Not every platform has every number.
    if (number := getattr(errno, name, None)) is not None
}

_ERRNO_IN_TEXT = re.compile(r"\[Errno (\d{1,5})\]")


def read_os_error(error: BaseException) -> Fault | None:
    """An OSError by its number; a missing file or permission is not a network error and is left to others."""
    number = getattr(error, "errno", None)
    if number is not None:
        return ERRNO_FAULTS.get(number)
    known = (ERRNO_FAULTS.get(inner) for inner in _inner_numbers(error))
    return next((fault for fault in known if fault is not None), None)


def _inner_numbers(error: BaseException) -> Iterator[int]:
    """The numbers behind an OSError that stands for several failed addresses and has none of its own."""
    # asyncio leaves them in the text, anyio in the cause.
    yield from (int(digits) for digits in _ERRNO_IN_TEXT.findall(str(error)[: limits().message_chars_max]))
    cause = error.__cause__
    for inner in cause.exceptions if isinstance(cause, BaseExceptionGroup) else (cause,):
        number = getattr(inner, "errno", None)
        if isinstance(number, int):
            yield number


_STANDARD: Readings = {
    ConnectionRefusedError: CONNECTION_REFUSED,
    ConnectionError: CONNECTION_RESET,
    TimeoutError: NETWORK_TIMEOUT,
    OSError: read_os_error,
    "socket.gaierror": DNS_FAILED,
    "socket.herror": DNS_FAILED,
    "asyncio.IncompleteReadError": CONNECTION_RESET,
    "anyio.BrokenResourceError": CONNECTION_RESET,
    "anyio.EndOfStream": CONNECTION_RESET,
    "ssl.SSLError": TLS_ERROR,
    # The connection ended under TLS; that says nothing about keys or certificates.
    "ssl.SSLEOFError": CONNECTION_RESET,
    "ssl.SSLZeroReturnError": CONNECTION_RESET,
    "ssl.SSLSyscallError": CONNECTION_RESET,
    "http.client.IncompleteRead": CONNECTION_RESET,
    "http.client.BadStatusLine": INVALID_RESPONSE,
    "http.client.LineTooLong": INVALID_RESPONSE,
    "http.client.UnknownProtocol": INVALID_RESPONSE,
    "http.client.UnknownTransferEncoding": INVALID_RESPONSE,
    "urllib.error.ContentTooShortError": CONNECTION_RESET,
    "urllib.error.URLError": Wrapper(("reason", "__cause__")),
    BaseExceptionGroup: Wrapper(("exceptions",)),
}

_AIOHTTP: Readings = {
    "aiohttp.ClientConnectorDNSError": DNS_FAILED,
    "aiohttp.ClientSSLError": Wrapper(("os_error", "certificate_error", "__cause__"), TLS_ERROR),
    "aiohttp.ClientConnectorError": Wrapper(("os_error", "__cause__"), CONNECTION_REFUSED),
    "aiohttp.ServerFingerprintMismatch": TLS_ERROR,
    "aiohttp.ServerTimeoutError": NETWORK_TIMEOUT,
    "aiohttp.ClientOSError": read_os_error,
    "aiohttp.ClientConnectionError": CONNECTION_RESET,
    "aiohttp.ClientPayloadError": CONNECTION_RESET,
}

# httpx has the inner error as its cause, httpcore as its only argument.
_HTTPX_INNER = ("__cause__", "args")
_HTTPX_NAMES: Readings = {
    "TimeoutException": NETWORK_TIMEOUT,
    "ConnectError": Wrapper(_HTTPX_INNER, CONNECTION_REFUSED),
    "ProxyError": Wrapper(_HTTPX_INNER, CONNECTION_REFUSED),
    "NetworkError": Wrapper(_HTTPX_INNER, CONNECTION_RESET),
    "RemoteProtocolError": CONNECTION_RESET,
    "DecodingError": INVALID_RESPONSE,
    "TooManyRedirects": INVALID_RESPONSE,
}
_HTTPX: Readings = {
    f"{package}.{name}": reading
    for package in ("httpx", "httpcore", "httpx2", "httpcore2")
    for name, reading in _HTTPX_NAMES.items()
}

_REQUESTS: Readings = {
    "requests.Timeout": NETWORK_TIMEOUT,
    # It is a ConnectionError before it is a Timeout, so it needs a line of its own.
    "requests.ConnectTimeout": NETWORK_TIMEOUT,
    "requests.exceptions.SSLError": Wrapper(("args",), TLS_ERROR),
    "requests.ConnectionError": Wrapper(("args", "__context__"), CONNECTION_RESET),
    "requests.exceptions.ChunkedEncodingError": CONNECTION_RESET,
    "requests.exceptions.ContentDecodingError": INVALID_RESPONSE,
    "requests.JSONDecodeError": INVALID_RESPONSE,
    "requests.TooManyRedirects": INVALID_RESPONSE,
    "urllib3.exceptions.MaxRetryError": Wrapper(("reason",), CONNECTION_REFUSED),
    "urllib3.exceptions.NameResolutionError": DNS_FAILED,
    "urllib3.exceptions.NewConnectionError": Wrapper(("__cause__", "__context__"), CONNECTION_REFUSED),
    "urllib3.exceptions.TimeoutError": NETWORK_TIMEOUT,
    "urllib3.exceptions.ProxyError": Wrapper(("original_error",), CONNECTION_REFUSED),
    "urllib3.exceptions.SSLError": Wrapper(("args", "__cause__"), TLS_ERROR),
    "urllib3.exceptions.ProtocolError": CONNECTION_RESET,
    "urllib3.exceptions.DecodeError": INVALID_RESPONSE,
    "urllib3.exceptions.ResponseError": UPSTREAM_ERROR,
}

_BOTOCORE: Readings = {
    "botocore.exceptions.ConnectTimeoutError": NETWORK_TIMEOUT,
    "botocore.exceptions.ReadTimeoutError": NETWORK_TIMEOUT,
    "botocore.exceptions.EndpointConnectionError": CONNECTION_REFUSED,
    "botocore.exceptions.ProxyConnectionError": CONNECTION_REFUSED,
    "botocore.exceptions.ConnectionClosedError": CONNECTION_RESET,
    "botocore.exceptions.SSLError": TLS_ERROR,
}

REPLY_READINGS: Readings = {
    "json.JSONDecodeError": INVALID_RESPONSE,
    UnicodeDecodeError: INVALID_RESPONSE,
}
"""What is known on a link only: there it is the upstream's reply that could not be decoded."""

NETWORK_READINGS: Readings = {
    **_STANDARD,
    **_AIOHTTP,
    **_HTTPX,
    **_REQUESTS,
    **_BOTOCORE,
}
"""What Holdfast knows about network errors, by class or by name."""
