"""How long to wait between two looks at a job: often at first, seldom later, and never past the caller's time."""

from __future__ import annotations

from holdfast.base import monotonic_s
from holdfast.catalog.durable import JOB_NOT_READY

POLL_S = 0.05
POLL_S_MAX = 1.0


class Waiting:
    """One caller that waits for a job."""

    def __init__(self, timeout_s: float) -> None:
        self._give_up_s = monotonic_s() + timeout_s
        self._poll_s = POLL_S

    def pause_s(self, job_id: str) -> float:
        """How long to wait before the next look.

        Raises:
            Failure: JOB_NOT_READY when the time is up.
        """
        left_s = self._give_up_s - monotonic_s()
        if left_s <= 0:
            raise JOB_NOT_READY(job_id=job_id, retry_after_s=self._poll_s)
        pause_s = min(self._poll_s, left_s)
        self._poll_s = min(self._poll_s * 1.5, POLL_S_MAX)
        return pause_s
