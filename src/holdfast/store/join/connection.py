"""What is known of a connection whose transaction is joined."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from holdfast.store.database import Execute

AUTOCOMMIT = (
    "the connection is in autocommit mode outside a transaction: each statement would commit by itself, and nothing "
    "could be rolled back together; {begin}"
)

Follow = Callable[[], None]
"""What is to happen after a commit."""


class JoinRefused(TypeError):
    """The connection cannot be joined: it is of an unknown kind, of another database, or commits each statement."""


@dataclass(frozen=True, slots=True)
class Joined:
    """A connection of the user's, ready for statements."""

    execute: Execute
    driver: object
    """The driver's own connection, one for as long as it is connected to the same database."""
    is_open: Callable[[], bool]
    """Whether its transaction still goes on. True also when another one has begun since."""
    begin: Callable[[], None] = lambda: None
    """Takes the locks that are better taken early, once it is known that the connection may be joined."""
    on_commit: Callable[[Follow], object] | None = None
    """Has something called after the commit, where the framework offers that."""


def kinds_of(connection: Any) -> set[str]:
    """The classes of a connection, as `package.Name`: nothing is imported to find out what it is."""
    return {f"{kind.__module__.split('.')[0]}.{kind.__qualname__}" for kind in type(connection).__mro__}


def name_of(connection: Any) -> str:
    """The connection's class, for messages."""
    return f"{type(connection).__module__}.{type(connection).__qualname__}"
