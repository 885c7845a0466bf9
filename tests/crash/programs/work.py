"""A worker process for the crash tests: does every kind of job they enqueue, until SIGTERM or something worse.

    python work.py URL '{"lease_s": 2, "concurrency": 4}'

A payload's `before_ms` and `after_ms` are waited out around the effect, so that a kill can find it anywhere;
`first_ms` too, but only by the first attempt.
"""

from __future__ import annotations

import asyncio
import faulthandler
import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from holdfast.base import REAL
from holdfast.policy import Backoff, Retry
from holdfast.store import Store, Tx
from holdfast.worker import DEFAULT_QUEUE, Handlers, Job, QueueSettings, Worker
from holdfast.worker.attend import attend

SOON = Retry(attempts=3, attempts_unknown=3, backoff=Backoff.listed(0.1, 0.2))
# A busy machine can cost its workers their leases, and so an innocent job an attempt, more often than chaos does.
PATIENT = replace(SOON, attempts=30, attempts_unknown=30)


def handlers_on(store: Store) -> Handlers:
    """Every kind of job that leaves an effect, and the one that kills its worker."""
    handlers = Handlers()

    def record(tx: Tx, job: Job) -> None:
        tx.run("effect.record", job_id=job.id, attempt=job.attempt_count, process=os.getpid())

    def record_and_finish(tx: Tx, job: Job) -> None:
        record(tx, job)
        job.finish(tx, {"process": os.getpid()})

    @handlers.handle("once", retry=PATIENT)
    def once(job: Job) -> None:
        wait_ms(job, "before_ms")
        store.atomic(lambda tx: record_and_finish(tx, job))
        wait_ms(job, "after_ms")

    @handlers.handle("plain", retry=PATIENT)
    def plain(job: Job) -> dict[str, int]:
        if job.attempt_count == 1:
            wait_ms(job, "first_ms")
        wait_ms(job, "before_ms")
        store.atomic(lambda tx: record(tx, job))
        wait_ms(job, "after_ms")
        return {"process": os.getpid()}

    @handlers.handle("coroutine", retry=PATIENT)
    async def coroutine(job: Job) -> None:
        await asyncio.sleep(milliseconds(job, "before_ms") / 1_000)
        await store.atomic_async(lambda tx: record(tx, job))

    @handlers.handle("poison", retry=SOON)
    def poison(job: Job) -> None:
        store.atomic(lambda tx: record(tx, job))
        os.kill(os.getpid(), signal.SIGKILL)

    return handlers


def milliseconds(job: Job, name: str) -> float:
    payload: Any = job.payload
    return float((payload or {}).get(name, 0))


def wait_ms(job: Job, name: str) -> None:
    REAL.sleep(milliseconds(job, name) / 1_000)


def main(url: str, settings: dict[str, Any]) -> None:
    """Work until told to stop; then finish what runs."""
    store = Store.open(url)
    # The handlers' own table is reached as a system would reach its own.
    sys.path.insert(0, str(Path(__file__).parent))
    store.load("effects")
    worker = Worker(
        store,
        handlers_on(store),
        queues=[QueueSettings(settings.get("queue", DEFAULT_QUEUE), settings.get("concurrency", 4))],
        lease_s=settings.get("lease_s", 2.0),
        grace_s=settings.get("grace_s", 10.0),
    )
    faulthandler.register(signal.SIGUSR1)  # where everyone stands, should it not stop
    attend(store, worker)
    store.close()


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
