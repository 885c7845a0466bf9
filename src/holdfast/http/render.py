"""Failures as replies: one voice for whatever goes wrong, in the edge's dialect and with its catalog's words.

Always true: the text of an exception that nobody declared is in no body.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from holdfast.base.tracebacks import log_exception
from holdfast.catalog.catalog import Catalog
from holdfast.catalog.classify import DEFAULT_CLASSIFIER, UNKNOWN_CODE, Classifier
from holdfast.catalog.dialect import Dialect, render
from holdfast.catalog.failure import Failure
from holdfast.catalog.fault import CODE_SHAPE, Fault, blame_of
from holdfast.catalog.received import STATUSES_RETRIED
from holdfast.catalog.retry_after import retry_after_s
from holdfast.catalog.status import HTTP_STATUSES
from holdfast.guard.stamp import stamp_of
from holdfast.http.asgi import Scope, header
from holdfast.http.faults import EDGE_FAULTS
from holdfast.http.foreign import Foreign, read_reply
from holdfast.http.validation import entry, told

LOGGER = "holdfast.http"
PROBLEM_TYPE = "application/problem+json"
Headers = list[tuple[bytes, bytes]]

_DESCRIBE_BODY = frozenset(
    {b"content-type", b"content-length", b"content-encoding", b"transfer-encoding", b"etag", b"last-modified"}
)
_VALIDATION = "fastapi.exceptions.RequestValidationError"
_HTTP_ERROR = "starlette.exceptions.HTTPException"
# 500 is our own here, where the table reads it as somebody else's.
_CODES = {status: fault.code for status, fault in HTTP_STATUSES.exact.items()} | {500: "INTERNAL_ERROR"}


@dataclass(frozen=True, slots=True)
class Written:
    """A failure as it goes over the wire."""

    status: int
    headers: Headers
    body: bytes


class Voice:
    """Says failures in one dialect, with the words of one catalog."""

    def __init__(
        self,
        catalog: Catalog,
        dialect: Dialect,
        *,
        remap: Mapping[str, Fault] | None = None,
        classifier: Classifier | None = None,
        on_failure: Callable[[Failure], None] | None = None,
    ) -> None:
        self._catalog = catalog
        self._dialect = dialect
        self._remap = dict(remap or {})
        self._classifier = classifier
        self._on_failure = on_failure
        self._of_status: dict[int, Fault] = {}

    def fault(self, code: str) -> Fault:
        """The fault that stands for a code here: the remap's, the catalog's, the edge's."""
        return self._remap.get(code) or self._catalog.get(code) or EDGE_FAULTS[code]

    def read(self, error: Exception, scope: Scope) -> tuple[Failure, Headers]:
        """The failure that an exception is, and the headers it brings along."""
        while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]  # a task group stands around what really happened
        if isinstance(error, Failure):
            return self._ours(error), []
        names = {f"{kind.__module__}.{kind.__qualname__}": kind for kind in type(error).__mro__}
        failure: Failure | None = None
        headers: Headers = []
        if _VALIDATION in names:
            failure = self._invalid(error.errors(), scope)  # type: ignore[attr-defined]
        elif _HTTP_ERROR in names:
            failure, headers = self._http_error(error)
        else:
            failure = self._classified(error)
        if failure is None:
            failure = self.fault("INTERNAL_ERROR").occur()
            log_exception(LOGGER, f"{failure.code} of request {failure.context.request_id}", error)
        if failure.__cause__ is None:
            failure.__cause__ = error
        return failure, headers

    def _classified(self, error: Exception) -> Failure | None:
        """What the classifier makes of an exception or, without one, the link that it came out of."""
        if self._classifier is None and stamp_of(error) is None:
            return None
        failure = self._ours((self._classifier or DEFAULT_CLASSIFIER).classify(error))
        return None if failure.code == UNKNOWN_CODE else failure

    def tell(self, failure: Failure) -> None:
        """Tell the listener, if there is one; if it fails, the client must still get its answer."""
        if self._on_failure is None:
            return
        try:
            self._on_failure(failure)
        except Exception as broken:  # noqa: BLE001 - as said
            log_exception(LOGGER, f"on_failure failed with {failure.code}", broken)

    def read_reply(self, status: int, headers: Headers, body: bytes, scope: Scope) -> Failure | None:
        """The failure that a framework's own error reply is; None when the application wrote it."""
        found = read_reply(status, headers, body)
        if found is None:
            return None
        failure = self._of_foreign(status, found, scope)
        failure.retry_after_s = next((retry_after_s(value) for name, value in headers if name == b"retry-after"), None)
        return failure

    def unreadable(self, status: int, scope: Scope) -> Failure:
        """The failure that stands for a reply too long to be read."""
        return self._of_foreign(status, Foreign(errors=() if status == 422 else None), scope)

    def write(self, failure: Failure, scope: Scope) -> Written:
        """The failure in the dialect that the setting or the request asks for."""
        rendered = render(failure, self.dialect(scope))
        headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in rendered.headers]
        headers += [
            (b"content-length", b"%d" % len(rendered.body)),
            (b"cache-control", b"no-store"),
            (b"vary", b"accept"),
            (b"x-content-type-options", b"nosniff"),
        ]
        return Written(rendered.status, headers, rendered.body)

    def dialect(self, scope: Scope) -> Dialect:
        """The dialect for this request: RFC 9457 for a client that accepts it by name, else the edge's own."""
        accept = header(scope, "accept").lower()
        if PROBLEM_TYPE not in accept:
            return self._dialect
        weights = dict(_weight(part) for part in accept.split(","))
        problem = weights.get(PROBLEM_TYPE, 0.0)
        return Dialect.PROBLEM if problem > 0 and problem >= weights.get("application/json", 0.0) else self._dialect

    def _ours(self, failure: Failure) -> Failure:
        """The same failure in this catalog's words."""
        fault = self._remap.get(failure.code) or self._catalog.get(failure.code)
        if fault is not None:
            failure.fault = fault
        return failure

    def _invalid(self, errors: Iterable[Mapping[str, Any]], scope: Scope) -> Failure:
        every = list(errors)
        if any(error.get("type") == "json_invalid" for error in every):
            return self.fault("INVALID_JSON").occur(reason="syntax")
        message, details = told([entry(error) for error in every], self.dialect(scope))
        return self.fault("VALIDATION_ERROR").occur(message, **details)

    def _http_error(self, error: Any) -> tuple[Failure, Headers]:
        detail = error.detail if isinstance(error.detail, str) else None
        given = error.headers or {}
        headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in given.items()]
        failure = self._of_status_with(error.status_code, detail)
        failure.retry_after_s = next((retry_after_s(value) for name, value in headers if name == b"retry-after"), None)
        return failure, headers

    def _of_foreign(self, status: int, found: Foreign, scope: Scope) -> Failure:
        if found.errors is not None:
            return self._invalid(found.errors, scope)
        return self._of_status_with(status, found.message)

    def _of_status_with(self, status: int, message: str | None) -> Failure:
        fault = self._of_status.get(status)
        if fault is None:
            fault = self._of_status[status] = self._status_fault(status)
        # What a server error says is for the log; and the phrase of the status says less than the fault.
        if not message or status >= 500 or message == _phrase(status):
            return fault.occur()
        return fault.occur(
            message.replace("{", "(").replace("}", ")")
        )  # braces would be taken for the names of details

    def _status_fault(self, status: int) -> Fault:
        code = _CODES.get(status) or _code_of_phrase(status)
        try:
            known = self.fault(code)
        except KeyError:
            known = None
        if known is not None and known.status == status:
            return known
        return Fault(
            code=code,
            status=status,
            says=_phrase(status) or "The request failed.",
            retry=status in STATUSES_RETRIED,
            blame=blame_of(status),
        )


def without_body(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """The headers that stay when the body is replaced: Allow, cookies, everything that does not describe it."""
    return [(name, value) for name, value in headers if name.lower() not in _DESCRIBE_BODY]


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _code_of_phrase(status: int) -> str:
    code = "".join(letter if letter.isalnum() else "_" for letter in _phrase(status).upper().replace("'", ""))
    return code if CODE_SHAPE.match(code) else f"HTTP_{status}"


def _weight(part: str) -> tuple[str, float]:
    kind, *parameters = (word.strip() for word in part.split(";"))
    quality = next((word[2:] for word in parameters if word.startswith("q=")), "1")
    try:
        return kind, float(quality)
    except ValueError:
        return kind, 0.0
