"""A transaction: named statements, run one after another, that happen together or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from holdfast.base import encode, now_us
from holdfast.store.database import Cursor, Execute
from holdfast.store.row_parameters import Row, array_text, bound, given
from holdfast.store.statements import Engine, Statement


class Tx:
    """What a phase is given: run statements by their names, and ask for something to follow the commit."""

    __slots__ = ("_execute", "_statements", "after_commit", "engine", "is_open", "joined", "over", "sees_commit")

    def __init__(
        self,
        execute: Execute,
        statements: Mapping[str, Statement],
        engine: Engine,
        *,
        joined: bool = False,
        is_open: Callable[[], bool] | None = None,
        on_commit: Callable[[Callable[[], None]], object] | None = None,
    ) -> None:
        """
        Args:
            joined: the user's code commits.
            is_open: tells whether a joined transaction still goes on; True also when another has begun since.
            on_commit: has something called after the commit of a joined transaction, where that can be had.
        """
        self._execute = execute
        self._statements = statements
        self.engine = engine
        self.joined = joined
        """Whether the user's code commits."""
        self.over = False
        """Whether a transaction of our own has come to its end."""
        self.is_open = is_open or self._goes_on
        """Whether the transaction still goes on."""
        self.sees_commit = not joined or on_commit is not None
        """Whether `after_commit` is called: of a joined transaction, only some frameworks report the commit."""
        self.after_commit: list[Callable[[], None]] = [] if on_commit is None else _HandedOn(on_commit)

    def rows(self, name: str, /, **parameters: Any) -> list[Row]:
        """Every row that the statement answers; none for one that answers nothing."""
        cursor = self._run(name, parameters)
        return [] if cursor.description is None else cursor.fetchall()

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

    def many(self, name: str, rows: Sequence[Row], /, **shared: Any) -> int:
        """Run a statement for many rows at once; how many rows it changed in all."""
        return self._run_many(name, rows, shared).rowcount

    def many_rows(self, name: str, rows: Sequence[Row], /, **shared: Any) -> list[Row]:
        """Run a statement for many rows at once; what it answers."""
        return self._run_many(name, rows, shared).fetchall()

    def _run_many(self, name: str, rows: Sequence[Row], shared: dict[str, Any]) -> Cursor:
        statement = self._statements[name]
        if self.joined:  # the connection may be of a driver that binds by names alone
            return self._execute(statement.text, {**shared, **given(statement, self.engine, rows)})
        return self._execute(*bound(statement, self.engine, rows, shared))

    @property
    def streams(self) -> bool:
        """Whether rows can be streamed: into PostgreSQL, in a transaction of our own."""
        return hasattr(self._execute, "stream")

    def stream(self, name: str, pieces: Iterable[str]) -> None:
        """Feed rows to a COPY statement, piece by piece; the database works while the next piece is made."""
        self._execute.stream(self._statements[name].text, pieces)  # type: ignore[attr-defined]  # see `streams`

    def now_us(self) -> int:
        """The time on the clock that rules leases: the database's, or the injected one."""
        found = self.row("store.now")
        assert found is not None
        return int(found[0])

    def _goes_on(self) -> bool:
        return not self.over

    def _run(self, name: str, parameters: dict[str, Any]) -> Cursor:
        statement = self._statements[name]
        if statement.clocked:
            parameters["now_us"] = now_us()
        for values in statement.lists:
            if self.engine is Engine.SQLITE:
                parameters[values] = encode(list(parameters[values]))
            else:
                parameters[values] = array_text(parameters[values], "text")
        return self._execute(statement.text, parameters)


class _HandedOn(list[Callable[[], None]]):
    """Hands what follows a commit to a framework at once, which drops it when it rolls back a savepoint around it."""

    def __init__(self, on_commit: Callable[[Callable[[], None]], object]) -> None:
        super().__init__()
        self._on_commit = on_commit

    def append(self, follow: Callable[[], None], /) -> None:
        self._on_commit(follow)


def refuse_connection(tx: object) -> None:
    """Where using a transaction went wrong: say so if it is not a `Tx`, and how one is given.

    Raises:
        TypeError: it is not a `Tx`.
    """
    if not isinstance(tx, Tx):
        raise TypeError("tx: give store.join(connection), not the connection itself") from None
