"""Runs as they are shown: the document, its summary, and the answer to the submission."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast_systems.reports.cost import spent
from holdfast_systems.reports.documents import OURS
from holdfast_systems.reports.model import Document, applied, each_step, followed, time_us

SUMMARY = ("runId", "status", "error", "createdAt", "finishedAt")
STEP_SUMMARY = ("stepType", "state", "dependsOn", "startedAt", "finishedAt", "attempts", "error", "usage", "rerunOf")
LATER = OURS - {"pinned"}
"""What a step does not have yet when it is submitted."""


def shown(document: Mapping[str, Any]) -> Document:
    """The document with what the run has used in all."""
    return {**document, "usage": spent(document).document()}


def summary_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """A run without the inputs of its steps."""
    steps = {
        step_id: {name: step[name] for name in STEP_SUMMARY if name in step} for step_id, step in each_step(document)
    }
    return {name: document.get(name) for name in SUMMARY} | {"usage": spent(document).document(), "steps": steps}


def first_shown(document: Mapping[str, Any]) -> Document:
    """The run as the answer to its submission showed it, however far it has come since."""
    steps = {
        step_id: {name: value for name, value in step.items() if name not in LATER}
        for step_id, step in each_step(document)
        if "rerunOf" not in step
    }
    first = {name: value for name, value in document.items() if name not in ("finishedAt", "error", "status")}
    return shown(begun({**first, "error": None, "steps": steps}))


def begun(document: Mapping[str, Any]) -> Document:
    """A submitted run with the states that the orchestrator gives it at once."""
    return applied(document, followed(document, at_us=time_us(document.get("createdAt")) or 0))
