"""Holdfast, as a service would use it: `Jobs` to enqueue, a `Worker` to work; the same file for both engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from bench.jobs_peers.contender import Client, Handled, SyncContender
from holdfast.store import Store
from holdfast.worker import Handlers, Job, Jobs, NewJob, QueueSettings, Worker

CONCURRENCY = 10
KIND = "noop"


class HoldfastClient:
    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def one(self, payload: str) -> None:
        self._jobs.enqueue(KIND, payload)

    def many(self, payloads: Sequence[str]) -> None:
        self._jobs.enqueue_many([NewJob(kind=KIND, payload=payload) for payload in payloads])


class Holdfast(SyncContender):
    unfinished = """
        SELECT (SELECT count(*) FROM job WHERE state = 'queued')
             + (SELECT count(*) FROM job WHERE lease_owner IS NOT NULL)
    """

    def prepare(self, address: str) -> None:
        with opened(address) as store:
            store.migrate()

    @contextmanager
    def client(self, address: str) -> Iterator[Client]:
        with opened(address) as store:
            jobs = Jobs(store)
            try:
                yield HoldfastClient(jobs)
            finally:
                jobs.close()

    def work(self, address: str, handled: Handled, ready: Callable[[], None]) -> None:
        handlers = Handlers()

        @handlers.handle(KIND)
        def noop(job: Job) -> None:
            handled(job.payload)  # type: ignore[arg-type]  # the payloads of the bench are strings

        with opened(address) as store:
            worker = Worker(store, handlers, queues=[QueueSettings(concurrency=CONCURRENCY)])
            ready()
            worker.run()


@contextmanager
def opened(address: str) -> Iterator[Store]:
    store = Store.open(address if "://" in address else f"sqlite:///{address}")
    try:
        yield store
    finally:
        store.close()


CONTENDER = Holdfast()
