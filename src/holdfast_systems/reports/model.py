"""The domain of flow runs, pure: states and moves, what is ready, what follows from what has ended."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from datetime import datetime
from enum import StrEnum
from typing import Any

from holdfast.base import utc_text
from holdfast.lifecycle import Move, moved
from holdfast_systems.reports.faults import DEPENDENCY_FAILED, REPORTS

QUEUE = "reports"
UPKEEP_QUEUE = "reports.upkeep"
CHANGED = "reports.changed"
REAP = "reports.reap"

Document = dict[str, Any]
Path = tuple[str, ...]
Patch = Mapping[Path, Any]
"""Field paths of a run's document and their new values; only what changes."""


class _Absent:
    """The value of a field that a patch removes."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = _Absent()


class StepType(StrEnum):
    """What a step does."""

    OHLCV_IMPORT = "OHLCV_IMPORT"
    CHARTS_MANIFEST = "CHARTS_MANIFEST"
    LLM_REPORT = "LLM_REPORT"


class StepState(StrEnum):
    """How far a step has come."""

    PENDING = "PENDING"
    READY = "READY"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


class RunStatus(StrEnum):
    """How far a run has come."""

    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


STEP = (
    Move(StepState.PENDING, "make_ready", StepState.READY),
    Move(StepState.PENDING, "fail", StepState.FAILED),
    Move(StepState.READY, "claim", StepState.RUNNING),
    Move(StepState.RUNNING, "succeed", StepState.SUCCEEDED),
    Move(StepState.RUNNING, "fail", StepState.FAILED),
    Move(StepState.RUNNING, "release", StepState.READY),
)
"""The only place where a transition of a step is declared."""

ENDED = (StepState.SUCCEEDED, StepState.FAILED)
RERUN = re.compile(r"(?P<base>.+)_r(?P<number>[1-9][0-9]*)\Z")


def step_of(document: Mapping[str, Any], step_id: str) -> dict[str, Any] | None:
    """A step of a document, or None."""
    steps = document.get("steps")
    step = steps.get(step_id) if isinstance(steps, dict) else None
    return step if isinstance(step, dict) else None


def state_of(step: Mapping[str, Any]) -> StepState:
    """The state of a step; a submitted step has none and is pending."""
    found = step.get("state")
    return StepState(found) if found in set(StepState) else StepState.PENDING


def move(step: Mapping[str, Any], verb: str) -> str:
    """The state that the verb leads to.

    Raises:
        MoveRefused: the step's state has no such move.
    """
    return moved(STEP, state_of(step), verb)


def applied(document: Mapping[str, Any], patch: Patch) -> Document:
    """The document with the patch applied; the original is left alone."""
    changed = deepcopy(dict(document))
    for path, value in patch.items():
        place = changed
        for part in path[:-1]:
            if not isinstance(place.get(part), dict):
                place[part] = {}
            place = place[part]
        if value is ABSENT:
            place.pop(path[-1], None)
        else:
            place[path[-1]] = deepcopy(value)
    return changed


def time_us(text: object) -> int | None:
    """A stored time in microseconds; None when there is none or it cannot be read."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return int(moment.timestamp() * 1_000_000) if moment.tzinfo is not None else None


# -- what is ready -----------------------------------------------------------------------------------------------


def ready(document: Mapping[str, Any], *, at_us: int) -> list[str]:
    """Steps in state READY that are not waiting for a retry, in the order of the document."""
    return [
        step_id
        for step_id, step in _steps(document)
        if step.get("state") == StepState.READY and (time_us(step.get("retryAt")) or 0) <= at_us
    ]


def unmet(document: Mapping[str, Any], step_id: str) -> list[str]:
    """The dependencies of a step that have not succeeded."""
    step = step_of(document, step_id) or {}
    return [
        needed
        for needed in step.get("dependsOn") or ()
        if (step_of(document, needed) or {}).get("state") != StepState.SUCCEEDED
    ]


def unfinalised(document: Mapping[str, Any]) -> list[str]:
    """Steps whose artifact may exist although the document does not say so."""
    return [
        step_id
        for step_id, step in _steps(document)
        if step.get("state") == StepState.RUNNING
        or (step.get("state") == StepState.SUCCEEDED and not (step.get("outputs") or {}).get("gcs_uri"))
    ]


def expired(document: Mapping[str, Any], *, at_us: int, ttl_us: int) -> list[str]:
    """Running steps whose lease has ended; one without a lease has the default time from `startedAt`."""
    return [
        step_id
        for step_id, step in _steps(document)
        if step.get("state") == StepState.RUNNING and lease_until_us(step, ttl_us=ttl_us) <= at_us
    ]


def lease_until_us(step: Mapping[str, Any], *, ttl_us: int) -> int:
    """When the lease of a running step ends."""
    until = time_us(step.get("leaseUntil"))
    return until if until is not None else (time_us(step.get("startedAt")) or 0) + ttl_us


def next_due_us(document: Mapping[str, Any]) -> int | None:
    """When the run needs attention next: 0 is at once, None is when something else changes."""
    if document.get("status") != RunStatus.RUNNING:
        return None
    if followed(document, at_us=0):
        return 0
    waits = [time_us(step.get("retryAt")) or 0 for _, step in _steps(document) if step.get("state") == StepState.READY]
    return min(waits, default=None)


# -- what follows ------------------------------------------------------------------------------------------------


def followed(document: Mapping[str, Any], *, at_us: int) -> dict[Path, Any]:
    """The orchestrator's patch: dependants that become ready or fail, and the run's status. Empty when all is said."""
    patch: dict[Path, Any] = {}
    states = {step_id: step.get("state") for step_id, step in _steps(document)}
    # Failures are handed down as far as they go, so that one patch says everything.
    for _ in range(len(states)):
        before = dict(states)
        for step_id, step in _steps(document):
            _follow(step_id, step, states, patch, at_us)
        if states == before:
            break
    status = status_of({step_id: states[step_id] for step_id in _current(document)})
    if status != document.get("status") and document.get("status") not in (RunStatus.FAILED, RunStatus.SUCCEEDED):
        patch[("status",)] = status.value
        if status is not RunStatus.RUNNING:
            patch[("finishedAt",)] = utc_text(at_us)
    return patch


def status_of(states: Mapping[str, str | None]) -> RunStatus:
    """The status of a run by the states of the steps that count."""
    if any(state not in ENDED for state in states.values()):
        return RunStatus.RUNNING
    return RunStatus.SUCCEEDED if all(state == StepState.SUCCEEDED for state in states.values()) else RunStatus.FAILED


def _follow(step_id: str, step: Mapping[str, Any], states: dict[str, Any], patch: dict[Path, Any], at_us: int) -> None:
    if states[step_id] not in (None, StepState.PENDING):
        return
    needed = [name for name in step.get("dependsOn") or () if name in states]
    failed = [name for name in needed if states[name] == StepState.FAILED]
    if failed:
        states[step_id] = StepState.FAILED
        failure = DEPENDENCY_FAILED(dependency=failed[0])
        patch[("steps", step_id, "state")] = StepState.FAILED.value
        patch[("steps", step_id, "finishedAt")] = utc_text(at_us)
        patch[("steps", step_id, "error")] = {"code": failure.code, "message": failure.message}
    elif all(states[name] == StepState.SUCCEEDED for name in needed):
        states[step_id] = StepState.READY
        patch[("steps", step_id, "state")] = StepState.READY.value
    elif step.get("state") is None:
        states[step_id] = StepState.PENDING
        patch[("steps", step_id, "state")] = StepState.PENDING.value


def _current(document: Mapping[str, Any]) -> list[str]:
    """The steps that count for the status: one that was run again is replaced by its rerun."""
    replaced = {step.get("rerunOf") for _, step in _steps(document)}
    return [step_id for step_id, _ in _steps(document) if step_id not in replaced]


# -- manual reruns -----------------------------------------------------------------------------------------------


def rerun_id(document: Mapping[str, Any], step_id: str) -> str:
    """The next free identity of a step: `report` → `report_r2` → `report_r3`."""
    found = RERUN.match(step_id)
    base = found["base"] if found and step_of(document, found["base"]) is not None else step_id
    number = 2
    while step_of(document, f"{base}_r{number}") is not None:
        number += 1
    return f"{base}_r{number}"


def rerun_patch(document: Mapping[str, Any], step_id: str, *, at_us: int) -> tuple[str, dict[Path, Any]]:
    """The new identity of a step and the patch that adds it; the old step is left as it is."""
    old = step_of(document, step_id) or {}
    fresh = rerun_id(document, step_id)
    kept: dict[str, Any] = {name: deepcopy(old[name]) for name in ("stepType", "inputs", "pinned") if name in old}
    renamed = _renamed(document)
    step = {
        **_with_names(kept, renamed),
        "dependsOn": [renamed.get(name, name) for name in old.get("dependsOn") or ()],
        "rerunOf": step_id,
    }
    patch: dict[Path, Any] = {("steps", fresh): step, ("status",): RunStatus.RUNNING.value, ("finishedAt",): ABSENT}
    # In the same patch, so that no reader sees a step without a state.
    return fresh, {**patch, **_settled_into(document, patch, fresh, at_us)}


def _settled_into(document: Mapping[str, Any], patch: Patch, fresh: str, at_us: int) -> dict[Path, Any]:
    step = dict(patch[("steps", fresh)])
    for path, value in followed(applied(document, patch), at_us=at_us).items():
        if path[:2] == ("steps", fresh):
            step[path[2]] = value
    return {("steps", fresh): step}


def _renamed(document: Mapping[str, Any]) -> dict[str, str]:
    """For each step that failed and was run again, the newest rerun: what depends on it should use that one."""
    newest: dict[str, str] = {}
    for step_id, step in _steps(document):
        origin = step.get("rerunOf")
        if isinstance(origin, str) and (step_of(document, origin) or {}).get("state") == StepState.FAILED:
            newest[origin] = step_id
    return newest


def _with_names(step: dict[str, Any], renamed: Mapping[str, str]) -> dict[str, Any]:
    inputs = step.get("inputs")
    if isinstance(inputs, dict):
        for name in ("ohlcvStepId", "chartsManifestStepId"):
            if inputs.get(name) in renamed:
                inputs[name] = renamed[inputs[name]]
        previous = inputs.get("previousReportStepIds")
        if isinstance(previous, list):
            inputs["previousReportStepIds"] = [renamed.get(one, one) for one in previous if isinstance(one, str)]
    return step


# -- ends --------------------------------------------------------------------------------------------------------


def is_terminal(code: str) -> bool:
    """Whether a step that failed with the code is not run again by itself."""
    return code not in REPORTS or not REPORTS[code].retryable


def _steps(document: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    steps = document.get("steps")
    if isinstance(steps, dict):
        for step_id, step in steps.items():
            if isinstance(step, dict):
                yield step_id, step


def each_step(document: Mapping[str, Any]) -> Sequence[tuple[str, dict[str, Any]]]:
    """The steps of a document with their ids."""
    return list(_steps(document))
