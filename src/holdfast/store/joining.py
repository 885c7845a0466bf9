"""Joining a transaction of the user's own, so that a job and the user's write commit or roll back together."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

from holdfast.store.database import Cursor, Execute
from holdfast.store.sqlite import executor_on
from holdfast.store.statements import Engine


class JoinRefused(TypeError):
    """The connection is none that can be joined, or belongs to another engine."""


def executor(connection: Any, engine: Engine) -> Execute:
    """How statements run on the user's connection: sqlite3, psycopg, SQLAlchemy's Connection or Session.

    Raises:
        JoinRefused: with what is accepted.
    """
    if isinstance(connection, sqlite3.Connection) and engine is Engine.SQLITE:
        return _on_sqlite(connection)
    if type(connection).__module__.split(".")[0] == "psycopg" and engine is Engine.POSTGRESQL:
        return _on_psycopg(connection)
    if hasattr(connection, "get_bind") and callable(getattr(connection, "connection", None)):
        return _on_sqlalchemy(connection.connection(), engine)
    if hasattr(connection, "exec_driver_sql"):
        return _on_sqlalchemy(connection, engine)
    raise JoinRefused(
        f"cannot join {type(connection).__module__}.{type(connection).__qualname__} on a {engine} store; "
        "pass a sqlite3 or psycopg connection, or SQLAlchemy's Connection or Session, of the same database"
    )


def _on_sqlite(connection: sqlite3.Connection) -> Execute:
    if not connection.in_transaction:
        # In autocommit mode each statement would commit by itself, and nothing could be rolled back.
        connection.execute("BEGIN IMMEDIATE")
    return executor_on(connection)


def _on_psycopg(connection: Any) -> Execute:
    from psycopg.pq import TransactionStatus
    from psycopg.rows import tuple_row

    def execute(text: str, parameters: Mapping[str, Any]) -> Cursor:
        if connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE:
            raise JoinRefused("the connection is in autocommit mode outside a transaction: nothing could be joined")
        cursor: Cursor = connection.cursor(row_factory=tuple_row).execute(text, parameters)
        return cursor

    return execute


def _on_sqlalchemy(connection: Any, engine: Engine) -> Execute:
    if connection.dialect.name != engine:
        raise JoinRefused(f"cannot join a {connection.dialect.name} connection on a {engine} store")
    # Through SQLAlchemy itself, so that its own bookkeeping knows that a transaction has begun.
    return lambda text, parameters: _Result(connection.exec_driver_sql(text, dict(parameters)))


class _Result:
    """SQLAlchemy's result, as a cursor."""

    def __init__(self, result: Any) -> None:
        self._result = result
        self.rowcount: int = result.rowcount
        self.description = [(name,) for name in list(result.keys())] if result.returns_rows else None

    def fetchall(self) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._result.fetchall()] if self._result.returns_rows else []
