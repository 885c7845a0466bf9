"""Every metric, declared once: its name, what it means, its labels and how many sets of labels it may have.

Messages and ids are never labels. A label whose values come from users is bounded; what is beyond is `other`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

OTHER = "other"
"""The value of every label of a series that would have been one too many."""
SERIES_MAX = 200
"""Maximum number of sets of labels of a metric that does not declare its own."""
QUEUES_MAX = 1_000
"""Maximum number of queues that are shown each by itself."""


class Kind(StrEnum):
    """What Prometheus calls the type of a metric."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Merge(StrEnum):
    """What several values of a gauge are together."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"


DURATIONS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
RETRIES = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric, as it is counted, stored, shown and documented."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    """Upper bounds of a histogram; one without a bound follows them."""
    series_max: int = SERIES_MAX
    merge: Merge = Merge.SUM

    def __post_init__(self) -> None:
        if (self.kind is Kind.HISTOGRAM) != bool(self.buckets):
            raise ValueError(f"{self.name}: a histogram has buckets, and nothing else has")
        if (self.kind is Kind.COUNTER) != self.name.endswith("_total"):
            raise ValueError(f"{self.name}: counters, and only they, end in _total")


def _counter(name: str, meaning: str, *labels: str, series_max: int = SERIES_MAX) -> Metric:
    return Metric(name=name, kind=Kind.COUNTER, help=meaning, labels=labels, series_max=series_max)


def _gauge(name: str, meaning: str, *labels: str, merge: Merge = Merge.SUM, series_max: int = SERIES_MAX) -> Metric:
    return Metric(name=name, kind=Kind.GAUGE, help=meaning, labels=labels, merge=merge, series_max=series_max)


def _queue_gauge(name: str, meaning: str, *, merge: Merge = Merge.SUM) -> Metric:
    return _gauge(name, meaning, "queue", merge=merge, series_max=QUEUES_MAX)


def _histogram(
    name: str, meaning: str, *labels: str, buckets: tuple[float, ...] = DURATIONS, series_max: int = SERIES_MAX
) -> Metric:
    return Metric(name=name, kind=Kind.HISTOGRAM, help=meaning, labels=labels, buckets=buckets, series_max=series_max)


# Jobs.
JOB_TRANSITIONS = _counter("job_transitions_total", "What happened to jobs.", "queue", "verb", series_max=600)
JOBS_FAILED = _counter("jobs_failed_total", "Jobs that failed for good.", "queue", "error_code")
JOB_DURATION = _histogram("job_processing_duration_seconds", "How long an attempt of a job took.", "queue")
JOB_RETRIES = _histogram("job_retry_count", "Retries that a job had taken when it ended.", "queue", buckets=RETRIES)
MANUAL_RETRIES = _counter("manual_retry_total", "Failed jobs that were revived.", "queue")
QUEUE_DEPTH = _queue_gauge("queue_depth", "Jobs that wait in a queue, due or not; counted up to 10000 a lane.")
QUEUE_OLDEST = _queue_gauge(
    "queue_oldest_seconds", "For how long the oldest job of a queue has been due.", merge=Merge.MAX
)
QUEUE_PAUSED = _queue_gauge("queue_paused", "1 while a queue is paused by hand.", merge=Merge.MAX)
QUEUE_HELD = _queue_gauge("queue_held", "1 while a breaker keeps the jobs of a queue back.", merge=Merge.MAX)
QUEUE_WORKERS = _queue_gauge("queue_workers", "Workers that serve a queue; 0 is a queue that none serves.")
JOBS_ACTIVE = _queue_gauge("jobs_active", "Jobs that are worked on now.")
DEAD_LETTERS = _queue_gauge("dead_letters", "Failed jobs that are kept; up to 10000 of a queue are counted.")
WORKER_TROUBLE = _counter("worker_trouble_total", "Times a worker could not reach its store.", "error_code")

# Webhooks sent.
DELIVERIES = _counter("webhook_delivery_total", "Attempts to deliver an event.", "endpoint")
DELIVERIES_GOOD = _counter("webhook_delivery_success_total", "Attempts that delivered an event.", "endpoint")
DELIVERIES_BAD = _counter(
    "webhook_delivery_failure_total",
    "Attempts that did not deliver; status_code is none when there was no answer.",
    "endpoint",
    "status_code",
    series_max=500,
)
DELIVERY_RETRIES = _histogram(
    "webhook_retry_count", "Retries that a delivery had taken when it ended.", "endpoint", buckets=RETRIES
)
DELIVERY_DURATION = _histogram("webhook_delivery_duration_seconds", "How long an attempt to deliver took.", "endpoint")
WEBHOOK_DEAD = _gauge("webhook_dead_letters", "Deliveries that are dead; counted up to 10000.")
WEBHOOK_DEAD_LATELY = _gauge("webhook_dead_letters_last_hour", "Deliveries that died in the last hour.")

# Webhooks received.
RECEIVED = _counter("webhook_received_total", "Webhooks that came in, accepted or not.", "source")
REFUSED = _counter("webhook_rejected_total", "Webhooks that were not accepted.", "source", "error_code")

# Requests.
REQUESTS = _counter(
    "http_requests_total",
    "Requests; status 499 is a client that hung up.",
    "endpoint",
    "method",
    "status",
    series_max=1_000,
)
REQUEST_ERRORS = _counter(
    "http_errors_total",
    "Requests that were answered with an error; blame is who has to change something.",
    "endpoint",
    "error_code",
    "blame",
    series_max=500,
)
REQUEST_DURATION = _histogram(
    "http_request_duration_seconds",
    "How long a request took; outcome is good below status 400, failed from there on, gone when the client hung up.",
    "endpoint",
    "outcome",
)

# Everywhere.
ERRORS = _counter(
    "errors_total",
    "Failures by code, at each layer that saw them; severity as their fault declares it.",
    "layer",
    "error_code",
    "severity",
    series_max=1_000,
)
RETRIES_MADE = _counter("retries_total", "Attempts that followed a failed one.", "layer")
RETRIES_GOOD = _counter("retry_success_total", "Retries that succeeded.", "layer")

# Links.
LINK_ATTEMPTS = _counter(
    "link_attempts_total", "Attempts on a link; outcome is succeeded or failed.", "link", "outcome"
)
LINK_FAILURES = _counter(
    "link_failures_total",
    "Attempts on a link that failed; blame is who has to change something.",
    "link",
    "error_code",
    "blame",
    series_max=500,
)
LINK_DECISIONS = _counter(
    "link_decisions_total",
    "What followed an attempt, or its refusal: retried, gave_up or rejected, and why.",
    "link",
    "decision",
    "reason",
    series_max=500,
)
LINK_DURATION = _histogram("link_duration_seconds", "How long an attempt on a link took.", "link")
LINK_BREAKER = _gauge("link_breaker_state", "0 closed, 1 half open, 2 open.", "link", merge=Merge.MAX)
LINK_BUDGET = _gauge("link_budget_left", "Retries that the budget of a link still grants.", "link", merge=Merge.MIN)

METRICS: tuple[Metric, ...] = tuple(one for one in globals().values() if isinstance(one, Metric))
"""All of them, in the order of this page."""
BY_NAME = {one.name: one for one in METRICS}
BREAKER_LEVELS = {"closed": 0.0, "half_open": 1.0, "open": 2.0}
