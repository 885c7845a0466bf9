"""Failures as this API tells them: database errors in its own codes, and the context of the error model on each.

What a database said is for the log; the caller learns what kind of trouble it is and whether coming back helps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from holdfast.base import Private, bus
from holdfast.catalog import Catalog, Context, Failure, Fault
from holdfast_systems.records.settings import Settings

API_VERSION = "v1"
DATABASE_S = 30.0
"""When the database is away, callers are asked to come back after this time."""
BUSY_S = 2.0

ERROR_TYPES = {
    "DATABASE_CONNECTION_ERROR": "connection_failed",
    "COMMIT_UNKNOWN": "commit_unknown",
    "DATABASE_READ_ONLY": "read_only",
}
BUSY = ("DATABASE_POOL_EXHAUSTED", "DATABASE_TIMEOUT", "TRANSACTION_ROLLED_BACK", "CONCURRENCY_EXCEEDED")
"""Codes of the core that mean: there is more to do than can be done."""


class Telling:
    """Completes failures before they are written, and tells of them."""

    def __init__(self, catalog: Catalog, settings: Settings) -> None:
        self._catalog = catalog
        self._shard = settings.database_shard
        self._server_id = settings.server_id or _machine()

    def remap(self) -> dict[str, Fault]:
        """Codes of the edge and of the core, and the faults that stand for them here."""
        own = {
            "INVALID_JSON": "MALFORMED_JSON",
            "UNSUPPORTED_MEDIA_TYPE": "UNSUPPORTED_CONTENT_TYPE",
            "UNAUTHORIZED": "INVALID_API_KEY",
            "IDEMPOTENCY_IN_PROGRESS": "IDEMPOTENCY_CONFLICT",
            "IDEMPOTENCY_PAYLOAD_MISMATCH": "IDEMPOTENCY_CONFLICT",
            "IDEMPOTENCY_LOST": "IDEMPOTENCY_CONFLICT",
            "CONFLICT": "BUSINESS_RULE_VIOLATION",
        }
        return {code: self._catalog[ours] for code, ours in own.items()}

    def context(self, known: Context, request_source: str) -> Context:
        """The context of a request with what this server adds to it."""
        return replace(
            known,
            api_version=API_VERSION,
            server_id=self._server_id,
            database_shard=self._shard,
            request_source=request_source or known.request_source or "direct",
        )

    def complete(self, failure: Failure) -> None:
        """Give the failure the code, the details and the context that the error model asks for, then tell of it."""
        _COMPLETED.get(failure.code, _nothing)(failure)
        self._complete_database(failure)
        context = failure.context
        if not context.server_id:
            context = self.context(context, "")
        service = failure.details.get("external_service") or failure.details.get("provider")
        failure.context = replace(context, external_service=str(service or ""))
        if bus.listeners:
            bus.tell("request.failed", code=failure.code, status=failure.status, **failure.context.known())

    def _complete_database(self, failure: Failure) -> None:
        code = failure.code
        if code in BUSY:
            failure.fault = self._catalog["SERVICE_OVERLOADED"]
            failure.details = {**failure.details, "reason": code.lower()}
            failure.retry_after_s = failure.retry_after_s or BUSY_S
        if code not in ERROR_TYPES:
            return
        failure.fault = self._catalog["DATABASE_CONNECTION_ERROR"]
        failure.details = {
            **failure.details,
            "database": self._shard,
            "error_type": _error_type(failure, code),
            "retry_recommended": True,
        }
        failure.retry_after_s = DATABASE_S


def _in_use(failure: Failure) -> None:
    """One code for two things: in flight is worth coming back for, another payload is not."""
    retryable = failure.retry_after_s is not None
    failure.details = {
        **failure.details,
        "retryable": retryable,
        "reason": "in_flight" if retryable else "payload_differs",
    }


_COMPLETED: dict[str, Callable[[Failure], None]] = {"IDEMPOTENCY_CONFLICT": _in_use}


def _nothing(failure: Failure) -> None:  # noqa: ARG001 - most failures are complete
    return


def _error_type(failure: Failure, code: str) -> str:
    said = _private(failure, "original").lower() if code == "DATABASE_CONNECTION_ERROR" else ""
    if "refused" in said:
        return "connection_refused"
    if "read-only" in said:
        return "read_only"  # there is a server, and it is not the one that takes writes
    return "connection_timeout" if "timeout" in said or "timed out" in said else ERROR_TYPES[code]


def _private(failure: Failure, name: str) -> str:
    held = failure.details.get(name)
    return str(held.value) if isinstance(held, Private) else ""


def _machine() -> str:
    import os
    import socket

    return f"{socket.gethostname()}:{os.getpid()}"
