"""PgQueuer on asyncpg and uvloop, with every table logged, which is its default."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import asyncpg
from pgqueuer.models import Job
from pgqueuer.qm import QueueManager
from pgqueuer.queries import Queries

from bench.jobs_peers.contender import AsyncClient, AsyncContender, Handled, runner

BATCH = 1_000
CONNECTIONS = 10
ENTRYPOINT = "noop"


class PgqueuerClient:
    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    async def one(self, payload: str) -> None:
        await self._queries.enqueue(ENTRYPOINT, payload.encode())

    async def many(self, payloads: Sequence[str]) -> None:
        encoded: list[bytes | None] = [payload.encode() for payload in payloads]
        await self._queries.enqueue([ENTRYPOINT] * len(encoded), encoded, [0] * len(encoded))


class Pgqueuer(AsyncContender):
    unfinished = "SELECT count(*) FROM pgqueuer"

    def prepare(self, address: str) -> None:
        async def install() -> None:
            connection = await asyncpg.connect(address)
            await Queries.from_asyncpg_connection(connection).install()
            await connection.close()

        asyncio.run(install())

    @asynccontextmanager
    async def client(self, address: str) -> AsyncIterator[AsyncClient]:
        async with asyncpg.create_pool(address, min_size=1, max_size=CONNECTIONS) as pool:
            yield PgqueuerClient(Queries.from_asyncpg_pool(pool))

    def work(self, address: str, handled: Handled, ready: Callable[[], None]) -> None:
        async def inside() -> None:
            async with asyncpg.create_pool(address, min_size=2, max_size=CONNECTIONS) as pool:
                manager = QueueManager(Queries.from_asyncpg_pool(pool))

                @manager.entrypoint(ENTRYPOINT)
                async def noop(job: Job) -> None:
                    handled((job.payload or b"").decode())

                ready()
                await manager.run(batch_size=BATCH)

        with runner() as loop:
            loop.run(inside())


CONTENDER = Pgqueuer()
