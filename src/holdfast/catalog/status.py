"""How an HTTP status becomes a fault: one table per link, and one that fits most.

```python
lenient = DEFAULT_STATUSES.but({404: NOT_FOUND})                      # this callee's 404 is our callers' 404 too
converter = StatusTable({400: GW_4XX, 406: GW_4XX}, {5: GW_5XX})      # a table of one's own
```

Always true: without a table that says so, no status and no word of an upstream becomes our own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from holdfast.catalog import core
from holdfast.catalog.fault import Fault

FAILED_FROM = 400
"""A status below this is not a failure, unless a table names it."""


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
        """The fault of a status; None is not a failure. A failed status that is not named is the upstream's."""
        found = self.exact.get(status) or self.ranges.get(status // 100)
        if found is None and not 100 <= status < FAILED_FROM:
            return _UNNAMED.get(status // 100, core.INVALID_RESPONSE)
        return found

    def but(self, exact: Mapping[int, Fault] | None = None, ranges: Mapping[int, Fault] | None = None) -> StatusTable:
        """This table with changes; a new range replaces all that was said about its statuses."""
        exact, ranges = exact or {}, ranges or {}
        kept = {status: fault for status, fault in self.exact.items() if status // 100 not in ranges}
        return StatusTable({**kept, **exact}, {**self.ranges, **ranges})


_UNNAMED = {4: core.UPSTREAM_REJECTED, 5: core.UPSTREAM_ERROR}

HTTP_STATUSES = StatusTable(
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
"""Each status as the fault of that status: for what is said in our own name, and for a link that passes it on."""

DEFAULT_STATUSES = StatusTable(
    {
        401: core.UPSTREAM_UNAUTHORIZED,
        403: core.UPSTREAM_UNAUTHORIZED,
        407: core.UPSTREAM_UNAUTHORIZED,
        408: core.UPSTREAM_BUSY,
        425: core.UPSTREAM_BUSY,
        429: core.UPSTREAM_BUSY,
        501: core.UPSTREAM_REJECTED,
        502: core.BAD_GATEWAY,
        503: core.SERVICE_UNAVAILABLE,
        504: core.GATEWAY_TIMEOUT,
        505: core.UPSTREAM_REJECTED,
        507: core.UPSTREAM_REJECTED,
    },
    _UNNAMED,
)
"""What an upstream's status is to our own callers: 502, 503 or 504.

408, 425, 429 and every 5xx but 501, 505 and 507 may be tried again; a breaker counts 5xx only, and not those three.
"""

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
