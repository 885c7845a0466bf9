"""Faults in FastAPI's own OpenAPI file: what a route may answer, under the status that the edge answers with.

```python
@app.post("/orders", responses=documented(SOLD_OUT, BANK_SILENT))
async def order(order: Order) -> Receipt: ...

describe(app, catalog=errors)
```
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.base import ArgumentInvalid
from holdfast.base.arguments import instance, one_of
from holdfast.catalog.catalog import Catalog
from holdfast.catalog.core import CORE
from holdfast.catalog.dialect import Dialect, document, media_type
from holdfast.catalog.dialect_schema import body_schema
from holdfast.catalog.fault import Fault
from holdfast.http.edge_settings import check_remap
from holdfast.http.example import example
from holdfast.http.render import Voice

BAD_FIELDS = "VALIDATION_ERROR"
FRAMEWORK_STATUS = "422"
FRAMEWORK_SCHEMAS = ("HTTPValidationError", "ValidationError")
METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")

_RETRY_AFTER = {
    "description": "Seconds to wait before the next attempt.",
    "schema": {"type": "integer", "minimum": 0},
}


def documented(*faults: Fault, dialect: Dialect | str = Dialect.NESTED) -> dict[int | str, dict[str, Any]]:
    """What `responses=` of a FastAPI route takes: each status once, with all of its codes and an example of each.

    Args:
        dialect: as given to the edge.

    Raises:
        ArgumentInvalid: something that is not a fault, or an unknown dialect.
    """
    for fault in faults:
        instance("documented", fault, Fault, "give the faults themselves: documented(SOLD_OUT, BANK_SILENT)")
    written = one_of("dialect", dialect, Dialect)
    statuses = dict.fromkeys(fault.status for fault in faults)
    return {status: _response([one for one in faults if one.status == status], written) for status in statuses}


def describe(
    app: Any,
    *,
    catalog: Catalog = CORE,
    dialect: Dialect | str = Dialect.NESTED,
    remap: Mapping[str, Fault] | None = None,
) -> None:
    """Let the file of a FastAPI application say what the edge around it answers for bad fields.

    FastAPI documents a 422 in its own words on every route with parameters. The edge answers with the status and body
    of its VALIDATION_ERROR instead, which is 400 unless `remap` or the catalog says otherwise.

    Args:
        catalog, dialect, remap: as given to the edge.

    Raises:
        ArgumentInvalid: the application has no `openapi`, or a setting cannot be meant.
    """
    if not callable(getattr(app, "openapi", None)):
        raise ArgumentInvalid("describe: give the FastAPI application itself, not the edge around it")
    check_remap(remap, catalog)
    written = one_of("dialect", dialect, Dialect)
    fault = Voice(catalog, written, remap=remap).fault(BAD_FIELDS)
    original = app.openapi

    def openapi() -> dict[str, Any]:
        found: dict[str, Any] = original()
        for responses in _responses(found):
            if _is_framework(responses.get(FRAMEWORK_STATUS)):
                del responses[FRAMEWORK_STATUS]
                status = str(fault.status)
                ours = _response([fault], written)
                responses[status] = _merged(responses[status], ours) if status in responses else ours
        _forget_framework_schemas(found)
        return found

    app.openapi = openapi


def _response(faults: list[Fault], dialect: Dialect) -> dict[str, Any]:
    codes = [fault.code for fault in faults]
    body = {
        "schema": body_schema(dialect, {"type": "string", "enum": codes}),
        "examples": {fault.code: {"value": document(example(fault), dialect)} for fault in faults},
    }
    headers = {"headers": {"Retry-After": _RETRY_AFTER}} if any(fault.retryable for fault in faults) else {}
    return {
        "description": "\n".join(_line(fault) for fault in faults),
        "content": {media_type(dialect): body},
        **headers,
    }


def _line(fault: Fault) -> str:
    return " ".join(part for part in (f"`{fault.code}`: {fault.says}", fault.remedy) if part)


def _merged(known: dict[str, Any], ours: dict[str, Any]) -> dict[str, Any]:
    """Both under one status; a schema that the route wrote by itself stays beside ours."""
    content = dict(known.get("content", {}))
    for kind, body in ours["content"].items():
        before = content.get(kind)
        if before is None:
            content[kind] = body
            continue
        schemas = [before["schema"], body["schema"]] if "schema" in before else [body["schema"]]
        content[kind] = {
            "schema": schemas[0] if len(schemas) == 1 else {"anyOf": schemas},
            "examples": {**before.get("examples", {}), **body["examples"]},
        }
    return {**known, **ours, "description": f"{known['description']}\n{ours['description']}", "content": content}


def _responses(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path in found.get("paths", {}).values():
        for method in METHODS:
            if method in path:
                yield path[method]["responses"]


def _is_framework(response: Any) -> bool:
    """Whether FastAPI wrote the response by itself."""
    schema: object = (response or {}).get("content", {}).get("application/json", {}).get("schema", {})
    return schema == {"$ref": f"#/components/schemas/{FRAMEWORK_SCHEMAS[0]}"}


def _forget_framework_schemas(found: dict[str, Any]) -> None:
    """Remove the schemas that nothing refers to any more, the referring one first."""
    schemas = found.get("components", {}).get("schemas", {})
    for name in FRAMEWORK_SCHEMAS:
        if name in schemas and f"#/components/schemas/{name}'" not in str(found):
            del schemas[name]
