"""The same protection over time: enqueue, claim, run, settle, sweep."""

from holdfast.worker.handlers import Handler, Handlers, QueueSettings
from holdfast.worker.job import DEFAULT_QUEUE, Enqueued, Job, JobLost, NewJob
from holdfast.worker.jobs import Jobs
from holdfast.worker.worker import Worker

__all__ = [
    "DEFAULT_QUEUE",
    "Enqueued",
    "Handler",
    "Handlers",
    "Job",
    "JobLost",
    "Jobs",
    "NewJob",
    "QueueSettings",
    "Worker",
]
