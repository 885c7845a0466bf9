"""One request as it leaves: what it carries along, and what becomes of it after a redirect. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypedDict

from yarl import URL

from holdfast.base import Private, encode
from holdfast.catalog import Failure, current_context
from holdfast.catalog.edge_faults import REDIRECT_REFUSED
from holdfast.guard import current_key
from holdfast.http.decompress import asked_encodings
from holdfast.http.file_body import FileBody
from holdfast.http.ssrf import Reach, checked
from holdfast.http.transport import Timeouts
from holdfast.http.wire import OURS
from holdfast.policy import DEADLINE_HEADER, to_header

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
"""They change nothing, so they need no key."""
REDIRECTS = frozenset({301, 302, 303, 307, 308})
REDIRECTS_MAX = 20

# After a redirect to another origin only these go along: whatever else a header says was for the first one.
_HARMLESS = frozenset(
    {"accept", "accept-encoding", "accept-language", "content-type", "user-agent", "traceparent", "x-deadline-ms"}
)
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}\Z")
_OF_THE_BODY = frozenset({"content-type", "content-length", "content-encoding", "transfer-encoding"})


class Sending(TypedDict, total=False):
    """What may be said about a request besides its method and address."""

    headers: Mapping[str, str]
    body: bytes | FileBody
    """A `FileBody` is read while it is sent."""
    json: object
    """Sent as JSON, instead of a body."""
    redirects: int
    """Maximum number of redirects that are followed; each is checked anew. None are followed unless asked for."""
    compressed: bool
    """Ask for a compressed reply; without it, the upstream is asked not to compress."""
    timeouts: Timeouts
    body_bytes_max: int
    """No larger reply is accepted, compressed or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A request that may be sent: its address is checked."""

    method: str
    url: URL
    headers: dict[str, str]
    body: bytes | FileBody | None = field(default=None, repr=False)
    redirects: int = 0
    timeouts: Timeouts
    body_bytes_max: int

    @property
    def host(self) -> str:
        """Where it goes, for the log: a path or a query may hold a token."""
        return self.url.raw_authority


def outgoing(
    method: str,
    address: str | URL,
    options: Sending,
    *,
    reach: Reach,
    common: Mapping[str, str],
    timeouts: Timeouts,
    body_bytes_max: int,
) -> Outgoing:
    """The request with everything it carries; the call's own headers win over the client's, and both over ours.

    Raises:
        Failure: ADDRESS_REFUSED.
        ValueError: the options contradict each other, or a header has a name that is none.
    """
    if not 0 <= options.get("redirects", 0) <= REDIRECTS_MAX:
        raise ValueError(f"redirects: at most {REDIRECTS_MAX} can be followed")
    method = method.upper()
    body = _body(options)
    headers = {"accept": "*/*", "accept-encoding": asked_encodings() if options.get("compressed") else "identity"}
    if body is not None:
        headers["content-type"] = "application/json" if "json" in options else "application/octet-stream"
    headers |= _carried(method)
    for given in (common, options.get("headers") or {}):
        headers |= {lower: value for name, value in given.items() if (lower := _named(name)) not in OURS}
    return Outgoing(
        method=method,
        url=checked(address, reach),
        headers=headers,
        body=body,
        redirects=options.get("redirects", 0),
        timeouts=options.get("timeouts", timeouts),
        body_bytes_max=options.get("body_bytes_max", body_bytes_max),
    )


def redirected(request: Outgoing, status: int, location: str, reach: Reach) -> Outgoing:
    """The request that a redirect asks for.

    Raises:
        Failure: REDIRECT_REFUSED, or ADDRESS_REFUSED when it leads where the guard does not go.
    """
    if request.redirects == 0:
        raise redirect_refused(request.host, "too_many")
    try:
        target = request.url.join(URL(location))
    except ValueError:
        raise redirect_refused(request.host, "location") from None
    url = checked(target, reach)
    if request.url.scheme == "https" and url.scheme == "http":
        raise redirect_refused(request.host, "downgrade")
    becomes_read = (status == 303 and request.method != "HEAD") or (status in {301, 302} and request.method == "POST")
    left_out = _OF_THE_BODY if becomes_read else frozenset()
    headers = {name: value for name, value in request.headers.items() if name not in left_out}
    if url.origin() != request.url.origin():
        if request.method not in SAFE_METHODS and not becomes_read:
            raise redirect_refused(request.host, "write_to_another_origin")
        headers = {name: value for name, value in headers.items() if name in _HARMLESS}
    if becomes_read:
        headers.pop("idempotency-key", None)
        request = replace(request, method="GET", body=None)
    return replace(request, url=url, headers=headers, redirects=request.redirects - 1)


def redirect_refused(host: str, reason: str) -> Failure:
    """The failure of a redirect that is not followed."""
    return REDIRECT_REFUSED(reason=reason, host=Private(host))


def _named(name: str) -> str:
    """A header's name as it is compared; with a space behind it, some would read it as one of ours all the same."""
    if not _NAME.match(name):
        raise ValueError(f"{name[:50]!r} is not a name of a header")
    return name.lower()


def _body(options: Sending) -> bytes | FileBody | None:
    if "json" not in options:
        return options.get("body")
    if "body" in options:
        raise ValueError("a request has a body or json, not both")
    return encode(options["json"]).encode()


def _carried(method: str) -> dict[str, str]:
    """The headers that continue what is under way: the time left, the trace, the key of a write."""
    found = {
        DEADLINE_HEADER.lower(): to_header(),
        "traceparent": current_context().traceparent,
        "idempotency-key": None if method in SAFE_METHODS else current_key(),
    }
    return {name: value for name, value in found.items() if value}
