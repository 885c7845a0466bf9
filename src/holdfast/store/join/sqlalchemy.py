"""Joining SQLAlchemy's connections, whichever driver is below them: sqlite3, aiosqlite, psycopg or asyncpg."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from holdfast.store.database import Cursor
from holdfast.store.join.connection import AUTOCOMMIT, Joined, JoinRefused
from holdfast.store.statements import Engine

BEGIN = "use a connection without isolation_level='AUTOCOMMIT'"
NUMBERED = "asyncpg"
"""The driver that takes parameters by number, and wants to be told their types."""

_PARAMETER = re.compile(r"%\((\w+)\)s")
_LIST = re.compile(r"ANY\(%\((\w+)\)s\)")


def on_sqlalchemy(connection: Any, engine: Engine) -> Joined:
    """Join a connection of SQLAlchemy.

    Raises:
        JoinRefused: it belongs to another engine, or is in autocommit mode.
    """
    if connection.dialect.name != engine:
        raise JoinRefused(f"cannot join a {connection.dialect.name} connection on a {engine} store")
    driver = connection.connection.driver_connection
    if _commits_by_itself(connection.connection.dbapi_connection, driver, engine):
        raise JoinRefused(AUTOCOMMIT.format(begin=BEGIN))
    numbered = connection.dialect.driver == NUMBERED

    def execute(text: str, parameters: Mapping[str, Any]) -> Cursor:
        # Through SQLAlchemy itself, so that its own bookkeeping knows that a transaction has begun.
        if not numbered:
            return _Result(connection.exec_driver_sql(text, dict(parameters)))
        translated, order = _numbered(text, _types(parameters))
        return _Result(connection.exec_driver_sql(translated, tuple(parameters[name] for name in order)))

    return Joined(execute, driver, lambda: not connection.closed and bool(connection.in_transaction()))


def _commits_by_itself(adapted: Any, driver: Any, engine: Engine) -> bool:
    """
    Args:
        adapted: the connection as SQLAlchemy sees it; over an asynchronous driver it is one of SQLAlchemy's own.
    """
    if getattr(adapted, "autocommit", None) is True:
        return True
    return engine is Engine.SQLITE and adapted.isolation_level is None and not driver.in_transaction


def _types(parameters: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The casts that tell the server what psycopg would have told it."""
    return tuple((name, "::bigint") for name, value in parameters.items() if isinstance(value, int))


@lru_cache(maxsize=1_000)
def _numbered(text: str, casts: tuple[tuple[str, str], ...]) -> tuple[str, tuple[str, ...]]:
    """The statement with numbers for parameters, and their names in that order."""
    order = tuple(dict.fromkeys(_PARAMETER.findall(text)))
    cast = dict(casts)
    # Arrays are written as text by us, and read by the server.
    text = _LIST.sub(lambda found: f"ANY(${order.index(found[1]) + 1}::text::text[])", text)

    def placed(found: re.Match[str]) -> str:
        number = f"${order.index(found[1]) + 1}"
        if found.string.startswith("::", found.end()):
            return f"{number}::text"
        return number + cast.get(found[1], "")

    return _PARAMETER.sub(placed, text).replace("%%", "%"), order


class _Result:
    """SQLAlchemy's result, as a cursor."""

    def __init__(self, result: Any) -> None:
        self._result = result
        self.rowcount: int = result.rowcount
        self.description = [(name,) for name in list(result.keys())] if result.returns_rows else None

    def fetchall(self) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._result.fetchall()] if self._result.returns_rows else []
