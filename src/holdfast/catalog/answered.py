"""How an upstream's answer with an HTTP status becomes a failure, whichever client received it.

The status decides, by the link's table. A code in the body decides only where the link names the upstream's catalog
and that catalog declares the code itself: Holdfast's own codes tell what happened here, and nobody else can say that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.base.redaction import redacted_text
from holdfast.catalog import core
from holdfast.catalog.catalog import Catalog
from holdfast.catalog.dialect import bounded_details
from holdfast.catalog.error_body import Said, is_code, said_by
from holdfast.catalog.failure import Failure
from holdfast.catalog.fault import Fault
from holdfast.catalog.remote import Remote
from holdfast.catalog.retry_after import longest_s
from holdfast.catalog.status import DEFAULT_STATUSES, StatusTable

_PARSERS = frozenset({"aiohttp.http_exceptions"})
"""aiohttp gives an answer it cannot parse the status 400, which the callee never sent."""


def classify_status(
    status: int,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    *,
    table: StatusTable = DEFAULT_STATUSES,
    upstream: Catalog | None = None,
) -> Failure | None:
    """The failure that an answer is, with its Retry-After and what the upstream said; None when it is not a failure.

    Args:
        body: its error body, for `Failure.remote`.
        table: which fault each status is.
        upstream: the upstream's own faults; a code in the body that it declares is that fault.
    """
    said = said_by(body, status)
    named = _named(said, upstream)
    fault = table.fault(status)
    if fault is None and not (named is not None and said.alone):
        return None
    failure = Failure(named or fault or core.UNKNOWN, retry_after_s=longest_s(headers), remote=said.remote)
    if named is not None:
        failure.details = bounded_details(said.details)
    return failure


def read_status(error: BaseException, table: StatusTable, upstream: Catalog | None) -> Failure | Fault | None:
    """The failure or fault for an error that carries an HTTP status; None when it carries none."""
    response = getattr(error, "response", None)
    status = _status_of(response, ("status_code", "status"))
    if status is None:
        status = _status_of(error, ("status", "status_code", "code"))
    if status is None:
        return None
    if type(error.__cause__).__module__ in _PARSERS:
        return core.INVALID_RESPONSE
    headers = getattr(response, "headers", None)
    headers = getattr(error, "headers", None) if headers is None else headers
    failure = classify_status(status, headers, _body_of(error, response, upstream), table=table, upstream=upstream)
    if failure is None:
        # The client raised although the status is fine: a wrong content type, a redirect without end.
        failure = Failure(core.INVALID_RESPONSE, remote=Remote(status))
    if failure.remote is not None and not failure.remote.code:
        failure.remote = _from_attributes(error, failure.remote)
    return failure


def _named(said: Said, upstream: Catalog | None) -> Fault | None:
    code = said.remote.code
    if upstream is None or not is_code(code):
        return None
    fault = upstream.get(code)
    return None if fault is None or upstream.inherits(code) else fault


def _body_of(error: BaseException, response: Any, upstream: Catalog | None) -> bytes | None:
    """The error body, as far as the client has it; nothing is read from the network but by urllib, on demand."""
    if isinstance(body := getattr(error, "body", None), bytes):
        return body
    # httpx and requests keep what was read here; `content` of requests would read a stream.
    if isinstance(body := getattr(response, "_content", None), bytes):
        return body
    if upstream is not None and type(error).__module__ == "urllib.error":
        from holdfast.catalog.urllib_body import peeked  # loaded by the first such error

        return peeked(error)
    return None


def _from_attributes(error: BaseException, remote: Remote) -> Remote:
    """What Google's clients know: the code as a word, and the sentence."""
    code, message = getattr(error, "status", None), getattr(error, "message", None)
    return remote._replace(
        code=code if isinstance(code, str) and is_code(code) else remote.code,
        message=remote.message or (redacted_text(message) if isinstance(message, str) else ""),
    )


def _status_of(holder: object, names: tuple[str, ...]) -> int | None:
    for name in names:
        held = getattr(holder, name, None)
        # A bool is an int, and zero is how some clients say that there was none.
        if isinstance(held, int) and not isinstance(held, bool) and held:
            return int(held)
    return None
