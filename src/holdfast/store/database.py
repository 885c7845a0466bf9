"""What the store asks of an engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from holdfast.store.statements import Engine


class Cursor(Protocol):
    """The part of a database cursor that is used here."""

    @property
    def rowcount(self) -> int: ...
    @property
    def description(self) -> Any: ...
    def fetchall(self) -> list[tuple[Any, ...]]: ...


Parameters = Mapping[str, Any] | Sequence[Any]
"""Of a statement: by their names; or in their order, which SQLite alone is given."""

Execute = Callable[[str, Any], Cursor]
"""Runs one statement with its parameters."""


Follow = tuple[str, Mapping[str, Any]]
"""A statement, by its text or its name, and its parameters."""


class CommitUnknown(Exception):
    """The connection was lost while committing: it may have happened or not."""


class Database(Protocol):
    """Connections to one database, and transactions on them."""

    engine: Engine

    def transaction(self, *, write: bool) -> AbstractContextManager[Execute]:
        """Commits when the block ends, rolls back when it raises.

        Raises:
            CommitUnknown: nobody can tell whether the commit happened.
        """
        ...

    def script(self, statements: list[str]) -> AbstractContextManager[Execute]:
        """Run schema statements in one transaction, under a lock that only one process can hold."""
        ...

    def single(self, *, within_s: float | None = None) -> AbstractContextManager[Execute]:
        """For one statement that is a transaction of its own.

        Args:
            within_s: maximum time of the call, where that is shorter than the limit of every call; SQLite needs none.
        """
        ...

    def put(self, text: str, parameters: Any, then: Follow | None = None) -> bool:
        """Run one statement that is a transaction of its own and whose answer nobody needs; the cheapest way.

        Args:
            then: a second one, on the same connection as soon as the first is on disk. It may be left out.

        Returns:
            Whether the second one has happened.

        Raises:
            CommitUnknown: nobody can tell whether the first has happened.
        """
        ...

    async def run_async(self, text: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]] | None:
        """Run one statement that is a transaction of its own, for a coroutine and without a thread; what it answers.

        None: that cannot be here, or nobody knows if it happened.
        """
        ...

    def leave(self) -> None:
        """Drop all connections; new ones lead to the server that accepts writes. SQLite has nothing to drop."""
        ...

    def on_other_server(self, tell: Callable[[], None]) -> None:
        """Call `tell` when connections were dropped, or when another server accepted one."""
        ...

    def close(self) -> None:
        """Give every connection back."""
        ...
