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
Send = Callable[[str], None]


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
    def singly(self, address: str, payloads: Sequence[str]) -> float:
        """Enqueue one after another; seconds."""

    @abstractmethod
    def together(self, address: str, payloads: Sequence[str], callers: int) -> float:
        """Enqueue from so many concurrent callers, each one job at a time; seconds."""

    @abstractmethod
    def bulk(self, address: str, batches: Sequence[Sequence[str]]) -> float:
        """Enqueue batch by batch; seconds."""

    @abstractmethod
    def sender(self, address: str) -> AbstractContextManager[Send]:
        """A client that enqueues one job when called."""


class Client(Protocol):
    """The enqueuing side of a contender that blocks."""

    def one(self, payload: str) -> object: ...
    def many(self, payloads: Sequence[str]) -> object: ...


class SyncContender(Contender):
    """Enqueues with plain calls, from threads when there are many callers."""

    @abstractmethod
    def client(self, address: str) -> AbstractContextManager[Client]:
        """An open client; threads may share it."""

    def singly(self, address: str, payloads: Sequence[str]) -> float:
        with self.sender(address) as send:
            started = perf_counter()
            for payload in payloads:
                send(payload)
            return perf_counter() - started

    def together(self, address: str, payloads: Sequence[str], callers: int) -> float:
        with self.client(address) as client:
            client.one(WARM_PAYLOAD)
            gate = threading.Barrier(callers + 1)

            def call(share: Sequence[str]) -> None:
                gate.wait()
                for payload in share:
                    client.one(payload)

            threads = [threading.Thread(target=call, args=(payloads[n::callers],)) for n in range(callers)]
            for thread in threads:
                thread.start()
            gate.wait()
            started = perf_counter()
            for thread in threads:
                thread.join()
            return perf_counter() - started

    def bulk(self, address: str, batches: Sequence[Sequence[str]]) -> float:
        with self.client(address) as client:
            client.many([WARM_PAYLOAD])
            started = perf_counter()
            for batch in batches:
                client.many(batch)
            return perf_counter() - started

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

    def singly(self, address: str, payloads: Sequence[str]) -> float:
        async def calls(client: AsyncClient) -> None:
            for payload in payloads:
                await client.one(payload)

        return self._timed(address, calls)

    def together(self, address: str, payloads: Sequence[str], callers: int) -> float:
        async def caller(client: AsyncClient, share: Sequence[str]) -> None:
            for payload in share:
                await client.one(payload)

        async def calls(client: AsyncClient) -> None:
            await asyncio.gather(*(caller(client, payloads[n::callers]) for n in range(callers)))

        return self._timed(address, calls)

    def bulk(self, address: str, batches: Sequence[Sequence[str]]) -> float:
        async def calls(client: AsyncClient) -> None:
            for batch in batches:
                await client.many(batch)

        return self._timed(address, calls)

    @contextmanager
    def sender(self, address: str) -> Iterator[Send]:
        with runner() as loop:
            opened = self.client(address)
            client = loop.run(opened.__aenter__())
            for _ in range(WARM_CALLS):
                loop.run(_awaited(client.one(WARM_PAYLOAD)))
            yield lambda payload: loop.run(_awaited(client.one(payload)))
            loop.run(opened.__aexit__(None, None, None))

    def _timed(self, address: str, calls: Callable[[AsyncClient], Awaitable[None]]) -> float:
        async def inside() -> float:
            async with self.client(address) as client:
                await client.one(WARM_PAYLOAD)
                started = perf_counter()
                await calls(client)
                return perf_counter() - started

        with runner() as loop:
            return loop.run(inside())


def runner() -> asyncio.Runner:
    """An event loop as the async peers like it best: uvloop where it is installed."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        return asyncio.Runner()
    return asyncio.Runner(loop_factory=new_event_loop)


async def _awaited(call: Awaitable[object]) -> object:
    return await call
