"""OpenAPI components: valid by the specification, and true of every body that Holdfast writes."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from schemathesis.specs.openapi import definitions

from holdfast.analysis import entries, to_openapi
from holdfast.catalog import CORE, Catalog
from holdfast.catalog.dialect import Dialect, document

from .export_samples import CORES, bank, occurrence, shop

SCHEMAS = {"nested": "NestedError", "flat": "FlatError", "full": "FullError", "problem": "ProblemError"}


@pytest.fixture(scope="module")
def exported() -> dict[str, Any]:
    return dict(json.loads(to_openapi(entries([*CORES, shop(), bank()]))))


def against(exported: dict[str, Any], schema: dict[str, Any]) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator({**schema, "components": exported["components"]})


@pytest.mark.parametrize("catalogs", [[*CORES, shop(), bank()], [Catalog("empty")]], ids=["full", "empty"])
def test_the_document_is_valid_by_the_specification(catalogs: list[Catalog]) -> None:
    definitions.OPENAPI_31_VALIDATOR.validate(json.loads(to_openapi(entries(catalogs))))


def test_every_code_has_a_response(exported: dict[str, Any]) -> None:
    responses = exported["components"]["responses"]
    for fault in CORE:
        assert (responses[fault.code]["x-status"], responses[fault.code]["x-retryable"]) == (
            fault.status,
            fault.retryable,
        )


def test_where_catalogs_disagree_each_meaning_has_a_response(exported: dict[str, Any]) -> None:
    responses = exported["components"]["responses"]
    assert (responses["SHOP_WILD"]["x-status"], responses["SHOP_WILD.bank"]["x-status"]) == (418, 503)


@pytest.mark.parametrize("dialect", Dialect)
def test_every_body_of_a_dialect_fits_its_schema_and_no_other_code(exported: dict[str, Any], dialect: Dialect) -> None:
    schema = against(exported, {"$ref": f"#/components/schemas/{SCHEMAS[dialect]}"})
    for fault in [*CORE, *shop()]:
        for wait_s in (None, 3.0):
            schema.validate(document(occurrence(fault, wait_s), dialect))


@pytest.mark.parametrize("dialect", Dialect)
def test_the_response_of_a_code_fits_that_code_alone(exported: dict[str, Any], dialect: Dialect) -> None:
    media_type = "application/problem+json" if dialect is Dialect.PROBLEM else "application/json"
    response = exported["components"]["responses"]["GONE"]["content"][media_type]["schema"]
    schema = against(exported, response)
    assert schema.is_valid(document(occurrence(CORE["GONE"], None), dialect))
    assert not schema.is_valid(document(occurrence(CORE["NOT_FOUND"], None), dialect))


@pytest.mark.parametrize("body", [{}, {"error": {}}, {"error": 7}, {"code": "GONE"}, {"error_code": "GONE"}])
def test_what_is_no_error_body_fits_no_schema(exported: dict[str, Any], body: Any) -> None:
    for name in SCHEMAS.values():
        assert not against(exported, {"$ref": f"#/components/schemas/{name}"}).is_valid(body)
