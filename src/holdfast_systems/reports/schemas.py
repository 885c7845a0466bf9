"""Schemas of structured output: `llm_schemas/{schemaId}.jsonSchema` is the only authority on what a report is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from holdfast.base import CodecError, canonical, decode
from holdfast_systems.reports.faults import INVALID_STRUCTURED_OUTPUT, LLM_PROFILE_INVALID

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator

SCHEMA_ID = re.compile(r"llm_report_output_v(?P<version>0|[1-9][0-9]{0,8})\Z")
SCHEMA_BYTES_MAX = 65_536
OUTPUT_BYTES_MAX = 4 * 1_048_576
RESERVED = "metadata"
"""Where the artifact keeps what is known about the report; a schema cannot use the name at the top."""
ERRORS_MAX = 5
ERROR_CHARS_MAX = 300
REFS_MAX = 32


def check_report_schema(schema: object) -> Mapping[str, Any]:
    """The schema, if reports can be validated by it.

    Raises:
        Failure: LLM_PROFILE_INVALID, with the reason.
    """
    if not isinstance(schema, dict):
        raise LLM_PROFILE_INVALID(reason="the schema is not a JSON object")
    _validator(schema)
    top = _resolved(schema, schema)
    missing = {"summary", "details"} - _required(top)
    if missing:
        raise LLM_PROFILE_INVALID(reason=f"the schema does not require {' and '.join(sorted(missing))}")
    properties = top.get("properties")
    if isinstance(properties, dict) and RESERVED in properties:
        raise LLM_PROFILE_INVALID(reason=f"the schema uses the reserved name {RESERVED}")
    summary = _resolved(schema, properties.get("summary")) if isinstance(properties, dict) else {}
    if "markdown" not in _required(summary):
        raise LLM_PROFILE_INVALID(reason="the schema does not require summary.markdown")
    return schema


def check_output(text: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The report that the model wrote.

    Raises:
        Failure: INVALID_STRUCTURED_OUTPUT, with what is wrong.
    """
    try:
        output = decode(text, bytes_max=OUTPUT_BYTES_MAX)
    except CodecError as broken:
        raise INVALID_STRUCTURED_OUTPUT(reason=f"not JSON: {broken.explanation}"[:ERROR_CHARS_MAX]) from None
    wrong = violations(output, schema)
    if wrong:
        raise INVALID_STRUCTURED_OUTPUT(reason="; ".join(wrong))
    if not isinstance(output, dict):
        raise INVALID_STRUCTURED_OUTPUT(reason="the output is not an object")
    return output


def violations(output: object, schema: Mapping[str, Any]) -> list[str]:
    """Where the output violates the schema, the first few places."""
    found = []
    for error in _validator(schema).iter_errors(output):
        place = "/".join(str(part) for part in error.instance_path) or "the output"
        found.append(f"{place}: {error.message}"[:ERROR_CHARS_MAX])
        if len(found) == ERRORS_MAX:
            break
    return found


def _validator(schema: Mapping[str, Any]) -> Draft202012Validator:
    text = canonical(schema)
    if len(text.encode()) > SCHEMA_BYTES_MAX:
        raise LLM_PROFILE_INVALID(reason=f"the schema has more than {SCHEMA_BYTES_MAX} bytes")
    return _compiled(text)


@lru_cache(maxsize=64)
def _compiled(text: str) -> Draft202012Validator:
    from jsonschema_rs import Draft202012Validator, ReferencingError, RegexOptions, ValidationError, meta

    schema = decode(text)
    try:
        meta.validate(schema)
        # Patterns in linear time, and no reference that leads out of the document.
        return Draft202012Validator(schema, pattern_options=RegexOptions(), offline=True)
    except (ValidationError, ReferencingError, ValueError) as broken:
        reason = f"the schema is not usable: {str(broken).splitlines()[0]}"
        raise LLM_PROFILE_INVALID(reason=reason[:ERROR_CHARS_MAX]) from None


def _required(schema: Mapping[str, Any]) -> set[str]:
    found = schema.get("required")
    return {name for name in found if isinstance(name, str)} if isinstance(found, list) else set()


def _resolved(whole: Mapping[str, Any], part: object) -> dict[str, Any]:
    """A part of the schema, with references inside the document followed."""
    for _ in range(REFS_MAX):
        if not isinstance(part, dict):
            return {}
        reference = part.get("$ref")
        if not isinstance(reference, str):
            return part
        if not reference.startswith("#"):
            return {}
        part = _pointed(whole, reference[1:])
    return {}


def _pointed(whole: Mapping[str, Any], pointer: str) -> object:
    found: object = whole
    for name in pointer.split("/")[1:]:
        found = found.get(name.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return found
