"""What people do with runs: submit, look, run a step again, read a report, store prompts and schemas."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from holdfast.base import digest, now_us, prefixed_id, utc_text, world
from holdfast.catalog import Failure
from holdfast.operate import Action, Actor, Audited, new_action
from holdfast.store import Store
from holdfast_systems.reports.artifacts import RunArtifacts
from holdfast_systems.reports.documents import OURS, STEPS_MAX, check_submitted
from holdfast_systems.reports.faults import (
    FIRESTORE_UNAVAILABLE,
    FLOW_RUN_NOT_FOUND,
    REPORT_NOT_READY,
    RERUN_REFUSED,
    RUN_ID_TAKEN,
    STEP_NOT_FOUND,
)
from holdfast_systems.reports.model import (
    ENDED,
    Document,
    StepState,
    StepType,
    each_step,
    rerun_patch,
    state_of,
    step_of,
)
from holdfast_systems.reports.ports import Definition, Definitions, FlowRuns, Page, Snapshot
from holdfast_systems.reports.views import begun, first_shown, shown

T = TypeVar("T")

KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\Z")
RERUN_TRIES = 5
RERUN_WAIT_S = 0.05
PAGE_MAX = 100
RESERVED = ("status", "error", "usage", "createdAt", "finishedAt", "submissionSha256")


class Submitted(NamedTuple):
    """A run that was submitted, now or before."""

    document: Document
    created: bool


class Flows:
    """The runs and definitions of one installation."""

    def __init__(
        self, runs: FlowRuns, definitions: Definitions, artifacts: RunArtifacts, *, store: Store, embedded: bool = True
    ) -> None:
        """
        Args:
            store: where the audit of what operators do is kept.
            embedded: whether runs and definitions are in that store too.
        """
        self._store = store
        self._embedded = embedded
        self.runs = runs
        self.definitions = definitions
        self.artifacts = artifacts

    def submit(self, body: object) -> Submitted:
        """Take a run on; the same run again is the same run.

        Raises:
            Failure: FLOW_RUN_INVALID; RUN_ID_TAKEN when another run has the id; FIRESTORE_UNAVAILABLE.
        """
        given = check_submitted(body)
        run_id = given.get("runId") or prefixed_id("run")
        sha256 = digest(given)
        document = begun(self._document(given, run_id, sha256))
        if self.runs.create(run_id, document) is not None:
            return Submitted(shown(document), created=True)
        found = self.runs.get(run_id)
        if found is None or found.document.get("submissionSha256") != sha256:
            raise RUN_ID_TAKEN(run_id=run_id)
        return Submitted(first_shown(found.document), created=False)

    def show(self, run_id: str) -> Document:
        """A run.

        Raises:
            Failure: FLOW_RUN_NOT_FOUND, FIRESTORE_UNAVAILABLE.
        """
        return shown(self._found(run_id).document)

    def page(self, *, count: int, after: str | None) -> Page:
        """Summaries of runs, newest first."""
        return self.runs.page(count=max(1, min(count, PAGE_MAX)), after=after)

    def rerun(self, run_id: str, step_id: str, *, actor: Actor, reason: str | None = None) -> tuple[str, Document]:
        """Run a step again under a new identity; the old step is left as it is.

        Raises:
            Failure: FLOW_RUN_NOT_FOUND, STEP_NOT_FOUND; RERUN_REFUSED while the step has not ended.
        """
        action = new_action(actor, "rerun", f"step:{run_id}/{step_id}", reason)
        return self._audited(action, lambda audited: self._rerun(run_id, step_id, audited))

    def _rerun(self, run_id: str, step_id: str, audited: Audited | None) -> tuple[str, Document]:
        for _ in range(RERUN_TRIES):
            snapshot = self._found(run_id)
            step = self._step(snapshot, step_id)
            if state_of(step) not in ENDED:
                raise RERUN_REFUSED(step_id=step_id, reason=f"it is {state_of(step)}")
            if len(each_step(snapshot.document)) >= STEPS_MAX:
                raise RERUN_REFUSED(step_id=step_id, reason=f"the run has {STEPS_MAX} steps already")
            fresh, patch = rerun_patch(snapshot.document, step_id, at_us=snapshot.read_us)
            written = self.runs.patch(snapshot, patch, audited=audited)
            if written is not None:
                return fresh, shown(written.document)
            world().sleep(RERUN_WAIT_S * (0.5 + world().dice()))
        raise FIRESTORE_UNAVAILABLE(reason="the run is changed all the time")

    def report(self, run_id: str, step_id: str) -> dict[str, Any]:
        """The artifact of a step that has succeeded.

        Raises:
            Failure: FLOW_RUN_NOT_FOUND, STEP_NOT_FOUND, REPORT_NOT_READY, GCS_READ_FAILED.
        """
        step = self._step(self._found(run_id), step_id)
        uri = (step.get("outputs") or {}).get("gcs_uri")
        if step.get("state") != StepState.SUCCEEDED or not isinstance(uri, str):
            raise REPORT_NOT_READY(step_id=step_id, state=str(state_of(step)))
        return self.artifacts.fetch(step_id, uri)

    def charts_of(self, step_id: str, report: Mapping[str, Any]) -> list[tuple[str, bytes]]:
        """The charts that a report was written with, by title; none when they are gone."""
        said = report.get("metadata")
        uri = said.get("chartsManifestUri") if isinstance(said, dict) else None
        if not isinstance(uri, str):
            return []
        try:
            charts = self.artifacts.fetch(step_id, uri).get("charts") or ()
            return [
                (str(chart.get("title")), self.artifacts.chart_at(step_id, str(chart.get("gcs_uri"))))
                for chart in charts
            ]
        except Failure:
            return []

    def put_prompt(self, prompt_id: str, template: str, *, actor: Actor, reason: str | None = None) -> Definition:
        """Make this the newest version of a prompt."""
        action = new_action(actor, "put", f"prompt:{prompt_id}", reason)
        return self._audited(action, lambda audited: self.definitions.put_prompt(prompt_id, template, audited=audited))

    def put_schema(
        self, schema_id: str, schema: Mapping[str, Any], *, actor: Actor, reason: str | None = None
    ) -> Definition:
        """Make this the newest version of a schema."""
        action = new_action(actor, "put", f"schema:{schema_id}", reason)
        return self._audited(action, lambda audited: self.definitions.put_schema(schema_id, schema, audited=audited))

    def _audited(self, action: Action, change: Callable[[Audited | None], T]) -> T:
        """Make a change with its audit row: in its transaction, or around it where that is another database."""
        audited = Audited(self._store, action)
        if not self._embedded:
            with audited.around():
                return change(None)
        try:
            return change(audited)
        except Failure as failure:
            audited.refused(failure)
            raise

    def _document(self, given: Document, run_id: str, sha256: str) -> Document:
        steps = {step_id: self._pinned(step) for step_id, step in given["steps"].items()}
        rest = {name: value for name, value in given.items() if name not in (*RESERVED, "runId", "steps")}
        return {
            "runId": run_id,
            "status": None,
            "error": None,
            "createdAt": utc_text(now_us()),
            "submissionSha256": sha256,
            **rest,
            "steps": steps,
        }

    def _pinned(self, step: Mapping[str, Any]) -> dict[str, Any]:
        """The step with the versions that count for it: the newest when it is submitted."""
        kept = {"stepType": step["stepType"], "dependsOn": step.get("dependsOn") or []}
        # Fields that mean nothing here are kept for those who wrote them.
        kept |= {name: value for name, value in step.items() if name not in OURS and name not in kept}
        inputs = step.get("inputs")
        llm = inputs.get("llm") if isinstance(inputs, dict) else None
        if step["stepType"] != StepType.LLM_REPORT or not isinstance(llm, dict):
            return kept
        pinned: dict[str, int] = {}
        prompt_id, schema_id = llm.get("promptId"), _schema_id(llm)
        if isinstance(prompt_id, str) and KEY.match(prompt_id):
            found = self.definitions.prompt(prompt_id)
            pinned |= {} if found is None else {"promptVersion": found.version}
        if isinstance(schema_id, str) and KEY.match(schema_id):
            found = self.definitions.schema(schema_id)
            pinned |= {} if found is None else {"schemaVersion": found.version}
        return {**kept, "pinned": pinned} if pinned else kept

    def _found(self, run_id: str) -> Snapshot:
        found = self.runs.get(run_id)
        if found is None:
            raise FLOW_RUN_NOT_FOUND(run_id=run_id)
        return found

    @staticmethod
    def _step(snapshot: Snapshot, step_id: str) -> dict[str, Any]:
        step = step_of(snapshot.document, step_id)
        if step is None:
            raise STEP_NOT_FOUND(run_id=snapshot.run_id, step_id=step_id)
        return step


def _schema_id(llm: Mapping[str, Any]) -> object:
    profile = llm.get("llmProfile")
    structured = profile.get("structuredOutput") if isinstance(profile, dict) else None
    return structured.get("schemaId") if isinstance(structured, dict) else None
