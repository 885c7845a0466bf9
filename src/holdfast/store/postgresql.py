"""PostgreSQL: pooled connections in autocommit mode, transactions begun and ended by hand.

`synchronous_commit` is on: an acknowledgement means on disk. Connections that fail are thrown away and made anew;
after a failover the server that takes writes is found again. Behind a pooler, nothing is kept in a session.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from holdfast.base import monotonic_s
from holdfast.base.lazy import name_extra
from holdfast.store.database import CommitUnknown, Cursor, Execute, Follow
from holdfast.store.pooler import beginning, is_pooled, refuses_settings
from holdfast.store.shortcut import Shortcuts
from holdfast.store.statements import Engine

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg_pool import ConnectionPool

POOL_MAX = 16
WAIT_S = 10.0
"""So long a caller waits for a connection before the pool counts as exhausted."""
ROLLED_BACK_CLASSES = frozenset({"22", "23", "25", "40", "42", "44", "P0"})
"""Classes of SQLSTATE with which a COMMIT is refused: conflicts, and constraints that were checked only now."""
SPARES_MAX = 4
ASK_S = 0.5
"""So long one request for a connection waits; then it is made anew."""
IDLE = 0
"""libpq's PQTRANS_IDLE: no transaction is open."""
MIGRATION_LOCK = 0x686F6C64  # "hold"

# Claims and settlements are look-ups by id. A planner that has no statistics yet, or old ones, must not read the
# whole table for a batch.
SETTINGS = {
    "synchronous_commit": "on",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
    "idle_in_transaction_session_timeout": "60000",
    "timezone": "UTC",
}
# A server that vanished without a word must be noticed in seconds, not in the minutes the kernel takes.
DEFAULTS: dict[str, str | int] = {
    "application_name": "holdfast",
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
    # Also behind one address: after a failover a standby may answer there.
    "target_session_attrs": "read-write",
}
"""How connections are made where the address does not say otherwise."""


class PostgresqlDatabase:
    """The connections of this process to one database."""

    engine = Engine.POSTGRESQL
    _pool: ConnectionPool[Connection[tuple[Any, ...]]] | None
    _spares: list[Connection[tuple[Any, ...]]]
    _trusted: WeakKeyDictionary[Connection[tuple[Any, ...]], int]

    def __init__(self, target: str, *, pool_max: int = POOL_MAX, pooled: bool | None = None) -> None:
        self.target = target
        self._pooled = pooled
        self._pool_max = pool_max
        self._closed = False
        self._inherited: list[object] = []
        self._begin_empty()

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[Execute]:
        with self._connected() as connection:
            begin = "BEGIN" if write else "BEGIN READ ONLY"
            _run(connection, beginning(begin, SETTINGS) if self._pooled else begin)
            try:
                yield _Executor(connection)
            except BaseException:
                _roll_back(connection)
                raise
            _commit(connection)

    @contextmanager
    def single(self) -> Iterator[Execute]:
        if self.pooled:
            # Its settings need a transaction around it.
            with self.transaction(write=True) as execute:
                yield execute
            return
        with self._connected() as connection:
            yield partial(self._run_alone, connection)

    def put(self, text: str, parameters: Mapping[str, Any], then: Follow | None = None) -> bool:
        if self.pooled:
            with self.transaction(write=True) as execute:
                execute(text, parameters)
            return False
        pool = self._open()
        connection = self._sound(pool)
        try:
            self._run_alone(connection, text, parameters)
            return then is not None and self._followed(connection, *then)
        finally:
            self._give_back(pool, connection)

    async def put_async(self, text: str, parameters: Mapping[str, Any]) -> bool:
        pool, connection = self._at_hand()
        if pool is None or connection is None:
            return False
        try:
            return await self._shortcuts.run_async(connection, text, parameters)
        finally:
            self._give_back(pool, connection)

    @contextmanager
    def script(self, statements: list[str]) -> Iterator[Execute]:
        with self.transaction(write=True) as execute:
            execute(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})", {})
            for statement in statements:
                execute(statement.replace("%", "%%"), {})
            yield execute

    def connect(self) -> Connection[tuple[Any, ...]]:
        """A connection of its own, for listening; the caller closes it."""
        import psycopg

        pooled = bool(self._pooled)
        try:
            return psycopg.connect(self.target, autocommit=True, **_keywords(self.target, pooled=pooled))
        except psycopg.OperationalError as error:
            if pooled or not refuses_settings(error):
                raise
            self._pooled = True
            return psycopg.connect(self.target, autocommit=True, **_keywords(self.target, pooled=True))

    @property
    def pooled(self) -> bool:
        """Whether a pooler answers, which keeps nothing in a session; found out with a first connection.

        Raises:
            psycopg.OperationalError: there is no connection.
        """
        if self._pooled is None:
            with self.connect() as connection:
                found = is_pooled(connection)
            if found:
                import logging

                logging.getLogger("holdfast.store").info("a connection pooler answers: sessions are not used")
            self._pooled = found
        return self._pooled

    def close(self) -> None:
        with self._opening:
            self._closed = True
            for connection in self._spares:
                connection.close()
            self._spares.clear()
            if self._pool is not None:
                self._pool.close()
                self._pool = None

    def _begin_empty(self) -> None:
        self._opening = threading.Lock()
        self._pool = None
        self._spares = []
        self._asking = 0
        self._losses = 0
        self._trusted = WeakKeyDictionary()
        self._shortcuts = Shortcuts()
        self._process = os.getpid()

    @contextmanager
    def _connected(self) -> Iterator[Connection[tuple[Any, ...]]]:
        pool = self._open()
        connection = self._sound(pool)
        try:
            yield connection
        finally:
            self._give_back(pool, connection)

    def _run_alone(self, connection: Connection[tuple[Any, ...]], text: str, parameters: Mapping[str, Any]) -> Cursor:
        """Run one statement that commits by itself, the shorter way where it leads there."""
        try:
            return self._shortcuts.run(connection, text, parameters) or _run(connection, text, parameters)
        except Exception as error:
            # A lost connection leaves open whether it did.
            if connection.closed and getattr(error, "sqlstate", None) is None:
                raise CommitUnknown from error
            raise

    def _followed(self, connection: Connection[tuple[Any, ...]], text: str, parameters: Mapping[str, Any]) -> bool:
        from psycopg import OperationalError

        try:
            return self._shortcuts.run(connection, text, parameters) is not None
        except OperationalError:
            return False  # the connection is gone; what was put before is on disk

    def _sound(self, pool: ConnectionPool[Connection[tuple[Any, ...]]]) -> Connection[tuple[Any, ...]]:
        """A connection from the pool. Where one was lost, the others that lie there are tried out before use."""
        from psycopg import OperationalError

        connection = self._taken(pool)
        for _ in range(self._pool_max):
            losses = self._losses
            if not losses or self._trusted.get(connection) == losses:
                break
            try:
                _run(connection, "")
                self._trusted[connection] = losses
            except OperationalError:
                pool.putconn(connection)
                connection = self._taken(pool)
        return connection

    def _give_back(
        self, pool: ConnectionPool[Connection[tuple[Any, ...]]], connection: Connection[tuple[Any, ...]]
    ) -> None:
        """Keep a few at hand: the pool's own bookkeeping costs as much as a short statement."""
        if connection.closed:
            self._losses += 1
        elif connection.pgconn.transaction_status == IDLE:
            with self._opening:
                if not self._asking and len(self._spares) < SPARES_MAX and not self._closed:
                    self._spares.append(connection)
                    return
        pool.putconn(connection)

    def _taken(self, pool: ConnectionPool[Connection[tuple[Any, ...]]]) -> Connection[tuple[Any, ...]]:
        with self._opening:
            if self._spares:
                return self._spares.pop()
            # Whoever waits for the pool must be given what is handed back from now on.
            self._asking += 1
        try:
            return self._from_pool(pool)
        finally:
            with self._opening:
                self._asking -= 1

    def _at_hand(
        self,
    ) -> tuple[ConnectionPool[Connection[tuple[Any, ...]]] | None, Connection[tuple[Any, ...]] | None]:
        """A connection that can be had without waiting and is known to be sound, if there is one."""
        if self._pooled or self._process != os.getpid() or os.name == "nt":  # there, no loop watches sockets
            return None, None
        with self._opening:
            sound = self._spares and (not self._losses or self._trusted.get(self._spares[-1]) == self._losses)
            return self._pool, self._spares.pop() if sound else None

    def _from_pool(self, pool: ConnectionPool[Connection[tuple[Any, ...]]]) -> Connection[tuple[Any, ...]]:
        from psycopg_pool import PoolTimeout

        give_up_s = monotonic_s() + WAIT_S
        while True:
            try:
                # A pool that could not connect stops trying, and only someone new who asks sets it to work again.
                return pool.getconn(timeout=ASK_S)
            except PoolTimeout:
                if monotonic_s() >= give_up_s:
                    # Either all connections are in use, or none could be made: the server itself tells which.
                    self.connect().close()
                    raise

    def _open(self) -> ConnectionPool[Connection[tuple[Any, ...]]]:
        if self._process != os.getpid():
            # Connections and the pool's own threads are the parent's; the child lets them lie and begins anew.
            self._inherited.append((self._pool, self._spares, self._opening, self._trusted))
            self._begin_empty()
        return self._pool or self._opened()

    def _opened(self) -> ConnectionPool[Connection[tuple[Any, ...]]]:
        try:
            from psycopg import Connection
            from psycopg_pool import ConnectionPool, PoolClosed
        except ModuleNotFoundError as missing:
            name_extra(missing)
            raise
        _quiet_pool()
        pooled = self.pooled
        with self._opening:
            if self._closed:
                raise PoolClosed("the store is closed")
            if self._pool is None:
                self._pool = ConnectionPool(
                    self.target,
                    connection_class=Connection[tuple[Any, ...]],
                    kwargs={"autocommit": True, **_keywords(self.target, pooled=pooled)},
                    min_size=1,
                    max_size=self._pool_max,
                    timeout=WAIT_S,
                    reconnect_timeout=1.0,
                    open=True,
                )
            return self._pool


class _Executor:
    """Runs statements of one transaction."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection[tuple[Any, ...]]) -> None:
        self._connection = connection

    def __call__(self, text: str, parameters: Mapping[str, Any]) -> Cursor:
        return self._connection.execute(text, parameters)

    def stream(self, text: str, pieces: Iterable[str]) -> None:
        """COPY from these pieces."""
        with self._connection.cursor() as cursor, cursor.copy(text) as copy:
            for piece in pieces:
                copy.write(piece)
                # Else the last part of it stays here, and the server idles while the next piece is made.
                self._connection.pgconn.flush()


def _quiet_pool() -> None:
    """The pool logs each of its tries; our own failure tells of all of them once.

    A handler that does nothing keeps Python's last resort, which is stderr, from them. Loggers that somebody has
    configured still get everything.
    """
    import logging

    pool = logging.getLogger("psycopg.pool")
    if not pool.handlers:
        pool.addHandler(logging.NullHandler())


def _keywords(target: str, *, pooled: bool) -> dict[str, Any]:
    """What every connection is opened with. What the address says itself is kept, except for what durability needs."""
    from psycopg.conninfo import conninfo_to_dict

    chosen = conninfo_to_dict(target)
    keywords = {name: value for name, value in DEFAULTS.items() if name not in chosen}
    if pooled:
        return {**keywords, "client_encoding": "utf8", "prepare_threshold": None}
    theirs = str(chosen.get("options") or os.environ.get("PGOPTIONS", ""))
    options = " ".join([theirs, *(f"-c {name}={value}" for name, value in SETTINGS.items())]).strip()
    return {**keywords, "client_encoding": "utf8", "options": options}


def _run(connection: Connection[tuple[Any, ...]], text: str, parameters: Mapping[str, Any] | None = None) -> Cursor:
    return connection.execute(text, parameters)


def _commit(connection: Connection[tuple[Any, ...]]) -> None:
    try:
        ended = connection.execute("COMMIT").statusmessage
    except Exception as error:
        # Only what the server says about the transaction itself is its word that it rolled back.
        if (getattr(error, "sqlstate", None) or "")[:2] not in ROLLED_BACK_CLASSES:
            raise CommitUnknown from error
        raise
    if ended != "COMMIT":
        from psycopg.errors import InFailedSqlTransaction

        raise InFailedSqlTransaction("a statement had failed and the phase went on: everything was rolled back")


def _roll_back(connection: Connection[tuple[Any, ...]]) -> None:
    try:
        if not connection.closed:
            _run(connection, "ROLLBACK")
    except Exception:  # noqa: BLE001 - the first error is the one to tell; a broken connection rolls back by itself
        connection.close()
