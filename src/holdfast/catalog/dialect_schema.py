"""The JSON Schema of each dialect's body, for OpenAPI files."""

from __future__ import annotations

from typing import Any

from holdfast.catalog.dialect import Dialect

_TEXT = {"type": "string"}
_DETAILS = {"type": "object", "description": "The facts of this occurrence."}
_SECONDS = {"type": "integer", "minimum": 0, "description": "Seconds to wait before the next attempt."}


def body_schema(dialect: Dialect, code: dict[str, Any]) -> dict[str, Any]:
    """The schema of an error body; `code` is the schema of its code."""
    match dialect:
        case Dialect.NESTED:
            return _object({"error": _object(_members("code", code, "message"), details=_DETAILS, traceId=_TEXT)})
        case Dialect.FLAT:
            return _object(_members("code", code, "error"), details=_DETAILS)
        case Dialect.FULL:
            stamped = {"request_id": _TEXT, "timestamp": {"type": "string", "format": "date-time"}}
            return _object(
                {**_members("error_code", code, "message"), **stamped},
                details=_DETAILS,
                retry_after=_SECONDS,
                documentation_url=_TEXT,
            )
        case Dialect.PROBLEM:
            return _object(
                {"type": _TEXT, "title": _TEXT, "status": {"type": "integer"}, **_members("code", code, "detail")},
                instance=_TEXT,
                details=_DETAILS,
                request_id=_TEXT,
                trace_id=_TEXT,
                retry_after=_SECONDS,
            )


def _members(code: str, schema: dict[str, Any], message: str) -> dict[str, Any]:
    return {code: schema, message: {"type": "string", "description": "What the person reads."}}


def _object(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": {**required, **optional}}
