"""Oban, the Python port of the open-source edition, on psycopg and uvloop. It needs Python 3.12."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from oban import Oban as Instance
from oban import worker
from oban.schema import install

from bench.jobs_peers.contender import AsyncClient, AsyncContender, Handled, runner

LIMIT = 1_000
CONNECTIONS = 10

_handled: list[Handled] = []


@worker(queue="default")
class Noop:
    async def process(self, job: Any) -> None:
        _handled[0](job.args["payload"])


class ObanClient:
    def __init__(self, instance: Instance) -> None:
        self._instance = instance

    async def one(self, payload: str) -> None:
        await self._instance.enqueue(Noop.new({"payload": payload}))

    async def many(self, payloads: Sequence[str]) -> None:
        await self._instance.enqueue_many([Noop.new({"payload": payload}) for payload in payloads])


class Oban(AsyncContender):
    unfinished = "SELECT count(*) FROM oban_jobs WHERE state <> 'completed'"

    def prepare(self, address: str) -> None:
        async def inside() -> None:
            pool = await Instance.create_pool(address)
            await install(pool)
            await pool.close()

        asyncio.run(inside())

    @asynccontextmanager
    async def client(self, address: str) -> AsyncIterator[AsyncClient]:
        pool = await Instance.create_pool(address, max_size=CONNECTIONS)
        async with Instance(pool=pool) as instance:
            yield ObanClient(instance)
        await pool.close()

    def work(self, address: str, handled: Handled, ready: Callable[[], None]) -> None:
        _handled.append(handled)

        async def inside() -> None:
            pool = await Instance.create_pool(address, max_size=CONNECTIONS)
            ready()
            async with Instance(pool=pool, queues={"default": LIMIT}):
                await asyncio.Event().wait()

        with runner() as loop:
            loop.run(inside())


CONTENDER = Oban()
