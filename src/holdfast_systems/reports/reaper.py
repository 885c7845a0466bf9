"""The reaper: steps whose invocation died are finalised, started again, or failed, by policy."""

from __future__ import annotations

from typing import Any

from holdfast.base import bus, utc_text
from holdfast.catalog import Failure
from holdfast_systems.reports.artifacts import Kept
from holdfast_systems.reports.faults import ARTIFACT_CONFLICT, STEP_LEASE_EXPIRED
from holdfast_systems.reports.links import Links
from holdfast_systems.reports.model import ABSENT, StepState, expired, move, step_of
from holdfast_systems.reports.ports import FlowRuns, Snapshot
from holdfast_systems.reports.settings import Reap, Settings
from holdfast_systems.reports.work import Task, Work

RUNS_MAX = 100
"""Runs looked at in one round; the next round takes the rest."""


class Reaper:
    """Takes up steps that nobody works on any more."""

    def __init__(self, runs: FlowRuns, work: Work, links: Links, settings: Settings) -> None:
        self._runs = runs
        self._work = work
        self._links = links
        self._settings = settings

    def sweep(self) -> list[str]:
        """Take up every step whose lease has ended, by the store's clock; the runs that were changed."""
        changed = []
        ttl_us = int(self._settings.lease_s * 1_000_000)
        for found in self._links.runs.call(lambda: self._runs.overdue(count=RUNS_MAX)):
            snapshot: Snapshot | None = found
            for step_id in expired(found.document, at_us=found.read_us, ttl_us=ttl_us):
                if snapshot is not None:
                    snapshot = self.recover(snapshot, step_id)
            if snapshot is not None and snapshot is not found:
                changed.append(found.run_id)
        return changed

    def recover(self, snapshot: Snapshot, step_id: str) -> Snapshot | None:
        """Take up one running step that nobody works on; None when somebody else has changed the run."""
        task = Task(run_id=snapshot.run_id, step_id=step_id, document=snapshot.document)
        ending = self._ending(task)
        place = ("steps", step_id)
        patch: dict[tuple[str, ...], Any] = {(*place, name): value for name, value in ending.items()}
        patch |= {(*place, name): ABSENT for name in ("leaseUntil", "leaseOwner", "invocationId")}
        if ending["state"] != StepState.READY:
            patch[(*place, "finishedAt")] = utc_text(snapshot.read_us)
        written = self._links.runs.call(self._runs.patch, snapshot, patch)
        if written is not None and bus.listeners:
            step = step_of(written.document, step_id) or {}
            bus.tell("step.reaped", system="reports", run_id=snapshot.run_id, step_id=step_id, state=step.get("state"))
            if step.get("state") == StepState.FAILED:
                facts = STEP_LEASE_EXPIRED.facts
                bus.tell("step.failed", system="reports", run_id=snapshot.run_id, step_id=step_id, **facts)
        return written

    def _ending(self, task: Task) -> dict[str, Any]:
        kept = self._found(task)
        if kept is not None:
            ending = {"outputs": {"gcs_uri": kept.uri}, "usage": kept.usage.field(), "error": ABSENT}
            return {"state": move(task.step, "succeed"), **ending}
        before = task.step.get("lost")
        lost = (before if type(before) is int else 0) + 1
        if self._settings.reap is Reap.READY and lost <= self._settings.crash_reruns_max:
            return {"state": move(task.step, "release"), "lost": lost}
        failure = STEP_LEASE_EXPIRED(lost=lost)
        error = {"code": failure.code, "message": failure.message}
        return {"state": move(task.step, "fail"), "lost": lost, "error": error}

    def _found(self, task: Task) -> Kept | None:
        if not self._work.knows(task.step):
            return None
        try:
            return self._work.found(task)
        except Failure as failure:
            if failure.code != ARTIFACT_CONFLICT.code:
                raise
            return None
