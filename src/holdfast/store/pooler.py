"""Connection poolers: PgBouncer and its like, which hand a server's session to another client after each transaction.

Behind one, nothing that belongs to a session can be used: prepared statements, settings, LISTEN. Settings are then
given to each transaction, and workers look for jobs instead of listening.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from psycopg import Connection

REFUSED_OPTIONS = "unsupported startup parameter"
"""How a pooler refuses startup parameters."""


def is_pooled(connection: Connection[tuple[Any, ...]]) -> bool:
    """Whether a pooler answers: it reports a number of its own instead of the server's process id."""
    ((process,),) = connection.execute("SELECT pg_backend_pid()").fetchall()
    return bool(process != connection.info.backend_pid)


def refuses_settings(error: Exception) -> bool:
    """Whether a connection failed because it leads to a pooler, which refuses startup parameters."""
    return REFUSED_OPTIONS in str(error)


def beginning(begin: str, settings: Mapping[str, str]) -> str:
    """A transaction with its own settings, begun in one round trip."""
    return "; ".join([begin, *(f"SET LOCAL {name} = {value}" for name, value in settings.items())])
