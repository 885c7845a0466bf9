"""The same protection over time: enqueue, claim, run, settle, sweep."""

from holdfast.worker.job import DEFAULT_QUEUE, Enqueued, Job, JobLost, NewJob
from holdfast.worker.jobs import Jobs

__all__ = ["DEFAULT_QUEUE", "Enqueued", "Job", "JobLost", "Jobs", "NewJob"]
