"""The same protection over time: enqueue, claim, run, settle, sweep."""

from holdfast.base.combiner import Combiner
from holdfast.worker.dead import DeadLetters
from holdfast.worker.dead_filter import DeadFilter
from holdfast.worker.handlers import Handler, Handlers, QueueSettings
from holdfast.worker.job import DEFAULT_QUEUE, Enqueued, Job, JobLost, NewJob
from holdfast.worker.jobs import Jobs
from holdfast.worker.periodic import Periodic
from holdfast.worker.queues import Queues
from holdfast.worker.retention import Retention
from holdfast.worker.worker import Worker

__all__ = [
    "DEFAULT_QUEUE",
    "Combiner",
    "DeadFilter",
    "DeadLetters",
    "Enqueued",
    "Handler",
    "Handlers",
    "Job",
    "JobLost",
    "Jobs",
    "NewJob",
    "Periodic",
    "QueueSettings",
    "Queues",
    "Retention",
    "Worker",
]
