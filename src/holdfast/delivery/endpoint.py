"""An endpoint: where events are sent, which ones, how they are signed, and how patiently."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, TypedDict

from holdfast.base import Secret, encode, limits, utc_text
from holdfast.catalog.core import BAD_REQUEST
from holdfast.policy import RateLimit
from holdfast.store import Row
from holdfast.store.sealing import seal, unseal

SCHEDULE_S = (1.0, 2.0, 4.0, 8.0)
"""At once, then after 1, 2, 4 and 8 seconds: five attempts."""
TIMEOUT_S = 10.0
RETRY_AFTER_MAX_S = 3_600.0
IN_FLIGHT_MAX = 10
URL_CHARS_MAX = 2_000
TYPES_MAX = 100
HEADERS_MAX = 20
HEADER_CHARS_MAX = 1_000
ATTEMPTS_MAX = 50
TENANT_CHARS_MAX = 200

TYPE_SHAPE = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\Z")
"""Event types are words with full stops between them."""
_PATTERN = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*(\.\*)?\Z")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}\Z")
_URL = re.compile(r"https?://[!-~]+\Z")
RESERVED = re.compile(
    r"(host|content-length|content-type|transfer-encoding|connection|upgrade|te|user-agent|x-gr-signature"
    r"|webhook-.*|svix-.*)\Z",
    re.IGNORECASE,
)
"""Headers that the sender or the signature sets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningSecret:
    """A secret in force, and until when."""

    secret: Secret
    created_us: int
    expires_us: int | None


class EndpointSettings(TypedDict, total=False):
    """What may be said about an endpoint besides its address; the fields of `Endpoint` tell what each means."""

    event_types: Sequence[str]
    scheme: str
    headers: Mapping[str, Secret]
    delays_s: Sequence[float]
    timeout_s: float
    retry_after_max_s: float
    in_flight_max: int
    rate_limit: RateLimit | None
    ordered: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One receiver of events. Values that cannot be right are refused with BAD_REQUEST, which names the field."""

    id: str
    url: str
    tenant: str = ""
    event_types: tuple[str, ...] = ()
    """Which events it wants: `order.paid`, or `order.*` for everything below; none is all."""
    scheme: str = "standard"
    headers: Mapping[str, Secret] = field(default_factory=dict)
    """Sent with every event; they may hold tokens, so they print as `***`."""
    delays_s: tuple[float, ...] = SCHEDULE_S
    """Between the attempts; one attempt more than there are delays."""
    timeout_s: float = TIMEOUT_S
    retry_after_max_s: float = RETRY_AFTER_MAX_S
    """A longer Retry-After counts as this."""
    in_flight_max: int = IN_FLIGHT_MAX
    """Maximum number of requests that are open at once, for each worker process."""
    rate_limit: RateLimit | None = None
    """All processes together; what exceeds it waits and spends no attempt."""
    ordered: bool = False
    """Events published under the same key are sent one after the other, each when the one before was delivered or
    given up."""
    disabled_us: int | None = None
    disabled_reason: str | None = None
    created_us: int = 0
    secrets: tuple[SigningSecret, ...] = ()
    """Those in force, the newest first."""

    def __post_init__(self) -> None:
        # Settings come from forms and JSON: what is of the wrong sort is refused as well as what is out of range.
        _check_url(self.url)
        _refuse_unless(_is_tenant(self.tenant), "tenant", f"has at most {TENANT_CHARS_MAX} printable characters")
        _check_types(self.event_types)
        _refuse_unless(isinstance(self.scheme, str), "scheme", "is the name of a scheme")
        _check_headers(self.headers)
        _check_delays(self.delays_s)
        _refuse_unless(_is_delay(self.retry_after_max_s), "retry_after_max_s", "is a time that can be waited")
        good = _is_number(self.timeout_s) and 0 < self.timeout_s <= limits().deadline_s_max
        _refuse_unless(good, "timeout_s", "is a positive number of seconds")
        good = type(self.in_flight_max) is int and 1 <= self.in_flight_max <= 1_000
        _refuse_unless(good, "in_flight_max", "is a whole number between 1 and 1000")
        _refuse_unless(
            self.rate_limit is None or isinstance(self.rate_limit, RateLimit), "rate_limit", "is a RateLimit"
        )
        _refuse_unless(isinstance(self.ordered, bool), "ordered", "is true or false")

    @property
    def enabled(self) -> bool:
        """Whether events are sent to it."""
        return self.disabled_us is None

    @property
    def attempts(self) -> int:
        """All attempts, the first included."""
        return len(self.delays_s) + 1

    def wants(self, event_type: str) -> bool:
        """Whether it is told of events of this type."""
        return wants(self.event_types, event_type)

    def delay_s(self, attempt: int) -> float:
        """The time between this attempt (the first is 1) and the next."""
        return self.delays_s[min(attempt, len(self.delays_s)) - 1] if self.delays_s else 0.0

    def columns(self) -> dict[str, Any]:
        """As the table takes it."""
        limit = self.rate_limit
        return {
            "id": self.id,
            "url": self.url,
            "scheme": self.scheme,
            "event_types": encode(self.event_types),
            "delays_s": encode(self.delays_s),
            "headers": self._sealed_headers(),
            "timeout_us": _us(self.timeout_s),
            "retry_after_max_us": _us(self.retry_after_max_s),
            "in_flight_max": self.in_flight_max,
            "limit_count": None if limit is None else limit.count,
            "limit_per_us": None if limit is None else _us(limit.per_s),
            "limit_burst": None if limit is None else limit.burst,
            "ordered": int(self.ordered),
        }

    def _sealed_headers(self) -> str:
        if not self.headers:
            return "{}"
        said = encode({name: value.reveal() for name, value in self.headers.items()})
        return seal(Secret(said), headers_place(self.id))

    def __str__(self) -> str:
        state = "enabled" if self.disabled_us is None else f"disabled at {utc_text(self.disabled_us)}"
        return f"{self.id} ({self.url}, {state})"


def of_row(row: Row, secrets: Sequence[Row] = ()) -> Endpoint:
    """The endpoint that the table holds.

    Raises:
        Failure: SECRET_UNREADABLE.
    """
    (id_, tenant, url, scheme, types, delays, headers, timeout_us, ceiling_us, in_flight, count, per_us, burst,
     ordered, disabled_us, reason, created_us) = row  # fmt: skip
    return Endpoint(
        id=id_,
        tenant=tenant,
        url=url,
        scheme=scheme,
        event_types=tuple(json.loads(types)),
        delays_s=tuple(json.loads(delays)),
        headers={name: Secret(value) for name, value in _headers(id_, headers).items()},
        timeout_s=timeout_us / 1_000_000,
        retry_after_max_s=ceiling_us / 1_000_000,
        in_flight_max=in_flight,
        rate_limit=None if count is None else RateLimit(count=count, per_s=per_us / 1_000_000, burst=burst),
        ordered=bool(ordered),
        disabled_us=disabled_us,
        disabled_reason=reason,
        created_us=created_us,
        secrets=tuple(
            SigningSecret(secret=unseal(secret, secret_place(id_)), created_us=made_us, expires_us=expires_us)
            for secret, made_us, expires_us in secrets
        ),
    )


def secret_place(endpoint_id: str) -> str:
    """What the stored secrets of an endpoint are bound to."""
    return f"webhook_secret:{endpoint_id}"


def headers_place(endpoint_id: str) -> str:
    """What the stored headers of an endpoint are bound to."""
    return f"webhook_headers:{endpoint_id}"


def _headers(endpoint_id: str, stored: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(unseal(stored, headers_place(endpoint_id)).reveal())
    return found


def wants(patterns: Sequence[str], event_type: str) -> bool:
    """Whether any of the patterns fits; no pattern is all."""
    return not patterns or any(
        event_type.startswith(pattern[:-1]) if pattern.endswith(".*") else event_type == pattern for pattern in patterns
    )


def _check_url(url: Any) -> None:
    from urllib.parse import urlsplit

    said = "is http(s)://host/path without a user, a password or a fragment"
    _refuse_unless(
        isinstance(url, str) and len(url) <= URL_CHARS_MAX and bool(_URL.match(url)) and "\\" not in url, "url", said
    )
    try:
        parts = urlsplit(url)
        good = bool(parts.hostname) and parts.port != 0 and "@" not in parts.netloc and not parts.fragment
    except ValueError:
        good = False
    _refuse_unless(good, "url", said)


def _is_tenant(value: object) -> bool:
    return isinstance(value, str) and len(value) <= TENANT_CHARS_MAX and (not value or value.isprintable())


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _is_delay(value: Any) -> bool:
    return _is_number(value) and 0 <= value <= limits().delay_s_max


def _check_delays(delays: Any) -> None:
    listed = isinstance(delays, tuple) and len(delays) < ATTEMPTS_MAX and all(_is_delay(one) for one in delays)
    _refuse_unless(listed, "delays_s", f"is a list of fewer than {ATTEMPTS_MAX} numbers of seconds that can be waited")


def _check_types(types: Any) -> None:
    listed = isinstance(types, tuple) and len(types) <= TYPES_MAX
    _refuse_unless(listed, "event_types", f"is a list of at most {TYPES_MAX} entries")
    for wanted in types:
        good = isinstance(wanted, str) and bool(_PATTERN.match(wanted))
        _refuse_unless(good, "event_types", "holds types such as order.paid or order.*")


def _check_headers(headers: Any) -> None:
    listed = isinstance(headers, Mapping) and len(headers) <= HEADERS_MAX
    _refuse_unless(listed, "headers", f"is an object with at most {HEADERS_MAX} entries")
    for name, value in headers.items():
        usable = isinstance(name, str) and bool(_HEADER_NAME.match(name)) and not RESERVED.match(name)
        _refuse_unless(usable, "headers", f"cannot set {name!r}")
        _refuse_unless(isinstance(value, Secret), "headers", f"has a value for {name} that is not text")
        text = value.reveal()
        printable = text.isascii() and text.isprintable() and len(text) <= HEADER_CHARS_MAX
        _refuse_unless(printable, "headers", f"has a value for {name} that no header can hold")


def _refuse_unless(good: bool, name: str, says: str) -> None:
    if not good:
        raise BAD_REQUEST(f"{{field}} {says}.", field=name)


def _us(seconds: float) -> int:
    return round(seconds * 1_000_000)
