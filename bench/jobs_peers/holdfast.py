"""Holdfast, as a service would use it: `Jobs` to enqueue, a `Worker` to work; the same file for both engines."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

from bench.jobs_peers.contender import AsyncClient, AsyncContender, Client, Handled, SyncContender
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


class HoldfastCoroutines(AsyncContender):
    """The same, enqueued by tasks of an event loop."""

    unfinished = ""

    def prepare(self, address: str) -> None:
        raise NotImplementedError("only for enqueueing")

    def work(self, address: str, handled: Handled, ready: Callable[[], None]) -> None:
        raise NotImplementedError("only for enqueueing")

    @asynccontextmanager
    async def client(self, address: str) -> AsyncIterator[AsyncClient]:
        with opened(address) as store:
            jobs = Jobs(store)
            try:
                yield HoldfastAsyncClient(jobs)
            finally:
                jobs.close()


class HoldfastAsyncClient:
    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    async def one(self, payload: str) -> None:
        await self._jobs.enqueue_async(KIND, payload)

    async def many(self, payloads: Sequence[str]) -> None:
        raise NotImplementedError("measured with plain calls")


class Holdfast(SyncContender):
    unfinished = """
        SELECT (SELECT count(*) FROM holdfast_job WHERE state = 'queued')
             + (SELECT count(*) FROM holdfast_job WHERE lease_owner IS NOT NULL)
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

    def together(self, address: str, seconds: float, callers: int) -> float:
        """Tasks of an event loop, as the peers that are awaited; threads have to wake each other for every job."""
        return HoldfastCoroutines().together(address, seconds, callers)

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
