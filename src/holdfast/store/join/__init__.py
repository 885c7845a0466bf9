"""Joining a transaction of the user's own, so that a job and the user's write commit or roll back together."""

from __future__ import annotations

from typing import Any

from holdfast.store.join.connection import Joined, JoinRefused, kinds_of, name_of
from holdfast.store.statements import Engine

__all__ = ["JoinRefused", "Joined", "joined"]

ASYNCHRONOUS = frozenset(
    {
        "psycopg.AsyncConnection",
        "sqlalchemy.AsyncConnection",
        "sqlalchemy.AsyncSession",
        "sqlalchemy.async_scoped_session",
    }
)


def joined(connection: Any, engine: Engine) -> Joined:
    """How statements run on the user's connection: sqlite3, psycopg, SQLAlchemy's Connection or Session, or Django's.

    Raises:
        JoinRefused: with what is accepted.
    """
    kinds = kinds_of(connection)
    if kinds & ASYNCHRONOUS:
        raise JoinRefused(
            f"cannot join {name_of(connection)}: the store runs statements synchronously; write "
            "`store.join_async(connection)`, or join what SQLAlchemy's `run_sync` hands over"
        )
    if "asyncpg.Connection" in kinds or "asyncpg.PoolConnectionProxy" in kinds:
        raise JoinRefused(
            "cannot join a bare asyncpg connection; use it through SQLAlchemy's AsyncConnection or AsyncSession, or "
            "use psycopg.AsyncConnection"
        )
    if "sqlite3.Connection" in kinds and engine is Engine.SQLITE:
        from holdfast.store.join.drivers import on_sqlite

        return on_sqlite(connection)
    if "psycopg.Connection" in kinds and engine is Engine.POSTGRESQL:
        from holdfast.store.join.drivers import on_psycopg

        return on_psycopg(connection)
    if kinds & {"sqlalchemy.Session", "sqlalchemy.scoped_session", "sqlalchemy.Connection"}:
        from holdfast.store.join.sqlalchemy import on_sqlalchemy

        return on_sqlalchemy(connection if "sqlalchemy.Connection" in kinds else connection.connection(), engine)
    if kinds & {"django.BaseDatabaseWrapper", "django.ConnectionProxy"}:
        from holdfast.store.join.django import on_django

        return on_django(connection, engine)
    raise JoinRefused(
        f"cannot join {name_of(connection)} on a {engine} store; pass a sqlite3 or psycopg connection, SQLAlchemy's "
        "Connection or Session, or django.db.connection, of the same database"
    )
