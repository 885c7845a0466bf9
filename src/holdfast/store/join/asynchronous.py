"""Joining a transaction that a coroutine has begun: of SQLAlchemy's AsyncConnection or AsyncSession, or of psycopg."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.store.database import Cursor
from holdfast.store.join.connection import Joined, JoinRefused, kinds_of, name_of
from holdfast.store.join.drivers import check_psycopg
from holdfast.store.statements import Engine

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from holdfast.store.transaction import Tx

T = TypeVar("T")
Enter = Callable[[Joined], "Tx"]
"""Makes a transaction of a connection that is ready for statements."""


class AsyncTx:
    """A transaction that a coroutine commits: `await tx.run(lambda tx: job.finish(tx))`."""

    def __init__(self, run: Callable[[Callable[[Tx], Any]], Awaitable[Any]]) -> None:
        self._run = run

    async def run(self, phase: Callable[[Tx], T]) -> T:
        """Run a phase, which blocks as phases do, on the joined connection; the loop goes on meanwhile.

        Raises:
            JoinRefused: the connection goes to another database, or commits each statement by itself.
            Exception: whatever the phase raises.
        """
        result: T = await self._run(phase)
        return result


def joined_async(connection: Any, engine: Engine, join: Callable[[Any], Tx], enter: Enter) -> AsyncTx:
    """A transaction of an asynchronous connection.

    Args:
        join: joins a synchronous connection.
        enter: makes a transaction of one that is ready for statements.

    Raises:
        JoinRefused: with what is accepted.
    """
    kinds = kinds_of(connection)
    if kinds & {"sqlalchemy.AsyncConnection", "sqlalchemy.AsyncSession", "sqlalchemy.async_scoped_session"}:
        return AsyncTx(lambda phase: connection.run_sync(lambda own: phase(join(own))))
    if "psycopg.AsyncConnection" in kinds and engine is Engine.POSTGRESQL:
        return AsyncTx(lambda phase: _aside(connection, enter, phase))
    raise JoinRefused(
        f"cannot join {name_of(connection)} in a coroutine on a {engine} store; pass SQLAlchemy's AsyncConnection or "
        "AsyncSession, or psycopg's AsyncConnection, of the same database"
    )


async def _aside(connection: Any, enter: Enter, phase: Callable[[Tx], T]) -> T:
    """Run the phase in a thread; its statements run on the loop that the connection belongs to."""
    import asyncio

    check_psycopg(connection)
    stopped = threading.Event()
    execute = _on_loop(connection, asyncio.get_running_loop(), stopped)
    tx = Joined(execute, connection, lambda: not connection.closed)
    work = asyncio.ensure_future(asyncio.to_thread(lambda: phase(enter(tx))))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        # The caller is about to roll back: no statement may be under way then, and none may follow.
        stopped.set()
        with suppress(Exception):
            await work
        raise


def _on_loop(
    connection: Any, loop: AbstractEventLoop, stopped: threading.Event
) -> Callable[[str, Mapping[str, Any]], Cursor]:
    import asyncio

    from psycopg.rows import tuple_row

    async def asked(text: str, parameters: Mapping[str, Any]) -> Cursor:
        check_psycopg(connection)
        cursor = await connection.cursor(row_factory=tuple_row).execute(text, parameters)
        rows = await cursor.fetchall() if cursor.description is not None else []
        return _Answer(cursor.rowcount, cursor.description, rows)

    def execute(text: str, parameters: Mapping[str, Any]) -> Cursor:
        if stopped.is_set():
            raise asyncio.CancelledError
        return asyncio.run_coroutine_threadsafe(asked(text, parameters), loop).result()

    return execute


class _Answer:
    """What a statement answered."""

    def __init__(self, rowcount: int, description: Any, rows: list[tuple[Any, ...]]) -> None:
        self.rowcount = rowcount
        self.description = description
        self._rows = rows

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._rows
