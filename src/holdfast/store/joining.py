"""Joining a transaction of the user's own, so that a job and the user's write commit or roll back together."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

from holdfast.store.database import Cursor, Execute
from holdfast.store.sqlite import executor_on
from holdfast.store.statements import Engine


class JoinRefused(TypeError):
    """The connection is none that can be joined, belongs to another engine, or commits each statement by itself."""


AUTOCOMMIT = (
    "the connection is in autocommit mode outside a transaction: each statement would commit by itself, and nothing "
    "could be rolled back together; {begin}"
)
SQLITE_BEGIN = "execute BEGIN first, or connect without isolation_level=None and autocommit=True"
PSYCOPG_BEGIN = "join inside `with connection.transaction():`, or connect without autocommit=True"
SQLALCHEMY_BEGIN = "use a connection without isolation_level='AUTOCOMMIT'"


def executor(connection: Any, engine: Engine) -> Execute:
    """How statements run on the user's connection: sqlite3, psycopg, SQLAlchemy's Connection or Session.

    Raises:
        JoinRefused: with what is accepted.
    """
    kinds = {f"{kind.__module__.split('.')[0]}.{kind.__qualname__}" for kind in type(connection).__mro__}
    if kinds & {"psycopg.AsyncConnection", "sqlalchemy.AsyncConnection", "sqlalchemy.AsyncSession"}:
        raise JoinRefused(
            f"cannot join {_name(connection)}: the store runs statements synchronously; with SQLAlchemy join what "
            "`run_sync` hands over, with psycopg use a Connection in `asyncio.to_thread`"
        )
    if isinstance(connection, sqlite3.Connection) and engine is Engine.SQLITE:
        return _on_sqlite(connection)
    if "psycopg.Connection" in kinds and engine is Engine.POSTGRESQL:
        return _on_psycopg(connection)
    if kinds & {"sqlalchemy.Session", "sqlalchemy.scoped_session"}:
        return _on_sqlalchemy(connection.connection(), engine)
    if "sqlalchemy.Connection" in kinds:
        return _on_sqlalchemy(connection, engine)
    raise JoinRefused(
        f"cannot join {_name(connection)} on a {engine} store; "
        "pass a sqlite3 or psycopg connection, or SQLAlchemy's Connection or Session, of the same database"
    )


def _name(connection: Any) -> str:
    return f"{type(connection).__module__}.{type(connection).__qualname__}"


def _on_sqlite(connection: sqlite3.Connection) -> Execute:
    _check_sqlite(connection)
    if not connection.in_transaction:
        # Taken now, a lock that is busy is waited for; one that is asked for in mid-transaction may be refused.
        connection.execute("BEGIN IMMEDIATE")
    run = executor_on(connection)

    def execute(text: str, parameters: Mapping[str, Any]) -> Cursor:
        _check_sqlite(connection)
        return run(text, parameters)

    return execute


def _check_sqlite(connection: sqlite3.Connection) -> None:
    # From Python 3.12 on a connection may say so in `autocommit`; its `commit()` then does nothing.
    by_itself = getattr(connection, "autocommit", None) is True or connection.isolation_level is None
    if by_itself and not connection.in_transaction:
        raise JoinRefused(AUTOCOMMIT.format(begin=SQLITE_BEGIN))


def _on_psycopg(connection: Any) -> Execute:
    from psycopg.rows import tuple_row

    _check_psycopg(connection)

    def execute(text: str, parameters: Mapping[str, Any]) -> Cursor:
        _check_psycopg(connection)
        cursor: Cursor = connection.cursor(row_factory=tuple_row).execute(text, parameters)
        return cursor

    return execute


def _check_psycopg(connection: Any) -> None:
    from psycopg.pq import TransactionStatus

    if connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE:
        raise JoinRefused(AUTOCOMMIT.format(begin=PSYCOPG_BEGIN))


def _on_sqlalchemy(connection: Any, engine: Engine) -> Execute:
    if connection.dialect.name != engine:
        raise JoinRefused(f"cannot join a {connection.dialect.name} connection on a {engine} store")
    driver = connection.connection.driver_connection
    if getattr(driver, "autocommit", None) is True or (
        isinstance(driver, sqlite3.Connection) and driver.isolation_level is None and not driver.in_transaction
    ):
        raise JoinRefused(AUTOCOMMIT.format(begin=SQLALCHEMY_BEGIN))
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
