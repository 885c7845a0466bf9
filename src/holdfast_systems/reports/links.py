"""The integration points: invocation → store of runs, → storage, → model."""

from __future__ import annotations

from holdfast.guard import Link
from holdfast.policy import Backoff, Retry, Spread
from holdfast_systems.reports.settings import Settings

JITTER_SHARE = 0.2


class Links:
    """The links of one process."""

    def __init__(self, settings: Settings) -> None:
        backoff = Backoff.exponential(
            settings.retry_base_s,
            factor=settings.retry_factor,
            cap_s=settings.retry_max_s,
            jitter=Spread(JITTER_SHARE),
        )
        transient = Retry(attempts=settings.retry_attempts, backoff=backoff, attempts_unknown=1)
        self.runs = Link("reports → flow runs", retry=transient)
        self.storage = Link("reports → storage", retry=transient, writes=True)
        """Written create-only under a name of its own, so a repeat is the same write."""
        self.reading = Link("reports → stored inputs", retry=transient)
        self.model = Link(
            "reports → model",
            retry=Retry(
                # A refused call costs nothing; any other may have been paid for and is not repeated in this invocation.
                attempts=max(settings.rate_limit_attempts, settings.max_gemini_attempts),
                attempts_per_code={
                    "RATE_LIMITED": settings.rate_limit_attempts,
                    "GEMINI_REQUEST_FAILED": settings.max_gemini_attempts,
                },
                attempts_unknown=1,
                backoff=backoff,
                retry_after_max_s=settings.retry_max_s,
            ),
        )
