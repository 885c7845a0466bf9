"""What a flow run has to look like: checked when it is submitted, and again when a worker meets it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite
from typing import Any

from holdfast.base import encode
from holdfast.catalog import Failure
from holdfast_systems.reports.faults import FLOW_RUN_INVALID
from holdfast_systems.reports.model import Document, RunStatus, StepType

RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}\Z")
STEP_ID = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}\Z")
STEPS_MAX = 50
DOCUMENT_BYTES_MAX = 900_000
"""Firestore takes a document of 1 MiB; what the steps add needs room too."""
OURS = frozenset(
    [
        "state",
        "outputs",
        "error",
        "startedAt",
        "finishedAt",
        "attempts",
        "lost",
        "usage",
        "retryAt",
        "invocationId",
        "leaseOwner",
        "leaseUntil",
        "pinned",
        "rerunOf",
    ]
)
"""Fields of a step that are set here and nowhere else; a submitted step has none of them."""
BEFORE = (None, "PENDING", RunStatus.RUNNING)


def check_submitted(body: object) -> Document:
    """The document of a submitted run, as it is stored first.

    Raises:
        Failure: FLOW_RUN_INVALID, which names the field.
    """
    document = check_run(body)
    for name in ("startedAt", "finishedAt", "createdAt"):
        if document.get(name) is not None:
            raise _invalid(name, "it is set by the system")
    if document.get("status") not in BEFORE or document.get("error") is not None:
        raise _invalid("status", "a submitted run has not ended")
    for step_id, step in document["steps"].items():
        field = f"steps.{step_id}"
        taken = sorted(name for name in step.keys() & OURS if step[name] is not None)
        if taken:
            raise _invalid(f"{field}.{taken[0]}", "it is set by the system")
        if step["stepType"] not in set(StepType):
            raise _invalid(f"{field}.stepType", f"it is not one of {', '.join(StepType)}")
        if not isinstance(step.get("inputs", {}), dict):
            raise _invalid(f"{field}.inputs", "it is not an object")
    if len(encode(document).encode()) > DOCUMENT_BYTES_MAX:
        raise _invalid("", f"it has more than {DOCUMENT_BYTES_MAX} bytes")
    return document


def check_run(body: object) -> Document:
    """Check that a run's document, whatever wrote it, has what a worker needs; returns the document.

    Raises:
        Failure: FLOW_RUN_INVALID, which names the field.
    """
    if not isinstance(body, dict):
        raise _invalid("", "it is not an object")
    run_id = body.get("runId")
    if run_id is not None and (not isinstance(run_id, str) or not RUN_ID.match(run_id)):
        raise _invalid("runId", "it is not 1 to 100 letters, digits, - and _")
    steps = body.get("steps")
    if not isinstance(steps, dict) or not steps:
        raise _invalid("steps", "it has no steps")
    if len(steps) > STEPS_MAX:
        raise _invalid("steps", f"it has more than {STEPS_MAX} steps")
    for step_id, step in steps.items():
        _check_step(step_id, step, steps)
    circle = _circle(steps)
    if circle:
        raise _invalid(f"steps.{circle}.dependsOn", "the dependencies form a cycle")
    budget = body.get("budgetUsd")
    if budget is not None and not (type(budget) in (int, float) and isfinite(budget) and budget >= 0):
        raise _invalid("budgetUsd", "it is not a number of US dollars")
    return body


def _check_step(step_id: str, step: object, steps: Mapping[str, Any]) -> None:
    field = f"steps.{step_id[:64]}"
    if not STEP_ID.match(step_id):
        raise _invalid(field, "a step id is a letter, then up to 63 letters, digits, - and _")
    if not isinstance(step, dict):
        raise _invalid(field, "it is not an object")
    if not isinstance(step.get("stepType"), str):
        raise _invalid(f"{field}.stepType", "it is missing")
    needed = step.get("dependsOn")
    if needed is None:
        return
    if not isinstance(needed, list) or not all(isinstance(name, str) for name in needed):
        raise _invalid(f"{field}.dependsOn", "it is not a list of step ids")
    if any(name not in steps for name in needed):
        raise _invalid(f"{field}.dependsOn", "it names a step that the run does not have")


def _circle(steps: Mapping[str, Any]) -> str:
    """A step that cannot be reached because its dependencies form a cycle; empty when there is none."""
    left = {step_id: set(step.get("dependsOn") or ()) for step_id, step in steps.items()}
    while left:
        free = {step_id for step_id, needed in left.items() if not needed & left.keys()}
        if not free:
            return next(iter(left))
        for step_id in free:
            del left[step_id]
    return ""


def _invalid(field: str, reason: str) -> Failure:
    return FLOW_RUN_INVALID(field=field, reason=f"{field}: {reason}" if field else reason)
