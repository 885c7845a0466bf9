"""Procrastinate on psycopg, finished jobs kept, which is its default."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from procrastinate import App, PsycopgConnector

from bench.jobs_peers.contender import AsyncClient, AsyncContender, Handled, runner

CONCURRENCY = 10
CONNECTIONS = 10
TASK = "noop"


class ProcrastinateClient:
    def __init__(self, app: App) -> None:
        self._app = app

    async def one(self, payload: str) -> None:
        await self._app.configure_task(TASK).defer_async(payload=payload)

    async def many(self, payloads: Sequence[str]) -> None:
        await self._app.configure_task(TASK).batch_defer_async(*({"payload": payload} for payload in payloads))


class Procrastinate(AsyncContender):
    unfinished = "SELECT count(*) FROM procrastinate_jobs WHERE status <> 'succeeded'"

    def prepare(self, address: str) -> None:
        async def inside() -> None:
            async with _app(address).open_async() as app:
                await app.schema_manager.apply_schema_async()

        asyncio.run(inside())

    @asynccontextmanager
    async def client(self, address: str) -> AsyncIterator[AsyncClient]:
        async with _app(address).open_async() as app:
            yield ProcrastinateClient(app)

    def work(self, address: str, handled: Handled, ready: Callable[[], None]) -> None:
        async def inside() -> None:
            async with _app(address).open_async() as app:

                @app.task(name=TASK)
                async def noop(payload: str) -> None:
                    handled(payload)

                ready()
                await app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False)

        with runner() as loop:
            loop.run(inside())


def _app(address: str) -> App:
    return App(connector=PsycopgConnector(conninfo=address, min_size=1, max_size=CONNECTIONS))


CONTENDER = Procrastinate()
