"""Holdfast: failure handling for Python services.

Declare each thing that can go wrong once, in a catalog; retries, error bodies, jobs, webhooks, breakers, limits,
metrics, alerts and documentation follow from that one record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from holdfast.base import Secret
    from holdfast.catalog import CORE, Catalog, Failure, Fault
    from holdfast.guard import Keys, Link, stamp_of
    from holdfast.policy import Backoff, Breaker, Budget, Concurrency, RateLimit, Retry, within
    from holdfast.store import Store
    from holdfast.worker import Handlers, Job, Jobs, NewJob, QueueSettings, Worker

# A name is loaded when it is first used, so that importing the package costs next to nothing.
_HOMES = {
    "Secret": "holdfast.base",
    "CORE": "holdfast.catalog",
    "Catalog": "holdfast.catalog",
    "Failure": "holdfast.catalog",
    "Fault": "holdfast.catalog",
    "Keys": "holdfast.guard",
    "Link": "holdfast.guard",
    "stamp_of": "holdfast.guard",
    "Backoff": "holdfast.policy",
    "Breaker": "holdfast.policy",
    "Budget": "holdfast.policy",
    "Concurrency": "holdfast.policy",
    "RateLimit": "holdfast.policy",
    "Retry": "holdfast.policy",
    "within": "holdfast.policy",
    "Store": "holdfast.store",
    "Handlers": "holdfast.worker",
    "Job": "holdfast.worker",
    "Jobs": "holdfast.worker",
    "NewJob": "holdfast.worker",
    "QueueSettings": "holdfast.worker",
    "Worker": "holdfast.worker",
}

__all__ = [
    "CORE",
    "Backoff",
    "Breaker",
    "Budget",
    "Catalog",
    "Concurrency",
    "Failure",
    "Fault",
    "Handlers",
    "Job",
    "Jobs",
    "Keys",
    "Link",
    "NewJob",
    "QueueSettings",
    "RateLimit",
    "Retry",
    "Secret",
    "Store",
    "Worker",
    "stamp_of",
    "within",
]


def __getattr__(name: str) -> Any:
    from holdfast.base.lazy import lazily  # here, because loading `base` is most of what is to be saved

    return lazily(__name__, globals(), _HOMES)(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
