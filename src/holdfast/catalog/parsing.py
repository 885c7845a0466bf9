"""An error body from outside, in any of the four dialects, read back into a failure.

Whatever arrives, the result is a failure: what cannot be read is itself one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from holdfast.base import CodecError, Private, decode, encode, limits
from holdfast.catalog.catalog import Catalog
from holdfast.catalog.context import Context, current_context
from holdfast.catalog.dialect import Dialect, bounded_details
from holdfast.catalog.failure import Failure
from holdfast.catalog.received import fault_of_code, fault_of_status
from holdfast.catalog.retry_after import retry_after_s

ID_CHARS_MAX = 128
EXCERPT_CHARS_MAX = 200
"""Maximum number of characters (of bytes, where it is bytes) of an unreadable body that are kept for the log."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Received(Failure):
    """A failure that came over the wire; its message is shown as it was received, braces and all."""

    @property
    def message(self) -> str:
        """What the callee wrote for the person, or the fault's own words when it wrote nothing."""
        received = self._message
        return super().message if received is None else received[: limits().message_chars_max]


def parse(
    body: bytes | str | dict[str, Any],
    *,
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
    catalog: Catalog | None = None,
) -> Failure:
    """The failure that an error response carries. Never raises.

    A code that the catalog has is that fault, and its rule decides whether it is retried. Any other code becomes a
    fault made for this occurrence, retried as its status, its Retry-After and its name suggest. A body without a
    usable code is the fault of its status, or INVALID_RESPONSE when there is none.

    Args:
        status: the status of the response; it counts for more than one in the body.
        headers: the headers of the response, for Retry-After and X-Request-Id; any case.
        catalog: the callee's faults; the core's own where it is left out and nothing in the response contradicts them.
    """
    reading = _read(body)
    named = {_text_of(name).lower(): value for name, value in (headers or {}).items()}
    status = _status(status) or _status(reading.status)
    wait_s = retry_after_s(reading.retry_after)
    if wait_s is None:
        wait_s = retry_after_s(named.get("retry-after"))
    fault = fault_of_code(
        reading.code, status=status, wait_s=wait_s, catalog=catalog, documentation_url=reading.documentation_url
    ) or fault_of_status(status, catalog)
    request_id = reading.request_id or _identifier(_text_of(named.get("x-request-id", "")))
    failure = Received(
        fault,
        reading.message or None,
        details=reading.details,
        retry_after_s=wait_s,
        context=_context(request_id=request_id, trace_id=reading.trace_id),
    )
    failure.at_us = failure.at_us if reading.at_us is None else reading.at_us
    return failure


def dialect_of(document: object) -> Dialect | None:
    """Which dialect a body has, by its shape alone; None when it is not an error body."""
    if not isinstance(document, dict):
        return None
    if isinstance(document.get("error_code"), str):
        return Dialect.FULL
    if isinstance(document.get("error"), dict):
        return Dialect.NESTED
    if isinstance(document.get("error"), str):
        return Dialect.FLAT
    if any(isinstance(document.get(name), str) for name in ("type", "title", "detail")):
        return Dialect.PROBLEM
    return None if _status(document.get("status")) is None else Dialect.PROBLEM


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """What a body says, whatever its dialect; nothing in it is trusted but the types."""

    code: str = ""
    message: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    request_id: str = ""
    trace_id: str = ""
    status: object = None
    retry_after: object = None
    at_us: int | None = None
    documentation_url: str = ""


def _read(body: object) -> _Reading:
    try:
        # A dict goes through the same gate as text, so that the same bounds hold for it.
        document = decode(body if isinstance(body, bytes | str) else encode(body))
    except CodecError as refused:
        return _unreadable(body, refused.reason)
    except (ValueError, TypeError, RecursionError):
        return _unreadable(body, "not_json")
    dialect = dialect_of(document)
    if dialect is None:
        return _unreadable(body, "not_an_error")
    return _reading(document, dialect)


def _unreadable(body: object, reason: str) -> _Reading:
    if not isinstance(body, bytes | str):
        return _Reading(details={"reason": reason})
    excerpt = _text_of(body[:EXCERPT_CHARS_MAX])
    return _Reading(details={"reason": reason, "received": Private(excerpt)})


def _reading(document: dict[str, Any], dialect: Dialect) -> _Reading:
    members = document["error"] if dialect is Dialect.NESTED else document
    code, message = _NAMES[dialect]
    details = members.get("details")
    details = bounded_details(details) if isinstance(details, dict) else {}
    problem = dialect is Dialect.PROBLEM
    return _Reading(
        code=_text(members.get(code)),
        message=_text(members.get(message)) or (_text(members.get("title")) if problem else ""),
        details=details,
        request_id=_identifier(members.get("request_id")),
        trace_id=_identifier(members.get("traceId" if dialect is Dialect.NESTED else "trace_id")),
        status=members.get("status") if problem else None,
        retry_after=details.get("retry_after_seconds") if dialect is Dialect.FLAT else members.get("retry_after"),
        at_us=_moment_us(members.get("timestamp")),
        documentation_url=_text(members.get("type" if problem else "documentation_url")),
    )


_NAMES = {
    Dialect.NESTED: ("code", "message"),
    Dialect.FLAT: ("code", "error"),
    Dialect.FULL: ("error_code", "message"),
    Dialect.PROBLEM: ("code", "detail"),
}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _text_of(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else _text(value)


def _identifier(value: object) -> str:
    """The id, or nothing: an id that would break a log line or a header is none."""
    text = _text(value)
    return text if len(text) <= ID_CHARS_MAX and text.isprintable() else ""


def _status(value: object) -> int | None:
    valid = isinstance(value, int) and not isinstance(value, bool) and 200 <= value <= 599
    return value if valid else None  # type: ignore[return-value]  # `valid` says it is an int


def _moment_us(value: object) -> int | None:
    try:
        moment = datetime.fromisoformat(_text(value))
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return (moment - _EPOCH) // timedelta(microseconds=1) if moment >= _EPOCH else None


def _context(*, request_id: str, trace_id: str) -> Context:
    """Where we are, with the callee's ids in place of ours where it sent any."""
    here = current_context()
    if request_id:
        here = replace(here, request_id=request_id)
    if trace_id and trace_id != here.trace_id:
        # Our span does not belong to a foreign trace; a header with both would be false.
        here = replace(here, trace_id=trace_id, span_id="")
    return here
