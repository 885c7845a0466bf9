"""Which fault a reply names: the catalog's where it has the code, else one made for the occurrence."""

from __future__ import annotations

from holdfast.catalog.catalog import Catalog
from holdfast.catalog.core import CORE, INVALID_RESPONSE
from holdfast.catalog.fault import CODE_CHARS_MAX, CODE_SHAPE, Blame, Fault, blame_of
from holdfast.catalog.status import HTTP_STATUSES

STATUSES_RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504})

CODES_RETRIED = frozenset(
    {
        "NETWORK_TIMEOUT",
        "CONNECTION_RESET",
        "DATABASE_CONNECTION_ERROR",
        "EXTERNAL_SERVICE_TIMEOUT",
        "TEMPORARY_UNAVAILABLE",
        "RATE_LIMIT_EXCEEDED",
        "QUOTA_EXCEEDED",
        "SERVICE_OVERLOADED",
    }
)
"""Codes that mean the same everywhere, whatever status comes with them."""

URL_CHARS_MAX = 2_000
SAYS = "The other side reported a failure."


def fault_of_code(
    code: str, *, status: int | None, wait_s: float | None, catalog: Catalog | None, documentation_url: str = ""
) -> Fault | None:
    """The fault that a reply names, or None when what it names is not a code.

    Without a catalog the core's fault stands for the code, unless the reply's status says otherwise about a retry:
    a callee's INTERNAL_ERROR with 500 is worth another attempt, though our own is not.
    """
    if len(code) > CODE_CHARS_MAX or not CODE_SHAPE.match(code):
        return None
    known = (CORE if catalog is None else catalog).get(code)
    if known is not None and (catalog is not None or status is None):
        return known
    retry = code in CODES_RETRIED or status in STATUSES_RETRIED or wait_s is not None
    if known is not None and known.retryable == retry:
        return known
    return _made(code, 500 if status is None else status, retry=retry, documentation_url=documentation_url)


def fault_of_status(status: int | None, catalog: Catalog | None) -> Fault:
    """The fault of a reply that names none: its status tells, and without one it is an INVALID_RESPONSE."""
    fault = (None if status is None else HTTP_STATUSES.fault(status)) or INVALID_RESPONSE
    return (None if catalog is None else catalog.get(fault.code)) or fault


def _made(code: str, status: int, *, retry: bool, documentation_url: str = "") -> Fault:
    # A link from outside ends up in front of people: only the web is a place to send them.
    trusted = documentation_url.startswith(("https://", "http://")) and len(documentation_url) <= URL_CHARS_MAX
    return Fault(
        code=code,
        status=status,
        says=SAYS,
        retry=retry,
        blame=Blame.UPSTREAM if status >= 500 else blame_of(status),
        documentation_url=documentation_url if trusted else "",
    )
