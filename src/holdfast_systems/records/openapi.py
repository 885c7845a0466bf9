"""How routes describe themselves: every status and every code of each, taken from the catalog."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from holdfast.catalog import Catalog, Dialect
from holdfast.http.openapi import documented

JSON = "application/json"

# What any route may answer, whatever it does.
EVERY = (
    "INVALID_API_KEY", "API_KEY_EXPIRED", "INSUFFICIENT_PERMISSIONS", "RATE_LIMIT_EXCEEDED", "QUOTA_EXCEEDED",
    "TEMPORARY_UNAVAILABLE", "SERVICE_OVERLOADED", "DATABASE_CONNECTION_ERROR", "DATABASE_ERROR", "INTERNAL_ERROR",
    "DEADLINE_EXCEEDED", "VALIDATION_ERROR", "METHOD_NOT_ALLOWED",
)  # fmt: skip
WRITES = (
    "MALFORMED_JSON", "UNSUPPORTED_CONTENT_TYPE", "PAYLOAD_TOO_LARGE", "REQUEST_TIMEOUT", "IDEMPOTENCY_CONFLICT",
    "IDEMPOTENCY_KEY_INVALID", "STORAGE_FULL",
)  # fmt: skip
OPERATORS = (
    "INVALID_API_KEY", "VALIDATION_ERROR", "MALFORMED_JSON", "UNSUPPORTED_CONTENT_TYPE", "PAYLOAD_TOO_LARGE",
    "REQUEST_TIMEOUT", "SERVICE_OVERLOADED", "DATABASE_CONNECTION_ERROR", "DATABASE_ERROR", "INTERNAL_ERROR",
    "DEADLINE_EXCEEDED", "STORAGE_FULL", "METHOD_NOT_ALLOWED",
)  # fmt: skip
KEY_PARAMETER = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Repeats under the same key have one effect and get the same answer.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
}
SECURITY = {
    "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    "bearer": {"type": "http", "scheme": "bearer", "description": "The same key as a bearer token."},
    "operator": {"type": "http", "scheme": "bearer", "description": "The operator's token."},
}


class Describing:
    """Describes routes with the words of one catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def reads(self, shape: Mapping[str, Any], *codes: str) -> dict[str, Any]:
        """The keywords of a route that reads."""
        return self._route({200: shape}, (*EVERY, *codes))

    def writes(
        self,
        shapes: Mapping[int, Mapping[str, Any]],
        *codes: str,
        body: Mapping[str, Any] | None = None,
        contents: Sequence[str] = (JSON,),
    ) -> dict[str, Any]:
        """The keywords of a route that changes something."""
        return self._route(shapes, (*EVERY, *WRITES, *codes), body=body, contents=contents, keyed=True)

    def operates(
        self, shapes: Mapping[int, Mapping[str, Any]], *codes: str, body: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The keywords of a route of the operator's."""
        return self._route(shapes, (*OPERATORS, *codes), body=body, operator=True)

    def _route(
        self,
        shapes: Mapping[int, Mapping[str, Any]],
        codes: Iterable[str],
        *,
        body: Mapping[str, Any] | None = None,
        contents: Sequence[str] = (JSON,),
        keyed: bool = False,
        operator: bool = False,
    ) -> dict[str, Any]:
        good: dict[int | str, dict[str, Any]] = {
            status: {"description": shape["title"], "content": {JSON: {"schema": dict(shape)}}}
            for status, shape in shapes.items()
        }
        faults = [self._catalog[code] for code in dict.fromkeys(codes)]
        extra: dict[str, Any] = {"security": [{"operator": []}] if operator else [{"apiKey": []}, {"bearer": []}]}
        if keyed:
            extra["parameters"] = [KEY_PARAMETER]
        if body is not None:
            described = {kind: {"schema": dict(body)} for kind in contents}
            extra["requestBody"] = {"required": True, "content": described}
        return {
            "responses": {**good, **documented(*faults, dialect=Dialect.FULL)},
            "openapi_extra": extra,
            "status_code": min(shapes),
        }


def with_security(described: dict[str, Any]) -> dict[str, Any]:
    """The whole description with the ways to show who one is."""
    described.setdefault("components", {})["securitySchemes"] = SECURITY
    return described
