"""The connections of one process to PostgreSQL: a pool, and how connections that fail are replaced.

A connection that was lost makes the others suspect: they are tried out before their next use. A server that hangs, or
that takes no writes any more, is left as a whole: all its connections are dropped, and new ones are made to whichever
server of the address takes writes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from holdfast.base import monotonic_s
from holdfast.base.lazy import name_extra
from holdfast.store.address import CONNECTING, Address
from holdfast.store.attempts import Attempts
from holdfast.store.call_limit import CallLimit
from holdfast.store.pooler import is_pooled, refuses_settings
from holdfast.store.servers import Servers, servers_of
from holdfast.store.shortcut import Shortcuts

if TYPE_CHECKING:
    from psycopg import Connection as PsycopgConnection
    from psycopg_pool import ConnectionPool

    Connection = PsycopgConnection[tuple[Any, ...]]
    Pool = ConnectionPool[Connection]

WAIT_S = 10.0
"""Maximum time to wait for a connection while all of them are in use and the server can be reached."""
LOOK_S = 1.0
"""Interval between checks whether the server can be reached, while a caller waits."""
SPARES_MAX = 4
CLOSE_S = 5.0
"""Maximum time to wait for the threads of the pool."""
ASK_S = 0.25
"""Maximum time of one request to the pool, after which it is repeated."""
LEAVES_MAX = 10
"""Maximum number of pools that may be replaced while one caller waits for a connection."""
STOOD_STILL_S = 0.25
"""A request to the pool that ends this much too late means that the process itself was suspended, so the server is not
blamed for that time."""
FIRST_S = 2
"""Maximum time to connect while a caller waits; libpq does not accept a shorter one."""
IDLE = 0
"""libpq's PQTRANS_IDLE: no transaction is open."""

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
DEFAULTS: dict[str, str | int] = {"application_name": "holdfast", **CONNECTING}
"""How connections are made where the address does not say otherwise."""


class Connections:
    """The connections of one process to one database."""

    _pool: Pool | None
    _spares: list[Connection]
    _trusted: WeakKeyDictionary[Connection, int]

    def __init__(self, address: Address, *, pool_max: int) -> None:
        self._target = address.target
        self._pooled = address.pooled
        self._call_timeout_s = address.call_timeout_s
        self._wait_s = address.wait_s
        self._pool_max = pool_max
        self._closed = False
        self.left = 0
        """Number of times that all connections to a server were dropped."""
        self.on_other_server: Callable[[], None] = lambda: None
        """Called when connections were dropped, or when another server accepted one."""
        self._inherited: list[object] = []
        self._begin_empty()

    def connect(self, *, within_s: int | None = None) -> Connection:
        """A connection outside the pool; the caller closes it.

        Args:
            within_s: maximum time to connect, instead of the usual one.
        """
        import psycopg

        pooled = bool(self._pooled)
        limit = {} if within_s is None else {"connect_timeout": within_s}
        try:
            return self._connected(pooled=pooled, **limit)
        except psycopg.OperationalError as error:
            if pooled or not refuses_settings(error):
                raise
            self._pooled = True
            return self._connected(pooled=True, **limit)

    def _connected(self, *, pooled: bool, **more: Any) -> Connection:
        import psycopg

        keywords = {**_keywords(self._target, pooled=pooled), **self._servers.keywords(), **more}
        with self._attempts.recorded():
            connection = psycopg.connect(self._target, autocommit=True, **keywords)
        self._note(connection)
        return connection

    def _note(self, connection: Connection) -> None:
        if self._servers.put_first(connection):
            self.on_other_server()

    @property
    def pooled(self) -> bool:
        """Whether the address leads to a pooler, which keeps no sessions; the first connection finds out.

        Raises:
            psycopg.OperationalError: there is no connection.
        """
        if self._pooled is None:
            with self.connect(within_s=FIRST_S) as connection:
                found = is_pooled(connection)
            if found:
                import logging

                logging.getLogger("holdfast.store").info("a connection pooler answers: sessions are not used")
            self._pooled = found
        return self._pooled

    @contextmanager
    def lent(self) -> Iterator[Connection]:
        """A connection for the length of the block."""
        pool, connection = self._found()
        try:
            yield connection
        finally:
            self._give_back(pool, connection)

    @contextmanager
    def at_hand(self) -> Iterator[Connection | None]:
        """A connection that is known to be sound, without waiting; None where there is none."""
        pool, connection = self._spare()
        if pool is None or connection is None:
            yield None
            return
        try:
            yield connection
        finally:
            self._give_back(pool, connection)

    def leave(self, behind: Iterable[Connection] = ()) -> None:
        """Drop every connection, because the server does not answer or accepts no writes.

        Args:
            behind: connections to a server that does not answer; new connections try the other servers first.
        """
        for connection in behind:
            self._servers.put_last(connection)
        self.left += 1
        # Threads of the pool may still be connecting to that server: they end by themselves.
        self._drop(wait_s=0)
        self.on_other_server()

    def close(self) -> None:
        """Give every connection back, for good."""
        self._closed = True
        self._attempts.close()
        # The threads of a pool that cannot connect end by themselves: they are not worth waiting for.
        self._drop(wait_s=CLOSE_S if self._attempts.cause() is None else 0)
        self.calls.stop()

    def _drop(self, *, wait_s: float) -> None:
        with self._opening:
            pool, self._pool = self._pool, None
            spares, self._spares = self._spares, []
        for connection in spares:
            connection.close()
        if pool is not None:
            pool.close(timeout=wait_s)

    def _begin_empty(self) -> None:
        self._opening = threading.Lock()
        self._pool = None
        self._spares = []
        self._asking = 0
        self._losses = 0
        self._trusted = WeakKeyDictionary()
        self._process = os.getpid()
        self._servers = servers_of(self._target)
        self.shortcuts = Shortcuts()
        self.calls = CallLimit(self._call_timeout_s, self.leave)
        self._attempts = Attempts(lambda: self.connect().close(), self._wait_s)

    def _found(self) -> tuple[Pool, Connection]:
        """A sound connection, and the pool that gets it back."""
        pool = self._open()
        for _ in range(LEAVES_MAX):
            try:
                return pool, self._sound(pool)
            except Exception as error:
                from psycopg_pool import PoolClosed

                if not isinstance(error, PoolClosed):
                    raise
            # Another caller has dropped the pool in the meantime: the next one leads to the server that accepts writes.
            pool = self._open()
        return pool, self._sound(pool)

    def _sound(self, pool: Pool) -> Connection:
        """A connection from the pool. After one was lost, the others in the pool are tested before use."""
        from psycopg import OperationalError

        connection = self._taken(pool)
        for _ in range(self._pool_max):
            losses = self._losses
            if not losses or self._trusted.get(connection) == losses:
                break
            try:
                self._try(connection)
                self._trusted[connection] = losses
            except OperationalError:
                pool.putconn(connection)
                connection = self._taken(pool)
        return connection

    def _try(self, connection: Connection) -> None:
        self.calls.begin(connection)
        try:
            connection.execute("")
        finally:
            self.calls.end(connection)

    def _give_back(self, pool: Pool, connection: Connection) -> None:
        """Keep a few outside the pool, whose bookkeeping costs as much as a short statement."""
        if connection.closed:
            self._losses += 1
        elif connection.pgconn.transaction_status == IDLE:
            with self._opening:
                if pool is self._pool and not self._asking and len(self._spares) < SPARES_MAX:
                    self._spares.append(connection)
                    return
        pool.putconn(connection)

    def _taken(self, pool: Pool) -> Connection:
        with self._opening:
            if self._spares and pool is self._pool:
                return self._spares.pop()
            # A caller that waits for the pool must be given what is handed back from now on.
            self._asking += 1
        try:
            return self._from_pool(pool)
        finally:
            with self._opening:
                self._asking -= 1

    def _spare(self) -> tuple[Pool | None, Connection | None]:
        if self._pooled or self._process != os.getpid() or os.name == "nt":  # there, no loop watches sockets
            return None, None
        with self._opening:
            sound = self._spares and (not self._losses or self._trusted.get(self._spares[-1]) == self._losses)
            return self._pool, self._spares.pop() if sound else None

    def _from_pool(self, pool: Pool) -> Connection:
        from psycopg_pool import PoolTimeout

        wait_s, asked_s = self._attempts.wait_s, monotonic_s()
        ask_s = min(ASK_S, wait_s / 4)
        begun_s, look_s = asked_s, asked_s + wait_s / 2
        while True:
            try:
                # A pool that could not connect stops trying until it gets a new request.
                return pool.getconn(timeout=ask_s)
            except PoolTimeout as timeout:
                # Either all connections are in use, or none can be made: an attempt to connect shows which.
                now_s = monotonic_s()
                late_s = now_s - asked_s - ask_s
                if late_s > STOOD_STILL_S:
                    begun_s += late_s
                asked_s = now_s
                if now_s >= look_s:
                    look_s = now_s + LOOK_S
                    self._attempts.look()
                if now_s >= begun_s + wait_s:
                    away = self._attempts.cause()
                    if away is not None:
                        raise away from timeout
                    if now_s >= begun_s + max(WAIT_S, self._wait_s):
                        raise

    def _open(self) -> Pool:
        if self._process != os.getpid():
            # The connections and the threads of the pool belong to the parent; the child makes its own.
            self._inherited.append((self._pool, self._spares, self._opening, self._trusted, self.calls))
            self._begin_empty()
        return self._pool or self._opened()

    def _opened(self) -> Pool:
        try:
            import psycopg  # noqa: F401 - asked for here, so that the extra is named
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
                    self._target,
                    connection_class=_recorded(self._attempts, self._servers, self._note),
                    kwargs={"autocommit": True, **_keywords(self._target, pooled=pooled)},
                    min_size=1,
                    max_size=self._pool_max,
                    timeout=self._wait_s,
                    reconnect_timeout=1.0,
                    open=True,
                )
            return self._pool


def _recorded(attempts: Attempts, servers: Servers, note: Callable[[Connection], None]) -> type[Connection]:
    """A connection class that records its attempts to connect, which the pool only logs."""
    from psycopg import Connection

    class Recorded(Connection[tuple[Any, ...]]):
        @classmethod
        def connect(cls, *given: Any, **named: Any) -> Any:
            with attempts.recorded():
                connection = super().connect(*given, **{**named, **servers.keywords()})
            note(connection)
            return connection

    return Recorded


def _quiet_pool() -> None:
    """Keep the pool from logging each attempt: our own failure reports them once.

    A handler that does nothing keeps Python's last resort, which is stderr, from them. Loggers that the application
    has configured still get everything.
    """
    import logging

    pool = logging.getLogger("psycopg.pool")
    if not pool.handlers:
        pool.addHandler(logging.NullHandler())


def _keywords(target: str, *, pooled: bool) -> dict[str, Any]:
    """The parameters of every connection. The address overrides them, except for those that durability needs."""
    from psycopg.conninfo import conninfo_to_dict

    chosen = conninfo_to_dict(target)
    keywords = {name: value for name, value in DEFAULTS.items() if name not in chosen}
    if pooled:
        return {**keywords, "client_encoding": "utf8", "prepare_threshold": None}
    theirs = str(chosen.get("options") or os.environ.get("PGOPTIONS", ""))
    options = " ".join([theirs, *(f"-c {name}={value}" for name, value in SETTINGS.items())]).strip()
    return {**keywords, "client_encoding": "utf8", "options": options}
