"""A transaction: named statements, run one after another, that happen together or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.base import encode, now_us
from holdfast.store.database import Cursor, Execute
from holdfast.store.statements import Engine, Statement

Row = tuple[Any, ...]


class Tx:
    """What a phase is given: run statements by their names, and ask for something to follow the commit."""

    __slots__ = ("_execute", "_statements", "after_commit", "engine", "joined")

    def __init__(
        self, execute: Execute, statements: Mapping[str, Statement], engine: Engine, *, joined: bool = False
    ) -> None:
        self._execute = execute
        self._statements = statements
        self.engine = engine
        self.joined = joined
        """Whether somebody else commits."""
        self.after_commit: list[Callable[[], None]] = []

    def rows(self, name: str, /, **parameters: Any) -> list[Row]:
        """Every row that the statement answers."""
        return self._run(name, parameters).fetchall()

    def row(self, name: str, /, **parameters: Any) -> Row | None:
        """The first row, or None."""
        found = self._run(name, parameters).fetchall()
        return found[0] if found else None

    def records(self, name: str, /, **parameters: Any) -> list[dict[str, Any]]:
        """Every row with its column names, for showing."""
        cursor = self._run(name, parameters)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def run(self, name: str, /, **parameters: Any) -> int:
        """How many rows the statement changed."""
        return self._run(name, parameters).rowcount

    def now_us(self) -> int:
        """The time on the clock that rules leases: the database's, or the injected one."""
        found = self.row("store.now")
        assert found is not None
        return int(found[0])

    def _run(self, name: str, parameters: dict[str, Any]) -> Cursor:
        statement = self._statements[name]
        if statement.clocked:
            parameters["now_us"] = now_us()
        for table, columns in statement.tables:
            _spread(parameters, table, columns, self.engine)
        if self.engine is Engine.SQLITE:
            for values in statement.lists:
                parameters[values] = encode(list(parameters[values]))
        return self._execute(statement.text, parameters)


def _spread(parameters: dict[str, Any], table: str, columns: int, engine: Engine) -> None:
    """Hand over a list of rows as the engine takes it: columns for PostgreSQL, JSON for SQLite."""
    rows = parameters.pop(table)
    if engine is Engine.SQLITE:
        parameters[table] = encode(rows)
        return
    turned = list(zip(*rows, strict=True)) or [()] * columns
    for number, column in enumerate(turned):
        parameters[f"{table}_{number}"] = list(column)
