"""How a failure is written on the wire: four dialects, each exactly as its readers expect it.

No dialect shows a `Secret` or a `Private` of the details, and none grows past `limits().details_bytes_max`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from holdfast.base import encode, limits, plain, utc_text
from holdfast.base.arguments import one_of
from holdfast.catalog.context import new_request_id
from holdfast.catalog.failure import Failure
from holdfast.catalog.fault import Fault
from holdfast.catalog.retry_after import retry_after_s

DETAILS_DEPTH = 2
"""Depth of the details in the deepest dialect; they may nest this much less, or a body could not be read back."""
UNAVAILABLE_STATUS = 503
UNAVAILABLE_RETRY_AFTER_S = 1.0
"""Retry-After of a retryable 503 whose failure does not say how long to wait."""

_URN_SAFE = re.compile(r"[A-Za-z0-9._~-]+\Z")


class Dialect(StrEnum):
    """The shape of an error body."""

    NESTED = "nested"
    FLAT = "flat"
    FULL = "full"
    PROBLEM = "problem"
    """RFC 9457."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """A failure as an HTTP response: status, headers and the encoded body."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


def render(failure: Failure, dialect: Dialect) -> Rendered:
    """The failure as a response in the dialect, with Retry-After when there is a time to wait.

    A 503 that may be tried again always has one: without it, clients would choose between at once and never.
    """
    headers: tuple[tuple[str, str], ...] = (("Content-Type", media_type(dialect)),)
    wait_s = _whole_seconds(failure)
    if wait_s is not None:
        headers += (("Retry-After", str(wait_s)),)
    body = encode(document(failure, dialect)).encode()
    return Rendered(failure.status, headers, body)


def media_type(dialect: Dialect) -> str:
    """The Content-Type of bodies in the dialect."""
    return "application/problem+json" if dialect == Dialect.PROBLEM else "application/json"


def document(failure: Failure, dialect: Dialect) -> dict[str, Any]:
    """The body of the failure in the dialect, as JSON can say it.

    Raises:
        ArgumentInvalid: there is no such dialect.
    """
    writer = _WRITERS.get(dialect) or _WRITERS[one_of("dialect", dialect, Dialect)]
    return writer(failure)


def bounded_details(details: Mapping[str, Any]) -> dict[str, Any]:
    """Details as a body may show them: what is named or looks like a secret is `***`.

    Details larger than `limits().details_bytes_max` become `{"truncated": true}` and as many of the first ones as fit.
    """
    if not details:
        return {}
    from holdfast.catalog.hidden import without_secrets  # loaded by the first failure that has details

    shown = without_secrets(plain(details, DETAILS_DEPTH))
    if not isinstance(shown, dict):
        return {}  # details that cannot even be listed
    bytes_max = limits().details_bytes_max
    sizes = {name: _entry_bytes(name, value) for name, value in shown.items()}
    # Each entry counts one comma; the braces take one byte more than the comma that the last one lacks.
    if 1 + sum(sizes.values()) <= bytes_max:
        return shown
    kept: dict[str, Any] = {"truncated": True}
    used = 1 + _entry_bytes("truncated", True)
    for name, size in sizes.items():
        used += size
        if used > bytes_max:
            break
        kept.setdefault(name, shown[name])
    return kept


def _entry_bytes(name: str, value: object) -> int:
    return len(encode({name: value}).encode()) - 1


def _nested(failure: Failure) -> dict[str, Any]:
    context = failure.context
    return {
        "error": {
            "code": failure.code,
            "message": _writable(failure.message),
            "details": bounded_details(failure.details),
            "traceId": _writable(context.trace_id or context.request_id),
        }
    }


def _flat(failure: Failure) -> dict[str, Any]:
    return {"error": _writable(failure.message), "code": failure.code, **_details_if_any(failure)}


def _full(failure: Failure) -> dict[str, Any]:
    return {
        "error_code": failure.code,
        "message": _writable(failure.message),
        **_details_if_any(failure),
        "request_id": _writable(failure.context.request_id) or new_request_id(),
        "timestamp": utc_text(failure.at_us),
        **_if_known(retry_after=_whole_seconds(failure)),
        **_if_known(documentation_url=failure.fault.documentation_url or None),
    }


def _problem(failure: Failure) -> dict[str, Any]:
    request_id = _writable(failure.context.request_id)
    return {
        "type": failure.fault.documentation_url or "about:blank",
        "title": _title(failure.fault),
        "status": failure.status,
        "detail": _writable(failure.message),
        **_if_known(instance=f"urn:request:{_urn_part(request_id)}" if request_id else None),
        "code": failure.code,
        **_details_if_any(failure),
        **_if_known(request_id=request_id or None),
        **_if_known(trace_id=_writable(failure.context.trace_id) or None),
        **_if_known(retry_after=_whole_seconds(failure)),
    }


_WRITERS: dict[Dialect, Callable[[Failure], dict[str, Any]]] = {
    Dialect.NESTED: _nested,
    Dialect.FLAT: _flat,
    Dialect.FULL: _full,
    Dialect.PROBLEM: _problem,
}


def _writable(text: str) -> str:
    # Half of a surrogate pair has no UTF-8; a question mark is better than no answer.
    return str(plain(text))


def _details_if_any(failure: Failure) -> dict[str, Any]:
    details = bounded_details(failure.details)
    return {"details": details} if details else {}


def _if_known(**members: str | int | None) -> dict[str, str | int]:
    return {name: value for name, value in members.items() if value is not None}


def _whole_seconds(failure: Failure) -> int | None:
    wait_s = retry_after_s(failure.retry_after_s)
    if wait_s is None and failure.status == UNAVAILABLE_STATUS and failure.retryable:
        wait_s = UNAVAILABLE_RETRY_AFTER_S
    return None if wait_s is None else math.ceil(wait_s)


def _title(fault: Fault) -> str:
    """A line that is the same for every occurrence."""
    # RFC 9457 §4.2.1: a problem without a type of its own has the phrase of its status as title.
    if not fault.documentation_url and (phrase := _phrase(fault.status)):
        return phrase
    return fault.code.replace("_", " ").capitalize() if "{" in fault.says else fault.says


def _phrase(status: int) -> str:
    from http import HTTPStatus

    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _urn_part(identifier: str) -> str:
    if _URN_SAFE.match(identifier):
        return identifier
    from urllib.parse import quote

    return quote(identifier, safe="")
