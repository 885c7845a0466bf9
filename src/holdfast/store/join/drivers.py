"""Joining the drivers' own connections: sqlite3 and psycopg."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

from holdfast.store.database import Cursor
from holdfast.store.join.connection import AUTOCOMMIT, Joined, JoinRefused
from holdfast.store.sqlite import executor_on

SQLITE_BEGIN = "execute BEGIN first, or connect without isolation_level=None and autocommit=True"
PSYCOPG_BEGIN = "join inside `with connection.transaction():`, or connect without autocommit=True"


def on_sqlite(connection: sqlite3.Connection) -> Joined:
    """Join a connection of the standard library's sqlite3.

    Raises:
        JoinRefused: it is in autocommit mode.
    """
    _check_sqlite(connection)
    run = executor_on(connection)

    def begin() -> None:
        if not connection.in_transaction:
            # Taken now, a lock that is busy is waited for; one that is asked for in mid-transaction may be refused.
            connection.execute("BEGIN IMMEDIATE")

    def execute(text: str, parameters: Mapping[str, Any]) -> Cursor:
        _check_sqlite(connection)
        return run(text, parameters)

    return Joined(execute, connection, lambda: goes_on(connection), begin)


def goes_on(connection: sqlite3.Connection) -> bool:
    """Whether a transaction is open; none is on a connection that was closed."""
    try:
        return connection.in_transaction
    except sqlite3.ProgrammingError:
        return False


def _check_sqlite(connection: sqlite3.Connection) -> None:
    # From Python 3.12 on a connection may say so in `autocommit`; its `commit()` then does nothing.
    by_itself = getattr(connection, "autocommit", None) is True or connection.isolation_level is None
    if by_itself and not connection.in_transaction:
        raise JoinRefused(AUTOCOMMIT.format(begin=SQLITE_BEGIN))


def on_psycopg(connection: Any) -> Joined:
    """Join a connection of psycopg.

    Raises:
        JoinRefused: it is in autocommit mode.
    """
    from psycopg.pq import TransactionStatus
    from psycopg.rows import tuple_row

    check_psycopg(connection)

    def execute(text: str, parameters: Mapping[str, Any]) -> Cursor:
        check_psycopg(connection)
        cursor: Cursor = connection.cursor(row_factory=tuple_row).execute(text, parameters)
        return cursor

    def is_open() -> bool:
        return not connection.closed and bool(connection.info.transaction_status != TransactionStatus.IDLE)

    return Joined(execute, connection, is_open)


def check_psycopg(connection: Any) -> None:
    """Let pass a connection, synchronous or not, that does not commit each statement.

    Raises:
        JoinRefused: it does.
    """
    from psycopg.pq import TransactionStatus

    if connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE:
        raise JoinRefused(AUTOCOMMIT.format(begin=PSYCOPG_BEGIN))
