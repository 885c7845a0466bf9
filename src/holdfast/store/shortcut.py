"""A shorter way to PostgreSQL for small statements that are run again and again and whose answer nobody needs.

The driver's own way through cursors, queries and adapters takes longer than the database takes to insert a row. Here
values go as text to a statement that each connection prepares once, and a coroutine waits without a thread. Whatever
goes wrong is left to the driver: the statement has then been rolled back, or the connection is gone and the driver
says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.pq.abc import PGconn, PGresult

_GOOD = (1, 2)
"""libpq's PGRES_COMMAND_OK and PGRES_TUPLES_OK; to load the names is not worth it before there is a connection."""
_PARAMETER = re.compile(r"%\((\w+)\)s")

Prepared = tuple[bytes, tuple[str, ...]]
"""The name under which a connection knows a statement, and its parameters in order."""
Values = list[bytes | None]


class Shortcuts:
    """The statements that the connections of one process have prepared."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Connection[tuple[Any, ...]], dict[str, Prepared]] = WeakKeyDictionary()
        self._numbers = count()

    def run(self, connection: Connection[tuple[Any, ...]], text: str, parameters: Mapping[str, Any]) -> bool:
        """Run the statement and commit; False when the driver has to."""
        ready = self._ready(connection, text, parameters)
        if ready is None:
            return False
        name, values = ready
        # The types of the driver do not say that a value may be None; its texts and its code do.
        return self._judged(connection, text, [connection.pgconn.exec_prepared(name, values)])  # type: ignore[arg-type]

    async def run_async(
        self, connection: Connection[tuple[Any, ...]], text: str, parameters: Mapping[str, Any]
    ) -> bool:
        """The same for a coroutine; others go on meanwhile."""
        ready = self._ready(connection, text, parameters)
        if ready is None:
            return False
        name, values = ready
        return self._judged(connection, text, await _exchanged(connection.pgconn, name, values))

    def _ready(
        self, connection: Connection[tuple[Any, ...]], text: str, parameters: Mapping[str, Any]
    ) -> tuple[bytes, Values] | None:
        """The name and the values to send; None when the driver has to."""
        known = self._known.get(connection)
        if known is None:
            known = self._known[connection] = {}
        prepared = known.get(text)
        if prepared is None:
            prepared = _prepare(connection, text, next(self._numbers))
            if prepared is None:
                return None
            known[text] = prepared
        name, order = prepared
        values = [_written(parameters[parameter]) for parameter in order]
        return None if NotImplemented in values else (name, values)

    def _judged(self, connection: Connection[tuple[Any, ...]], text: str, results: list[PGresult]) -> bool:
        if results and all(result.status in _GOOD for result in results):
            return True
        self._known[connection].pop(text, None)  # somebody between us and the server may have forgotten it
        return False


def _prepare(connection: Connection[tuple[Any, ...]], text: str, number: int) -> Prepared | None:
    order = tuple(dict.fromkeys(_PARAMETER.findall(text)))
    numbered = _PARAMETER.sub(lambda found: f"${order.index(found[1]) + 1}", text).replace("%%", "%")
    name = b"holdfast_%d" % number
    prepared = connection.pgconn.prepare(name, numbered.encode())
    return (name, order) if prepared.status in _GOOD else None


def _written(value: object) -> Any:
    """The value as the server reads it; what is not plain is left to the driver."""
    if value is None:
        return None
    if type(value) is int:
        return b"%d" % value
    if type(value) is str and "\0" not in value:
        return value.encode()
    return NotImplemented


async def _exchanged(pgconn: PGconn, name: bytes, values: Values) -> list[PGresult]:
    """Send the statement and wait for everything that comes back; nothing when the connection was lost."""
    import asyncio

    from psycopg import OperationalError

    loop = asyncio.get_running_loop()
    try:
        pgconn.send_query_prepared(name, values)
        while pgconn.flush():
            await _able(loop.add_writer, loop.remove_writer, pgconn.socket)
        results: list[PGresult] = []
        while True:
            while pgconn.is_busy():
                await _able(loop.add_reader, loop.remove_reader, pgconn.socket)
                pgconn.consume_input()
            result = pgconn.get_result()
            if result is None:
                return results
            results.append(result)
    except OperationalError:
        return []


async def _able(watch: Callable[..., Any], unwatch: Callable[[int], Any], socket: int) -> None:
    """Until the socket can be read, or written to."""
    import asyncio

    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    watch(socket, lambda: None if future.done() else future.set_result(None))
    try:
        await future
    finally:
        unwatch(socket)
