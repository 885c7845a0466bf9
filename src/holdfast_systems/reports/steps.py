"""What a worker does: follow the change feed, and take up what died."""

from __future__ import annotations

from holdfast.base import Json
from holdfast.worker import Job
from holdfast_systems.reports.invocation import Invocations
from holdfast_systems.reports.reaper import Reaper


class Steps:
    """The handlers of the system's jobs."""

    def __init__(self, invocations: Invocations, reaper: Reaper) -> None:
        self._invocations = invocations
        self._reaper = reaper

    def changed(self, job: Job) -> Json:
        """Do what follows from one change of a run.

        Raises:
            Failure: the store or the storage does not answer; the job is tried again.
        """
        payload = job.payload
        assert isinstance(payload, dict)
        # A step that is to be tried again has its time in the document, and a job for it.
        return self._invocations.run(str(payload["runId"]), owner=f"job:{job.id}", is_event=False).document()

    def reap(self, job: Job) -> Json:  # noqa: ARG002 - a round needs nothing from its job
        """Take up the steps whose lease has ended."""
        return {"runs": list(self._reaper.sweep())}
