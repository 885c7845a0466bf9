"""What a claimed step does: import market data, draw charts, or have a report written. The result is its artifact."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.base import digest, now_us, utc_text
from holdfast.catalog import Failure
from holdfast.policy import left_s, within
from holdfast_systems.reports import charts
from holdfast_systems.reports.artifacts import Kept, RunArtifacts, chart_name
from holdfast_systems.reports.cost import Usage, check_budget, priced
from holdfast_systems.reports.faults import (
    CHART_FAILED,
    GEMINI_REQUEST_FAILED,
    INVALID_STEP_INPUTS,
    INVALID_STRUCTURED_OUTPUT,
    LLM_PROFILE_INVALID,
    LLM_SAFETY_BLOCK,
    PROMPT_NOT_FOUND,
)
from holdfast_systems.reports.links import Links
from holdfast_systems.reports.model import Document, StepType, step_of
from holdfast_systems.reports.ohlcv import Candle, candles_of, read_candles
from holdfast_systems.reports.ports import Answer, Definition, Definitions, Model, Request
from holdfast_systems.reports.profile import ReportInputs, read_inputs, read_profile, referenced
from holdfast_systems.reports.prompt import build_prompt, repair_prompt
from holdfast_systems.reports.schemas import RESERVED, check_output, check_report_schema, violations
from holdfast_systems.reports.settings import Settings

_LOG = logging.getLogger("holdfast.reports")

CHART_TITLES = {"candles": "Price", "volume": "Volume"}
IMAGES_MAX = 8


@dataclass(slots=True, kw_only=True)
class Task:
    """One claimed step at work, and what it has used so far."""

    run_id: str
    step_id: str
    document: Document
    usage: Usage = field(default_factory=Usage)

    @property
    def step(self) -> Mapping[str, Any]:
        return step_of(self.document, self.step_id) or {}

    @property
    def inputs(self) -> Mapping[str, Any]:
        given = self.step.get("inputs")
        return given if isinstance(given, dict) else {}

    def metadata(self, **more: Any) -> dict[str, Any]:
        """What an artifact says about itself."""
        kind = self.step.get("stepType")
        return {
            "runId": self.run_id,
            "stepId": self.step_id,
            "stepType": kind,
            "createdAt": utc_text(now_us()),
            **more,
            **({"usage": self.usage.document()} if self.usage.calls else {}),
        }


class Work:
    """Does the steps of every type."""

    def __init__(
        self, artifacts: RunArtifacts, definitions: Definitions, model: Model, links: Links, settings: Settings
    ) -> None:
        self._artifacts = artifacts
        self._definitions = definitions
        self._model = model
        self._links = links
        self._settings = settings
        self._ways: Mapping[str, Callable[[Task], Kept]] = {
            StepType.OHLCV_IMPORT: self._import,
            StepType.CHARTS_MANIFEST: self._draw,
            StepType.LLM_REPORT: self._report,
        }

    def knows(self, step: Mapping[str, Any]) -> bool:
        """Whether steps of this type are done here."""
        return step.get("stepType") in self._ways

    def do(self, task: Task) -> Kept:
        """Make the artifact of a step, or find the one that an earlier attempt made.

        Raises:
            Failure: one of the codes of a step.
        """
        return self._ways[str(task.step.get("stepType"))](task)

    def found(self, task: Task) -> Kept | None:
        """The artifact that an earlier attempt made; None when there is none that can be used.

        Raises:
            Failure: ARTIFACT_CONFLICT, GCS_READ_FAILED, FIRESTORE_UNAVAILABLE.
        """
        return self._artifacts.find(task.run_id, task.step_id, is_valid=self._validity(task))

    # -- market data and charts ------------------------------------------------------------------------------------

    def _import(self, task: Task) -> Kept:
        candles = read_candles(task.step_id, task.inputs)
        document = {"rows": [one._asdict() for one in candles], RESERVED: task.metadata(rowCount=len(candles))}
        return self._artifacts.keep(task.run_id, task.step_id, document, is_valid=_has_rows)

    def _draw(self, task: Task) -> Kept:
        _, uri = referenced(task.document, task.step_id, task.inputs, "ohlcvStepId", StepType.OHLCV_IMPORT)
        candles = self._candles(task, uri)
        source = f"{task.run_id}/{task.step_id}"
        entries = []
        for name, draw in (("candles", charts.draw_candles), ("volume", charts.draw_volume)):
            try:
                content = draw(candles, CHART_TITLES[name], source=source)
            except Exception as error:
                raise CHART_FAILED(reason=type(error).__name__) from error
            uri = self._artifacts.keep_chart(
                chart_name(task.run_id, task.step_id, name),
                content,
                is_ours=lambda found: charts.is_chart_of(found, source),
            )
            entries.append({"name": name, "title": CHART_TITLES[name], "mimeType": "image/png", "gcs_uri": uri})
        document = {"charts": entries, RESERVED: task.metadata()}
        return self._artifacts.keep(task.run_id, task.step_id, document, is_valid=_has_charts)

    def _candles(self, task: Task, uri: str) -> list[Candle]:
        rows = self._artifacts.fetch(task.step_id, uri).get("rows")
        try:
            return candles_of(rows or [])
        except (KeyError, TypeError):
            raise INVALID_STEP_INPUTS(step_id=task.step_id, reason=f"{uri} holds no market data") from None

    # -- reports ---------------------------------------------------------------------------------------------------

    def _report(self, task: Task) -> Kept:
        inputs = read_inputs(task.document, task.step_id)
        schema = self._schema(task, inputs)
        prompt = self._prompt(task, inputs)
        found = self.found(task)
        if found is not None:
            return found
        candles = self._candles(task, inputs.ohlcv[1])
        manifest = self._artifacts.fetch(task.step_id, inputs.charts[1])
        previous = [self._artifacts.fetch(task.step_id, uri) for _, uri in inputs.previous]
        request = Request(
            model=inputs.profile.model,
            prompt=build_prompt(str(prompt.content), candles, manifest, previous),
            schema=schema.content,
            timeout_s=self._settings.gemini_timeout_s,
            images=self._images(task, manifest),
            temperature=inputs.profile.temperature,
            max_output_tokens=inputs.profile.max_output_tokens,
        )
        output = self._written(task, request)
        metadata = task.metadata(
            model=inputs.profile.model,
            promptId=inputs.prompt_id,
            promptVersion=prompt.version,
            schemaId=inputs.profile.schema_id,
            schemaVersion=schema.version,
            chartsManifestUri=inputs.charts[1],
        )
        document = {**output, RESERVED: metadata}
        return self._artifacts.keep(task.run_id, task.step_id, document, is_valid=self._validity(task))

    def _written(self, task: Task, request: Request) -> dict[str, Any]:
        """What the model wrote, repaired at most as often as allowed."""
        check_budget(task.document, task.usage, self._settings.budget_usd)
        answer = self._generated(task, request)
        for _ in range(self._settings.max_repair_attempts):
            try:
                return _usable(answer, request)
            except Failure as invalid:
                if invalid.code != INVALID_STRUCTURED_OUTPUT.code or not self._may_repair(task):
                    raise
                try:
                    answer = self._generated(task, _repairing(request, invalid, answer))
                except Failure as failure:
                    # An answer was there and paid for; that it was invalid is what ends the step.
                    raise invalid from failure
        return _usable(answer, request)

    def _may_repair(self, task: Task) -> bool:
        if left_s() - self._settings.finalize_budget_s < self._settings.repair_min_s:
            return False
        try:
            check_budget(task.document, task.usage, self._settings.budget_usd)
        except Failure:
            return False
        return True

    def _generated(self, task: Task, request: Request) -> Answer:
        room_s = left_s() - self._settings.finalize_budget_s
        if room_s <= 0:
            raise GEMINI_REQUEST_FAILED(reason="no time is left in this invocation")
        with within(room_s):
            answer = self._links.model.call(lambda: self._model.generate(_in_time(request)))
        task.usage += priced(
            self._settings.prices,
            request.model,
            input_tokens=answer.input_tokens,
            output_tokens=answer.output_tokens,
        )
        return answer

    def _images(self, task: Task, manifest: Mapping[str, Any]) -> list[bytes]:
        entries = manifest.get("charts")
        if not isinstance(entries, list):
            raise INVALID_STEP_INPUTS(step_id=task.step_id, reason="the charts manifest has no charts")
        uris = [entry.get("gcs_uri") for entry in entries[:IMAGES_MAX] if isinstance(entry, dict)]
        return [self._artifacts.chart_at(task.step_id, uri) for uri in uris if isinstance(uri, str)]

    def _schema(self, task: Task, inputs: ReportInputs) -> Definition:
        found = self._stored_schema(task, inputs.profile.schema_id)
        if found is None:
            raise LLM_PROFILE_INVALID(reason=f"there is no schema {inputs.profile.schema_id}")
        check_report_schema(found.content)
        said = inputs.profile.schema_sha256
        if said is not None and said != digest(found.content):
            # For people to know; what is stored decides.
            _LOG.info(
                "%s/%s: %s is not the schema that the run names by its hash", task.run_id, task.step_id, said[:64]
            )
        return found

    def _stored_schema(self, task: Task, schema_id: str) -> Definition | None:
        version = _pinned(task.step, "schemaVersion")
        return self._links.runs.call(lambda: self._definitions.schema(schema_id, version))

    def _prompt(self, task: Task, inputs: ReportInputs) -> Definition:
        version = _pinned(task.step, "promptVersion")
        found = self._links.runs.call(lambda: self._definitions.prompt(inputs.prompt_id, version))
        if found is None:
            raise PROMPT_NOT_FOUND(prompt_id=inputs.prompt_id)
        return found

    def _validity(self, task: Task) -> Callable[[Any], bool]:
        kind = task.step.get("stepType")
        if kind == StepType.OHLCV_IMPORT:
            return _has_rows
        if kind == StepType.CHARTS_MANIFEST:
            return _has_charts
        return lambda document: self._is_report(task, document)

    def _is_report(self, task: Task, document: Mapping[str, Any]) -> bool:
        llm = task.inputs.get("llm")
        try:
            profile = read_profile(llm.get("llmProfile") if isinstance(llm, dict) else None)
            schema = self._stored_schema(task, profile.schema_id)
            output = {name: value for name, value in document.items() if name != RESERVED}
            return schema is not None and not violations(output, schema.content)
        except Failure as failure:
            if failure.code != LLM_PROFILE_INVALID.code:
                raise
            return False


def _usable(answer: Answer, request: Request) -> dict[str, Any]:
    if answer.blocked:
        raise LLM_SAFETY_BLOCK(reason=answer.blocked)
    if answer.incomplete:
        raise INVALID_STRUCTURED_OUTPUT(reason=answer.incomplete)
    return check_output(answer.text, request.schema)


def _repairing(request: Request, invalid: Failure, answer: Answer) -> Request:
    wrong = repair_prompt(str(invalid.details["reason"]), answer.text)
    return replace(request, prompt=f"{request.prompt}\n\n{wrong}")


def _in_time(request: Request) -> Request:
    """The request with no more time than is left."""
    return replace(request, timeout_s=max(0.001, min(request.timeout_s, left_s())))


def _pinned(step: Mapping[str, Any], name: str) -> int | None:
    pinned = step.get("pinned")
    version = pinned.get(name) if isinstance(pinned, dict) else None
    return version if type(version) is int else None


def _has_rows(document: Mapping[str, Any]) -> bool:
    return isinstance(document.get("rows"), list) and bool(document["rows"])


def _has_charts(document: Mapping[str, Any]) -> bool:
    return isinstance(document.get("charts"), list)
