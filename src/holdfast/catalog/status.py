"""How an HTTP status becomes a fault: one table per link, and one that fits most.

```python
strict = DEFAULT_STATUSES.but({500: INTERNAL_ERROR})                  # this callee's 500 is not tried again
converter = StatusTable({400: GW_4XX, 406: GW_4XX}, {5: GW_5XX})      # a table of one's own
```
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from holdfast.base import Private, limits
from holdfast.catalog import core
from holdfast.catalog.failure import Failure
from holdfast.catalog.fault import Fault
from holdfast.catalog.retry_after import retry_after_s

FAILED_FROM = 400
"""A status below this is no failure, unless a table names it."""


@dataclass(frozen=True, slots=True)
class StatusTable:
    """Which fault each status is: the exact status first, then its hundred (4 is every 4xx)."""

    exact: Mapping[int, Fault] = field(default_factory=dict)
    ranges: Mapping[int, Fault] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for status in self.exact:
            if status < 100:
                raise ValueError(f"{status} is not an HTTP status; a whole hundred goes into `ranges`")
        for hundred in self.ranges:
            if not 1 <= hundred <= 9:
                raise ValueError(f"{hundred} is not the first digit of an HTTP status")
        object.__setattr__(self, "exact", MappingProxyType(dict(self.exact)))
        object.__setattr__(self, "ranges", MappingProxyType(dict(self.ranges)))

    def fault(self, status: int) -> Fault | None:
        """The fault of a status; None is no failure. A failed status that the table does not name is UNKNOWN."""
        found = self.exact.get(status) or self.ranges.get(status // 100)
        if found is None and not 100 <= status < FAILED_FROM:
            return core.UNKNOWN
        return found

    def but(self, exact: Mapping[int, Fault] | None = None, ranges: Mapping[int, Fault] | None = None) -> StatusTable:
        """This table with changes; a new range replaces all that was said about its statuses."""
        exact, ranges = exact or {}, ranges or {}
        kept = {status: fault for status, fault in self.exact.items() if status // 100 not in ranges}
        return StatusTable({**kept, **exact}, {**self.ranges, **ranges})


DEFAULT_STATUSES = StatusTable(
    {
        400: core.BAD_REQUEST,
        401: core.UNAUTHORIZED,
        403: core.FORBIDDEN,
        404: core.NOT_FOUND,
        405: core.METHOD_NOT_ALLOWED,
        408: core.REQUEST_TIMEOUT,
        409: core.CONFLICT,
        410: core.GONE,
        413: core.PAYLOAD_TOO_LARGE,
        415: core.UNSUPPORTED_MEDIA_TYPE,
        422: core.UNPROCESSABLE,
        425: core.TOO_EARLY,
        429: core.RATE_LIMIT_EXCEEDED,
        500: core.UPSTREAM_ERROR,
        501: core.NOT_IMPLEMENTED,
        502: core.BAD_GATEWAY,
        503: core.SERVICE_UNAVAILABLE,
        504: core.GATEWAY_TIMEOUT,
        505: core.NOT_IMPLEMENTED,
        507: core.STORAGE_FULL,
    },
    {4: core.BAD_REQUEST, 5: core.UPSTREAM_ERROR},
)
"""Sensible for most callees: 408, 425, 429 and every 5xx but 501, 505 and 507 may be tried again."""

STATUS_CARRIERS = (
    "aiohttp.ClientResponseError",
    "httpx.HTTPStatusError",
    "httpx2.HTTPStatusError",
    "requests.HTTPError",
    "urllib.error.HTTPError",
    "google.genai.errors.APIError",
    "google.api_core.exceptions.GoogleAPICallError",
)
"""The errors that carry an HTTP status, by name."""

_PARSERS = frozenset({"aiohttp.http_exceptions"})
"""aiohttp gives an answer it cannot parse the status 400, which the callee never sent."""


def classify_status(
    status: int, headers: Mapping[str, str] | None = None, *, table: StatusTable = DEFAULT_STATUSES
) -> Failure | None:
    """The failure that an answer with this status is, with its Retry-After; None when it is no failure."""
    fault = table.fault(status)
    if fault is None:
        return None
    return Failure(fault, details={"upstream_status": status}, retry_after_s=_asked_s(headers))


def read_status(error: BaseException, table: StatusTable) -> Failure | Fault | None:
    """The failure that an error with an HTTP status in it is; None when there is no status."""
    response = getattr(error, "response", None)
    status = _status_of(response, ("status_code", "status"))
    if status is None:
        status = _status_of(error, ("status", "status_code", "code"))
    if status is None:
        return None
    if type(error.__cause__).__module__ in _PARSERS:
        return core.INVALID_RESPONSE
    headers = getattr(response, "headers", None)
    failure = classify_status(status, getattr(error, "headers", None) if headers is None else headers, table=table)
    if failure is None:
        # The client raised although the status is fine: a wrong content type, a redirect without end.
        failure = Failure(core.INVALID_RESPONSE, details={"upstream_status": status})
    original = f"{type(error).__name__}: {error}"[: limits().message_chars_max]
    failure.details = {**failure.details, "original": Private(original)}
    return failure


def _status_of(holder: object, names: tuple[str, ...]) -> int | None:
    for name in names:
        held = getattr(holder, name, None)
        # A bool is an int, and zero is how some clients say that there was none.
        if isinstance(held, int) and not isinstance(held, bool) and held:
            return int(held)
    return None


def _asked_s(headers: Mapping[str, str] | None) -> float | None:
    if headers is None:
        return None
    for name, value in headers.items():
        if name.lower() == "retry-after":
            return retry_after_s(value)
    return None
