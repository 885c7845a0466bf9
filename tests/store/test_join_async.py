"""A coroutine's own transaction: SQLAlchemy over asyncpg, psycopg and aiosqlite, and psycopg's AsyncConnection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from holdfast.delivery import Deliveries
from holdfast.guard import Answer, Keys, Replay, Started, request_hash
from holdfast.store import Engine, JoinRefused, Store, Tx
from holdfast.worker import Jobs, NewJob, joined, ledger

INVOICE = "INSERT INTO invoice VALUES ('A-1')"
Own = Callable[[str], AbstractAsyncContextManager[Any]]


def sqlalchemy_over(driver: str, *, session: bool) -> Own:
    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[Any]:
        engine = create_async_engine(url.replace("://", f"+{driver}://", 1))
        async with AsyncSession(engine) if session else engine.connect() as own:
            await own.execute(text(INVOICE))
            yield own
        await engine.dispose()

    return opened


@asynccontextmanager
async def psycopg_itself(url: str) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(url) as own:
        await own.execute(INVOICE)
        yield own


KINDS = {
    "asyncpg": ("postgresql", sqlalchemy_over("asyncpg", session=False)),
    "asyncpg-session": ("postgresql", sqlalchemy_over("asyncpg", session=True)),
    "psycopg-session": ("postgresql", sqlalchemy_over("psycopg", session=True)),
    "psycopg": ("postgresql", psycopg_itself),
    "aiosqlite": ("sqlite", sqlalchemy_over("aiosqlite", session=False)),
    "aiosqlite-session": ("sqlite", sqlalchemy_over("aiosqlite", session=True)),
}
EVERY_KIND = pytest.mark.parametrize(
    ("database_url", "own"), list(KINDS.values()), ids=list(KINDS), indirect=["database_url"]
)


@pytest.fixture
def invoiced(store: Store) -> Store:
    with store.database.script(["CREATE TABLE invoice (number TEXT)"]):
        pass
    return store


def stored(store: Store) -> tuple[int, ...]:
    """How many invoices and jobs there are."""
    with store.database.transaction(write=False) as execute:
        tables = ("invoice", "holdfast_job")
        return tuple(execute(f"SELECT count(*) FROM {table}", {}).fetchall()[0][0] for table in tables)


@EVERY_KIND
async def test_a_job_commits_and_rolls_back_with_the_coroutines_own_write(
    invoiced: Store, database_url: str, own: Own
) -> None:
    jobs = Jobs(invoiced)
    async with own(database_url) as connection:
        made = await jobs.enqueue_async("k", {"n": 1}, tx=invoiced.join_async(connection), delay_s=5, priority=-3)
        assert stored(invoiced) == (0, 0)
        await connection.commit()
    assert stored(invoiced) == (1, 1)
    shown = jobs.show(made.id)
    assert (shown["state"], shown["priority"], shown["payload"]) == ("queued", -3, '{"n":1}')
    async with own(database_url) as connection:
        await jobs.enqueue_async("k", tx=invoiced.join_async(connection))
        await connection.rollback()
    assert stored(invoiced) == (1, 1)


@EVERY_KIND
async def test_everything_that_takes_a_transaction_runs_in_it(
    invoiced: Store, database_url: str, own: Own, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every statement that a joined transaction may run: with lists, many rows, text, bytes and numbers of any size."""
    monkeypatch.setattr(joined, "LEFT_US", 0)
    jobs, keys = Jobs(invoiced), Keys(invoiced)
    deliveries = Deliveries(invoiced, jobs)
    deliveries.endpoints.add("https://example.com/hook", event_types=["order.*"])
    jobs.enqueue("k")
    (job,) = invoiced.atomic(lambda tx: ledger.claim(tx, queue="default", worker="w", count=1))
    asked = {"operation": "pay", "key": "k-1", "request_hash": request_hash(body=b"{}")}
    started = keys.begin(**asked)
    assert isinstance(started, Started)
    answer = Answer(201, (("Content-Type", "text/plain"),), b"\x00\xff", {"id": "7"})

    def phase(tx: Tx) -> None:
        job.finish(tx, {"total": 7})
        keys.finish(started, answer, tx=tx)
        deliveries.publish("order.paid", {"order": "Ünï 'x' \"y\" 100%"}, tx=tx)
        again = jobs.enqueue_many([NewJob(kind="a"), NewJob(kind="b", dedupe_key="d", unique_s=9, attempts=2)], tx=tx)
        assert jobs.enqueue("b", dedupe_key="d", tx=tx).id == again[1].id

    async with own(database_url) as connection:
        await invoiced.join_async(connection).run(phase)
        await connection.commit()
    assert jobs.wait(job.id, 0) == {"total": 7}
    assert keys.begin(**asked) == Replay(answer)
    assert len(jobs.list(state="queued")) == 3
    assert {seen.queue for seen in invoiced.atomic(joined.see)} == {"default", "webhooks"}


@EVERY_KIND
async def test_what_the_phase_raises_is_raised_and_nothing_is_committed(
    invoiced: Store, database_url: str, own: Own
) -> None:
    def phase(tx: Tx) -> None:
        Jobs(invoiced).enqueue("k", tx=tx)
        raise LookupError("mine")

    async with own(database_url) as connection:
        with pytest.raises(LookupError, match="mine"):
            await invoiced.join_async(connection).run(phase)
        await connection.rollback()
    assert stored(invoiced) == (0, 0)


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
async def test_a_caller_that_is_cancelled_leaves_no_statement_under_way(invoiced: Store, database_url: str) -> None:
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    def phase(tx: Tx) -> None:
        loop.call_soon_threadsafe(begun.set)
        tx._execute("SELECT pg_sleep(0.2)", {})
        Jobs(invoiced).enqueue("k", tx=tx)

    async with psycopg_itself(database_url) as connection:
        task = asyncio.create_task(invoiced.join_async(connection).run(phase))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await connection.commit()
    assert stored(invoiced) == (1, 0)


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
async def test_another_database_is_refused_here_too(emptied_dsn: str, postgres_dsn: str, driver: str) -> None:
    store = Store.open(emptied_dsn)
    engine = create_async_engine(postgres_dsn.replace("://", f"+{driver}://", 1))
    async with AsyncSession(engine) as session:
        with pytest.raises(JoinRefused, match="goes to database"):
            await Jobs(store).enqueue_async("k", tx=store.join_async(session))
    await engine.dispose()
    store.close()


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
async def test_autocommit_is_refused_here_too(emptied_dsn: str, driver: str) -> None:
    store = Store.open(emptied_dsn)
    engine = create_async_engine(emptied_dsn.replace("://", f"+{driver}://", 1), isolation_level="AUTOCOMMIT")
    async with engine.connect() as connection:
        with pytest.raises(JoinRefused, match="AUTOCOMMIT"):
            await store.join_async(connection).run(lambda tx: None)
    await engine.dispose()
    store.close()


async def test_what_run_sync_hands_over_is_joined_as_it_is(invoiced: Store, database_url: str) -> None:
    driver = "asyncpg" if invoiced.engine is Engine.POSTGRESQL else "aiosqlite"
    async with sqlalchemy_over(driver, session=True)(database_url) as session:
        await session.run_sync(lambda own: Jobs(invoiced).enqueue("k", tx=invoiced.join(own)))
        await session.commit()
    assert stored(invoiced) == (1, 1)


async def test_anything_else_is_refused_with_what_is_accepted(store: Store) -> None:
    with pytest.raises(JoinRefused, match="AsyncConnection"):
        store.join_async(object())
    with pytest.raises(TypeError, match="join_async"):
        await Jobs(store).enqueue_async("k", tx=object())  # type: ignore[arg-type]


async def test_a_bare_asyncpg_connection_is_refused_with_the_remedy(emptied_dsn: str) -> None:
    import asyncpg

    store, connection = Store.open(emptied_dsn), await asyncpg.connect(emptied_dsn)
    for join in (store.join, store.join_async):
        with pytest.raises(JoinRefused, match="SQLAlchemy"):
            join(connection)
    await connection.close()
    store.close()
