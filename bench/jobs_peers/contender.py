"""What every contender can do, and the loops around it, which are the same for all.

Each runs in its own process (`bench.jobs_program`), perhaps under another Python: only the standard library here.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from time import perf_counter
from typing import ClassVar, Protocol

WARM_CALLS = 20
"""Connections are opened and statements prepared before the clock starts."""
WARM_PAYLOAD = "warm"

Handled = Callable[[str], None]
"""What a handler calls with its payload: it counts, and tells the measuring process."""
Send = Callable[[str], object]


class Watch:
    """How long one caller has been at it, and how many jobs it has made."""

    def __init__(self, seconds: float) -> None:
        self._started = perf_counter()
        self._seconds = seconds
        self.sent = 0

    @property
    def running(self) -> bool:
        return perf_counter() - self._started < self._seconds

    @property
    def rate(self) -> float:
        return self.sent / (perf_counter() - self._started)

    def payload(self) -> str:
        self.sent += 1
        return f"payload-{self.sent}"


class Contender(ABC):
    """A queue on one database, given as `postgresql://…` or the path of a file."""

    unfinished: ClassVar[str]
    """SQL: how many jobs are not done yet; cheap, because it is asked again and again."""

    @abstractmethod
    def prepare(self, address: str) -> None:
        """Make the tables."""

    @abstractmethod
    def work(self, address: str, handled: Handled, ready: Callable[[], None]) -> None:
        """Be a worker until the process is ended; call `ready` when all is imported and nothing claimed."""

    @abstractmethod
    def singly(self, address: str, seconds: float) -> float:
        """Enqueue one after another for this many seconds; jobs per second."""

    @abstractmethod
    def together(self, address: str, seconds: float, callers: int) -> float:
        """Enqueue from this many concurrent callers, each one job at a time; jobs per second."""

    @abstractmethod
    def bulk(self, address: str, seconds: float, size: int) -> float:
        """Enqueue batches of this size for this many seconds; jobs per second."""

    @abstractmethod
    def fill(self, address: str, batches: Sequence[Sequence[str]]) -> None:
        """Enqueue exactly these."""

    @abstractmethod
    def sender(self, address: str) -> AbstractContextManager[Send]:
        """A client that enqueues one job when called."""

    def waker(self, address: str) -> AbstractContextManager[Send]:
        """The same, where an idle worker has to be told of the job; the queues do that by themselves."""
        return self.sender(address)


class Client(Protocol):
    """The enqueuing side of a contender that blocks."""

    def one(self, payload: str) -> object: ...
    def many(self, payloads: Sequence[str]) -> object: ...


class SyncContender(Contender):
    """Enqueues with plain calls, from threads when there are many callers."""

    @abstractmethod
    def client(self, address: str) -> AbstractContextManager[Client]:
        """An open client; threads may share it."""

    def singly(self, address: str, seconds: float) -> float:
        with self.sender(address) as send:
            watch = Watch(seconds)
            while watch.running:
                send(watch.payload())
            return watch.rate

    def together(self, address: str, seconds: float, callers: int) -> float:
        with self.client(address) as client:
            client.one(WARM_PAYLOAD)
            gate = threading.Barrier(callers + 1)
            watches: list[Watch] = []

            def call() -> None:
                gate.wait()
                watch = Watch(seconds)
                while watch.running:
                    client.one(watch.payload())
                watches.append(watch)

            threads = [threading.Thread(target=call) for _ in range(callers)]
            for thread in threads:
                thread.start()
            gate.wait()
            started = perf_counter()
            for thread in threads:
                thread.join()
            return sum(watch.sent for watch in watches) / (perf_counter() - started)

    def bulk(self, address: str, seconds: float, size: int) -> float:
        with self.client(address) as client:
            client.many([WARM_PAYLOAD])
            watch = Watch(seconds)
            while watch.running:
                client.many([watch.payload() for _ in range(size)])
            return watch.rate

    def fill(self, address: str, batches: Sequence[Sequence[str]]) -> None:
        with self.client(address) as client:
            for batch in batches:
                client.many(batch)

    @contextmanager
    def sender(self, address: str) -> Iterator[Send]:
        with self.client(address) as client:
            for _ in range(WARM_CALLS):
                client.one(WARM_PAYLOAD)
            yield client.one


class AsyncClient(Protocol):
    """The enqueuing side of a contender that is awaited."""

    def one(self, payload: str) -> Awaitable[object]: ...
    def many(self, payloads: Sequence[str]) -> Awaitable[object]: ...


class AsyncContender(Contender):
    """Enqueues on an event loop, from tasks when there are many callers."""

    @abstractmethod
    def client(self, address: str) -> AbstractAsyncContextManager[AsyncClient]:
        """An open client; tasks may share it."""

    def singly(self, address: str, seconds: float) -> float:
        return self.together(address, seconds, 1)

    def together(self, address: str, seconds: float, callers: int) -> float:
        async def call(client: AsyncClient, watch: Watch) -> None:
            while watch.running:
                await client.one(watch.payload())

        async def inside() -> float:
            async with self.client(address) as client:
                for _ in range(WARM_CALLS):
                    await client.one(WARM_PAYLOAD)
                watches = [Watch(seconds) for _ in range(callers)]
                started = perf_counter()
                await asyncio.gather(*(call(client, watch) for watch in watches))
                return sum(watch.sent for watch in watches) / (perf_counter() - started)

        with runner() as loop:
            return loop.run(inside())

    def bulk(self, address: str, seconds: float, size: int) -> float:
        async def inside() -> float:
            async with self.client(address) as client:
                await client.many([WARM_PAYLOAD])
                watch = Watch(seconds)
                while watch.running:
                    await client.many([watch.payload() for _ in range(size)])
                return watch.rate

        with runner() as loop:
            return loop.run(inside())

    def fill(self, address: str, batches: Sequence[Sequence[str]]) -> None:
        async def inside() -> None:
            async with self.client(address) as client:
                for batch in batches:
                    await client.many(batch)

        with runner() as loop:
            loop.run(inside())

    @contextmanager
    def sender(self, address: str) -> Iterator[Send]:
        with runner() as loop:
            opened = self.client(address)
            client = loop.run(opened.__aenter__())
            for _ in range(WARM_CALLS):
                loop.run(_awaited(client.one(WARM_PAYLOAD)))
            yield lambda payload: loop.run(_awaited(client.one(payload)))
            loop.run(opened.__aexit__(None, None, None))


def runner() -> asyncio.Runner:
    """An event loop as the async peers like it best: uvloop where it is installed."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        return asyncio.Runner()
    return asyncio.Runner(loop_factory=new_event_loop)


async def _awaited(call: Awaitable[object]) -> object:
    return await call
