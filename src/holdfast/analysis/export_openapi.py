"""OpenAPI components: a schema for each dialect, and a response for each code that API descriptions can refer to.

In a description: `"503": {"$ref": "errors.json#/components/responses/SERVICE_UNAVAILABLE"}`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from holdfast.analysis.export import Entry, by_contract
from holdfast.catalog.dialect import Dialect
from holdfast.catalog.dialect_schema import body_schema

OPENAPI_VERSION = "3.1.0"
SCHEMAS = {
    Dialect.NESTED: "NestedError",
    Dialect.FLAT: "FlatError",
    Dialect.FULL: "FullError",
    Dialect.PROBLEM: "ProblemError",
}
CODE = "ErrorCode"
RETRY_AFTER = "RetryAfter"

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9._-]")
_TEXT = {"type": "string"}


def to_openapi(recorded: Sequence[Entry]) -> str:
    """The components as an OpenAPI 3.1 document without paths, in indented JSON."""
    document = {
        "openapi": OPENAPI_VERSION,
        "info": {"title": "Error codes", "version": "1"},
        "components": {
            "schemas": _schemas(recorded),
            "headers": {
                RETRY_AFTER: {"description": "Seconds to wait before the next attempt.", "schema": {"type": "integer"}}
            },
            "responses": _responses(recorded),
        },
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _schemas(recorded: Sequence[Entry]) -> dict[str, Any]:
    # Services behind this one may send codes of their own: the known ones are listed, others are not refused.
    codes = sorted({entry.code for entry in recorded})
    known = {"anyOf": [{"enum": codes}, _TEXT]} if codes else {}
    return {
        CODE: {
            "type": "string",
            "pattern": "^[A-Z][A-Z0-9]*(_[A-Z0-9]+)*$",
            "description": "What went wrong.",
            **known,
        },
        **{name: body_schema(dialect, {"$ref": f"#/components/schemas/{CODE}"}) for dialect, name in SCHEMAS.items()},
    }


def _responses(recorded: Sequence[Entry]) -> dict[str, Any]:
    found = {}
    for code, variants in by_contract(recorded).items():
        for number, entry in enumerate(variants):
            # The first keeps the bare name; where catalogs disagree, the others are told apart by theirs.
            name = code if not number else f"{code}.{_NOT_IN_NAMES.sub('-', entry.catalogs[0])}"
            found[name] = _response(entry)
    return found


def _response(entry: Entry) -> dict[str, Any]:
    lines = [entry.says, *entry.retry, *([entry.remedy] if entry.remedy else [])]
    return {
        "description": " ".join(lines),
        "headers": {"Retry-After": {"$ref": f"#/components/headers/{RETRY_AFTER}"}},
        "content": {
            "application/json": {
                "schema": {"oneOf": [_narrowed(dialect, entry) for dialect in SCHEMAS if dialect != Dialect.PROBLEM]}
            },
            "application/problem+json": {"schema": _narrowed(Dialect.PROBLEM, entry)},
        },
        "x-status": entry.status,
        "x-retryable": entry.retryable,
        "x-catalogs": list(entry.catalogs),
    }


def _narrowed(dialect: Dialect, entry: Entry) -> dict[str, Any]:
    """The dialect's schema with this one code."""
    own: dict[str, Any] = {"const": entry.code}
    if dialect is Dialect.NESTED:
        narrow: dict[str, Any] = {"error": {"properties": {"code": own}}}
    else:
        narrow = {"error_code" if dialect is Dialect.FULL else "code": own}
    return {"allOf": [{"$ref": f"#/components/schemas/{SCHEMAS[dialect]}"}, {"properties": narrow}]}
