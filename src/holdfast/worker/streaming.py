"""Many jobs as the lines that PostgreSQL's COPY reads.

Jobs that differ in nothing but their payload share the rest of their lines, which is checked and written once.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.catalog import current_context
from holdfast.worker.job import NewJob
from holdfast.worker.ledger import payload_text
from holdfast.worker.prepared import as_row

Frame = tuple[str, str]
"""What stands before the payload and after it."""


class Lines:
    """The lines of one batch, which all say the same time."""

    def __init__(self, now_us: int) -> None:
        self._now_us = now_us
        self._trace = current_context().traceparent or None
        self._frames: dict[object, Frame] = {}

    def text(self, jobs: Sequence[NewJob], ids: Sequence[str]) -> str:
        """One line for each job.

        Raises:
            Failure: as `as_row`.
        """
        return "".join([self._line(job, job_id) for job, job_id in zip(jobs, ids, strict=True)])

    def _line(self, job: NewJob, job_id: str) -> str:
        # With the types of the two that must be whole numbers: 1.0 and True are equal to 1.
        priority, attempts = job.priority, job.attempts
        shape = (
            job.kind, job.queue, job.tenant, priority, type(priority), attempts, type(attempts),
            job.delay_s, job.due, job.unique_s, job.timeout_s,
        )  # fmt: skip
        try:
            frame = self._frames.get(shape)
        except TypeError:
            frame = None  # something unhashable, which cannot be right
        if frame is None:
            frame = self._frames[shape] = self._framed(job)
        payload = payload_text(job.payload)
        if "\\" in payload:  # all else that COPY minds has a backslash in JSON
            payload = payload.replace("\\", "\\\\")
        return f"{job_id}{frame[0]}{payload}{frame[1]}"

    def _framed(self, job: NewJob) -> Frame:
        row = as_row(job, "", self._trace)
        _, tenant, queue, kind, priority, delay_us, _, _, _, attempts, timeout_us, asked_us, trace = row
        due_us = self._now_us + delay_us if asked_us is None else max(asked_us, self._now_us)
        lane = "waiting" if due_us > self._now_us else "ready"
        before = "\t".join(map(_written, (tenant, queue, kind, lane, priority, due_us)))
        after = "\t".join(map(_written, (attempts, timeout_us, trace, self._now_us)))
        return f"\t{before}\t", f"\t{after}\n"


def _written(value: object) -> str:
    if value is None:
        return "\\N"
    return str(value).replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
