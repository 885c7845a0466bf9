"""A shorter way to PostgreSQL for statements that are run again and again, each a transaction of its own.

The driver's own way through cursors, queries and adapters takes longer than the database takes to insert a row. Here
values go as text to a statement that each connection prepares once, and a coroutine waits without a thread. Whatever
goes wrong is left to the driver: the statement has then been rolled back, or the connection is gone and the driver
says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
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

Shape = tuple[str, tuple[int, ...]]
"""A statement, and the types of its parameters as the driver would give them."""
PREPARED_MAX = 400
SQLSTATE, UNKNOWN_NAME = ord("C"), b"26000"
"""libpq's PG_DIAG_SQLSTATE, and what it says when a prepared statement does not exist."""
INT8_MAX = 2**63 - 1
UNTOLD, INT2, INT4, INT8 = 0, 21, 23, 20
"""PostgreSQL's numbers of types. Of texts the server finds out by itself."""


class Answer:
    """What a statement answered; read only when it is asked for, before the connection is used again."""

    __slots__ = ("_reader", "_result")

    def __init__(self, reader: Transformer, result: PGresult) -> None:
        self._reader = reader
        self._result = result

    @property
    def rowcount(self) -> int:
        changed = self._result.command_tuples
        return -1 if changed is None else changed

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

    __slots__ = ("names", "reader")

    def __init__(self) -> None:
        from psycopg.adapt import Transformer

        self.names: dict[Shape, bytes] = {}
        """The names under which the server knows them."""
        self.reader = Transformer()  # without the connection, whose end it would put off; all of them speak UTF-8

    @property
    def full(self) -> bool:
        """Whether the server keeps enough for this connection."""
        return len(self.names) >= PREPARED_MAX

    def judged(self, shape: Shape, result: PGresult | None) -> bool:
        """Whether all went well; a name that the server does not know, or no longer, is forgotten here too."""
        if result is not None and result.error_field(SQLSTATE) == UNKNOWN_NAME:
            del self.names[shape]
        return _good(result)


class Shortcuts:
    """The statements that the connections of one process have prepared."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Connection[tuple[Any, ...]], _Known] = WeakKeyDictionary()
        self._numbers = count()

    def run(self, connection: Connection[tuple[Any, ...]], text: str, parameters: Mapping[str, Any]) -> Answer | None:
        """Run the statement and commit; None when the driver has to."""
        known, asked = self._of(connection), _written(text, parameters)
        if asked is None:
            return None
        values, shape = asked
        name = known.names.get(shape)
        if name is None:
            name = self._new_name()
            if known.full or not _good(connection.pgconn.prepare(name, _numbered(text), shape[1])):
                return None
            known.names[shape] = name
        # The types of the driver do not say that a value may be None; its texts and its code do.
        result = connection.pgconn.exec_prepared(name, values)  # type: ignore[arg-type]
        return Answer(known.reader, result) if known.judged(shape, result) else None

    async def run_async(
        self, connection: Connection[tuple[Any, ...]], text: str, parameters: Mapping[str, Any]
    ) -> Answer | None:
        """The same for a coroutine; others go on meanwhile."""
        pgconn = connection.pgconn
        known, asked = self._of(connection), _written(text, parameters)
        if asked is None:
            return None
        values, shape = asked
        name = known.names.get(shape) or self._new_name()
        if shape not in known.names:
            if known.full or not _good(
                await _exchanged(pgconn, lambda: pgconn.send_prepare(name, _numbered(text), shape[1]))
            ):
                return None
            known.names[shape] = name
        result = await _exchanged(pgconn, lambda: pgconn.send_query_prepared(name, values))
        return Answer(known.reader, result) if result is not None and known.judged(shape, result) else None

    def _new_name(self) -> bytes:
        return b"holdfast_%d" % next(self._numbers)

    def _of(self, connection: Connection[tuple[Any, ...]]) -> _Known:
        known = self._known.get(connection)
        if known is None:
            known = self._known[connection] = _Known()
        return known


@lru_cache(maxsize=1_000)
def _order(text: str) -> tuple[str, ...]:
    """The parameters of a statement, each once."""
    return tuple(dict.fromkeys(_PARAMETER.findall(text)))


def _numbered(text: str) -> bytes:
    """The text as the server reads it, with numbers for parameters."""
    order = _order(text)
    return _PARAMETER.sub(lambda found: f"${order.index(found[1]) + 1}", text).replace("%%", "%").encode()


def _good(result: PGresult | None) -> bool:
    return result is not None and result.status in _GOOD


def _written(text: str, parameters: Mapping[str, Any]) -> tuple[list[bytes | None], Shape] | None:
    """The values as the server reads them; None when one of them is not plain and is left to the driver."""
    values: list[bytes | None] = []
    types: list[int] = []
    for name in _order(text):
        value = parameters[name]
        if type(value) is str and "\0" not in value:
            values.append(value.encode())
            types.append(UNTOLD)
        elif type(value) is int and -INT8_MAX <= value <= INT8_MAX:
            values.append(b"%d" % value)
            types.append(_width(value))
        elif value is None:
            values.append(None)
            types.append(UNTOLD)
        else:
            return None
    return values, (text, tuple(types))


def _width(value: int) -> int:
    """As the driver chooses: the smallest type that holds the number."""
    if -0x8000 <= value < 0x8000:
        return INT2
    return INT4 if -0x8000_0000 <= value < 0x8000_0000 else INT8


async def _exchanged(pgconn: PGconn, send: Callable[[], None]) -> PGresult | None:
    """Send something and wait for everything that comes back: the first that is not good, or the last; None when the
    connection is gone."""
    import asyncio

    from psycopg import OperationalError

    loop = asyncio.get_running_loop()
    told: PGresult | None = None
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
                return told
            told = result if told is None or _good(told) else told
    except OperationalError:
        return None


async def _able(watch: Callable[..., Any], unwatch: Callable[[int], Any], socket: int) -> None:
    """Until the socket can be read, or written to."""
    import asyncio

    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    watch(socket, lambda: None if future.done() else future.set_result(None))
    try:
        await future
    finally:
        unwatch(socket)
