"""A shorter way to PostgreSQL for statements that are run again and again, each a transaction of its own.

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
    from psycopg.abc import Transformer
    from psycopg.pq.abc import PGconn, PGresult

_GOOD = (1, 2)
"""libpq's PGRES_COMMAND_OK and PGRES_TUPLES_OK; to load the names is not worth it before there is a connection."""
_PARAMETER = re.compile(r"%\((\w+)\)s")

Prepared = tuple[bytes, tuple[str, ...]]
"""The name under which a connection knows a statement, and its parameters in order."""


class Answer:
    """What a statement answered; read only when somebody asks, before the connection is used again."""

    __slots__ = ("_reader", "_result")

    def __init__(self, reader: Transformer, result: PGresult) -> None:
        self._reader = reader
        self._result = result

    @property
    def rowcount(self) -> int:
        count = self._result.command_tuples
        return -1 if count is None else count

    @property
    def description(self) -> list[tuple[str]] | None:
        """The names of the columns; None where there are none."""
        names = [self._result.fname(number) or b"" for number in range(self._result.nfields)]
        return [(name.decode(),) for name in names] or None

    def fetchall(self) -> list[tuple[Any, ...]]:
        self._reader.set_pgresult(self._result)
        return self._reader.load_rows(0, self._result.ntuples, tuple)


class _Known:
    """What one connection has prepared, and what reads its answers: to make one anew takes longer than to read."""

    __slots__ = ("prepared", "reader")

    def __init__(self) -> None:
        from psycopg.adapt import Transformer

        self.prepared: dict[str, Prepared] = {}
        self.reader = Transformer()  # without the connection, whose end it would put off; all of them speak UTF-8


class Shortcuts:
    """The statements that the connections of one process have prepared."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Connection[tuple[Any, ...]], _Known] = WeakKeyDictionary()
        self._numbers = count()

    def run(self, connection: Connection[tuple[Any, ...]], text: str, parameters: Mapping[str, Any]) -> Answer | None:
        """Run the statement and commit; None when the driver has to."""
        name, order, known = self._named(connection, text)
        values = _written(parameters, order)
        if values is None or not (known or _good(connection.pgconn.prepare(name, _numbered(text, order)))):
            return None
        # The types of the driver do not say that a value may be None; its texts and its code do.
        result = connection.pgconn.exec_prepared(name, values)  # type: ignore[arg-type]
        good = self._judged(connection, text, (name, order), _good(result))
        return Answer(self._known[connection].reader, result) if good else None

    async def run_async(
        self, connection: Connection[tuple[Any, ...]], text: str, parameters: Mapping[str, Any]
    ) -> bool:
        """The same for a coroutine; others go on meanwhile."""
        pgconn = connection.pgconn
        name, order, known = self._named(connection, text)
        values = _written(parameters, order)
        if values is None:
            return False
        if not known and not await _exchanged(pgconn, lambda: pgconn.send_prepare(name, _numbered(text, order))):
            return False
        good = await _exchanged(pgconn, lambda: pgconn.send_query_prepared(name, values))
        return self._judged(connection, text, (name, order), good)

    def _named(self, connection: Connection[tuple[Any, ...]], text: str) -> tuple[bytes, tuple[str, ...], bool]:
        """The name and the parameters of a statement on this connection, and whether it has it already."""
        known = self._known.get(connection)
        if known is None:
            known = self._known[connection] = _Known()
        prepared = known.prepared.get(text)
        if prepared is not None:
            return *prepared, True
        return b"holdfast_%d" % next(self._numbers), tuple(dict.fromkeys(_PARAMETER.findall(text))), False

    def _judged(self, connection: Connection[tuple[Any, ...]], text: str, prepared: Prepared, good: bool) -> bool:
        if good:
            self._known[connection].prepared[text] = prepared
        else:
            # Somebody between us and the server may have forgotten it.
            self._known[connection].prepared.pop(text, None)
        return good


def _numbered(text: str, order: tuple[str, ...]) -> bytes:
    """The text as the server reads it, with numbers for parameters."""
    return _PARAMETER.sub(lambda found: f"${order.index(found[1]) + 1}", text).replace("%%", "%").encode()


def _good(result: PGresult) -> bool:
    return result.status in _GOOD


def _written(parameters: Mapping[str, Any], order: tuple[str, ...]) -> list[bytes | None] | None:
    """The values as the server reads them; None when one of them is not plain and is left to the driver."""
    values: list[bytes | None] = []
    for name in order:
        value = parameters[name]
        if value is None:
            values.append(None)
        elif type(value) is int:
            values.append(b"%d" % value)
        elif type(value) is str and "\0" not in value:
            values.append(value.encode())
        else:
            return None
    return values


async def _exchanged(pgconn: PGconn, send: Callable[[], None]) -> bool:
    """Send something and wait for everything that comes back; whether all of it is good."""
    import asyncio

    from psycopg import OperationalError

    loop = asyncio.get_running_loop()
    good = True
    try:
        send()
        while pgconn.flush():
            await _able(loop.add_writer, loop.remove_writer, pgconn.socket)
        while True:
            while pgconn.is_busy():
                await _able(loop.add_reader, loop.remove_reader, pgconn.socket)
                pgconn.consume_input()
            result = pgconn.get_result()
            if result is None:
                return good
            good = good and _good(result)
    except OperationalError:
        return False  # the connection is gone


async def _able(watch: Callable[..., Any], unwatch: Callable[[int], Any], socket: int) -> None:
    """Until the socket can be read, or written to."""
    import asyncio

    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    watch(socket, lambda: None if future.done() else future.set_result(None))
    try:
        await future
    finally:
        unwatch(socket)
