"""A shorter way to PostgreSQL for small statements that are run again and again and whose answer nobody needs.

The driver's own way through cursors, queries and adapters takes longer than the database takes to insert a row. Here
values go as text to a statement that each connection prepares once. Whatever goes wrong is left to the driver: the
statement has then been rolled back, or the connection is gone and the driver says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import count
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.pq.abc import PGresult

_GOOD = (1, 2)
"""libpq's PGRES_COMMAND_OK and PGRES_TUPLES_OK; to load the names is not worth it before there is a connection."""
_PARAMETER = re.compile(r"%\((\w+)\)s")

Prepared = tuple[bytes, tuple[str, ...]]
"""The name under which a connection knows a statement, and its parameters in order."""


class Shortcuts:
    """The statements that the connections of one process have prepared."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Connection[tuple[Any, ...]], dict[str, Prepared]] = WeakKeyDictionary()
        self._numbers = count()

    def run(self, connection: Connection[tuple[Any, ...]], text: str, parameters: Mapping[str, Any]) -> bool:
        """Run the statement and commit; False when the driver has to."""
        known = self._known.get(connection)
        if known is None:
            known = self._known[connection] = {}
        prepared = known.get(text) or _prepare(connection, text, next(self._numbers))
        if prepared is None:
            return False
        name, order = prepared
        values = [_written(parameters[parameter]) for parameter in order]
        if NotImplemented in values or not _went_well(connection.pgconn.exec_prepared(name, values)):
            known.pop(text, None)  # somebody between us and the server may have forgotten it
            return False
        known[text] = prepared
        return True


def _prepare(connection: Connection[tuple[Any, ...]], text: str, number: int) -> Prepared | None:
    order = tuple(dict.fromkeys(_PARAMETER.findall(text)))
    numbered = _PARAMETER.sub(lambda found: f"${order.index(found[1]) + 1}", text).replace("%%", "%")
    name = b"holdfast_%d" % number
    return (name, order) if _went_well(connection.pgconn.prepare(name, numbered.encode())) else None


def _went_well(result: PGresult) -> bool:
    return result.status in _GOOD


def _written(value: object) -> Any:
    """The value as the server reads it; what is not plain is left to the driver."""
    if value is None:
        return None
    if type(value) is int:
        return b"%d" % value
    if type(value) is str and "\0" not in value:
        return value.encode()
    return NotImplemented
