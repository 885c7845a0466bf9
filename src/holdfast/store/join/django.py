"""Joining `django.db.connection`, inside `transaction.atomic()`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.store.database import Cursor
from holdfast.store.join.connection import AUTOCOMMIT, Joined, JoinRefused
from holdfast.store.statements import Engine

BEGIN = "join inside `with transaction.atomic():`"


def on_django(connection: Any, engine: Engine) -> Joined:
    """Join a database of Django's: `django.db.connection`, or `connections["alias"]`.

    Raises:
        JoinRefused: it belongs to another engine, or no `atomic` block is open.
    """
    if connection.vendor != engine:
        raise JoinRefused(f"cannot join Django's {connection.vendor} connection on a {engine} store")
    _check(connection)

    def execute(text: str, parameters: Mapping[str, Any]) -> Cursor:
        _check(connection)
        # Django's cursor for SQLite writes `%(name)s` as `:name`, which stands here already.
        text = text.replace("%", "%%") if engine is Engine.SQLITE else text
        with connection.cursor() as cursor:
            cursor.execute(text, dict(parameters))
            return _Result(cursor)

    connection.ensure_connection()
    return Joined(
        execute, connection.connection, lambda: bool(connection.in_atomic_block), on_commit=connection.on_commit
    )


def _check(connection: Any) -> None:
    if not connection.in_atomic_block:
        raise JoinRefused(AUTOCOMMIT.format(begin=BEGIN))


class _Result:
    """What a cursor answered, read before Django closes it."""

    def __init__(self, cursor: Any) -> None:
        self.rowcount: int = cursor.rowcount
        self.description = cursor.description
        self._rows = cursor.fetchall() if cursor.description is not None else []

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._rows
