"""The model's settings of a report step: every rule about `inputs.llm`, each with its code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from holdfast.catalog import Failure
from holdfast_systems.reports.faults import INVALID_STEP_INPUTS, LLM_PROFILE_INVALID, PROMPT_NOT_FOUND
from holdfast_systems.reports.model import StepState, StepType, step_of
from holdfast_systems.reports.schemas import SCHEMA_ID

JSON_TYPE = "application/json"
OUTPUT_TOKENS_MAX = 65_536
PREVIOUS_MAX = 20
MODEL_CHARS_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """How the model is called."""

    model: str
    schema_id: str
    schema_sha256: str | None = None
    """What the author of the run believed the schema to be; logged, never enforced."""
    temperature: float | None = None
    max_output_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportInputs:
    """What a report step needs, checked; the URIs of its inputs are there."""

    prompt_id: str
    profile: Profile
    ohlcv: tuple[str, str]
    """The id and the URI of the step that imported the market data."""
    charts: tuple[str, str]
    previous: tuple[tuple[str, str], ...] = ()


def read_inputs(document: Mapping[str, Any], step_id: str) -> ReportInputs:
    """The inputs of a report step.

    Raises:
        Failure: INVALID_STEP_INPUTS, PROMPT_NOT_FOUND or LLM_PROFILE_INVALID.
    """
    inputs = (step_of(document, step_id) or {}).get("inputs")
    if not isinstance(inputs, dict):
        raise _unusable(step_id, "inputs are missing")
    ohlcv = referenced(document, step_id, inputs, "ohlcvStepId", StepType.OHLCV_IMPORT)
    charts = referenced(document, step_id, inputs, "chartsManifestStepId", StepType.CHARTS_MANIFEST)
    previous = _previous(document, step_id, inputs.get("previousReportStepIds"))
    llm = inputs.get("llm")
    if not isinstance(llm, dict):
        raise LLM_PROFILE_INVALID(reason="inputs.llm is missing")
    profile = read_profile(llm.get("llmProfile"))
    prompt_id = llm.get("promptId")
    if not isinstance(prompt_id, str) or not prompt_id:
        raise PROMPT_NOT_FOUND(prompt_id="(none)")
    return ReportInputs(prompt_id=prompt_id, profile=profile, ohlcv=ohlcv, charts=charts, previous=previous)


def read_profile(given: object) -> Profile:
    """The model's settings.

    Raises:
        Failure: LLM_PROFILE_INVALID, with the reason.
    """
    if not isinstance(given, dict):
        raise LLM_PROFILE_INVALID(reason="llmProfile is missing")
    model = given.get("model")
    if not isinstance(model, str) or not model.strip() or len(model) > MODEL_CHARS_MAX:
        raise LLM_PROFILE_INVALID(reason="model is missing")
    kind = given.get("responseMimeType")
    if kind != JSON_TYPE:
        raise LLM_PROFILE_INVALID(reason=f"responseMimeType is {_shown(kind)}, not {JSON_TYPE}")
    count = given.get("candidateCount", 1)
    if type(count) is not int or count != 1:
        raise LLM_PROFILE_INVALID(reason=f"candidateCount is {_shown(count)}, not 1")
    schema_id, sha256 = _structured(given.get("structuredOutput"))
    return Profile(
        model=model.strip(),
        schema_id=schema_id,
        schema_sha256=sha256,
        temperature=_number(given, "temperature", most=2.0),
        max_output_tokens=_tokens(given),
    )


def referenced(
    document: Mapping[str, Any], step_id: str, inputs: Mapping[str, Any], name: str, kind: StepType
) -> tuple[str, str]:
    """The step that an input names, and the URI of what it made.

    Raises:
        Failure: INVALID_STEP_INPUTS.
    """
    found = inputs.get(name)
    if not isinstance(found, str) or not found:
        raise _unusable(step_id, f"inputs.{name} is missing")
    return found, _uri(document, step_id, found, kind, f"inputs.{name}")


def _previous(document: Mapping[str, Any], step_id: str, given: object) -> tuple[tuple[str, str], ...]:
    if given is None:
        return ()
    field = "inputs.previousReportStepIds"
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise _unusable(step_id, f"{field} is not a list of step ids")
    if len(given) > PREVIOUS_MAX:
        raise _unusable(step_id, f"{field} names more than {PREVIOUS_MAX} steps")
    return tuple((one, _uri(document, step_id, one, StepType.LLM_REPORT, field)) for one in given)


def _uri(document: Mapping[str, Any], step_id: str, named: str, kind: StepType, field: str) -> str:
    step = step_of(document, named)
    shown = named[:64]
    if step is None or named == step_id:
        raise _unusable(step_id, f"{field}: there is no other step {shown}")
    if step.get("stepType") != kind:
        raise _unusable(step_id, f"{field}: the step {shown} is not {kind}")
    uri = (step.get("outputs") or {}).get("gcs_uri")
    if step.get("state") != StepState.SUCCEEDED or not isinstance(uri, str) or not uri:
        raise _unusable(step_id, f"{field}: the step {shown} has no outputs.gcs_uri")
    return uri


def _structured(given: object) -> tuple[str, str | None]:
    if not isinstance(given, dict):
        raise LLM_PROFILE_INVALID(reason="structuredOutput is missing")
    schema_id = given.get("schemaId")
    if not isinstance(schema_id, str) or not schema_id:
        raise LLM_PROFILE_INVALID(reason="structuredOutput.schemaId is missing")
    if not SCHEMA_ID.match(schema_id):
        raise LLM_PROFILE_INVALID(
            reason=f"schemaId {_shown(schema_id)} is not llm_report_output_v followed by a number"
        )
    sha256 = given.get("schemaSha256")
    return schema_id, sha256 if isinstance(sha256, str) else None


def _number(given: Mapping[str, Any], name: str, *, most: float) -> float | None:
    value = given.get(name)
    if value is None:
        return None
    if type(value) not in (int, float) or not isfinite(value) or not 0 <= value <= most:
        raise LLM_PROFILE_INVALID(reason=f"{name} is {_shown(value)}, not a number from 0 to {most:g}")
    return float(value)


def _tokens(given: Mapping[str, Any]) -> int | None:
    value = given.get("maxOutputTokens")
    if value is None:
        return None
    if type(value) is not int or not 1 <= value <= OUTPUT_TOKENS_MAX:
        raise LLM_PROFILE_INVALID(
            reason=f"maxOutputTokens is {_shown(value)}, not a whole number from 1 to {OUTPUT_TOKENS_MAX}"
        )
    return value


def _shown(value: object) -> str:
    return "missing" if value is None else repr(value)[:80]


def _unusable(step_id: str, reason: str) -> Failure:
    return INVALID_STEP_INPUTS(step_id=step_id, reason=reason)
