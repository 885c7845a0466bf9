"""PostgreSQL: connections in autocommit mode, transactions begun and ended by hand.

`synchronous_commit` is on: an acknowledgement means on disk. Behind a pooler, nothing is kept in a session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.store.address import Address
from holdfast.store.call_limit import CallLimit, NoLimit
from holdfast.store.connections import SETTINGS, Connections
from holdfast.store.database import CommitUnknown, Cursor, Execute, Follow
from holdfast.store.pooler import beginning
from holdfast.store.statements import Engine

if TYPE_CHECKING:
    from psycopg import Connection as PsycopgConnection

    Connection = PsycopgConnection[tuple[Any, ...]]

POOL_MAX = 16
ROLLED_BACK_CLASSES = frozenset({"22", "23", "25", "40", "42", "44", "P0"})
"""Classes of SQLSTATE with which a COMMIT is refused: conflicts, and constraints that were checked only now."""
READ_ONLY = "25006"
"""SQLSTATE of a write that was refused because the server, or the transaction, takes none."""
MIGRATION_LOCK = 0x686F6C64  # "hold"


class PostgresqlDatabase:
    """Transactions of this process on one database."""

    engine = Engine.POSTGRESQL

    def __init__(self, address: Address, *, pool_max: int = POOL_MAX) -> None:
        self._connections = Connections(address, pool_max=pool_max)

    @property
    def pooled(self) -> bool:
        """Whether a pooler answers, which keeps nothing in a session.

        Raises:
            psycopg.OperationalError: there is no connection.
        """
        return self._connections.pooled

    def transaction(self, *, write: bool) -> AbstractContextManager[Execute]:
        return self._transaction(self._connections.calls, write=write)

    @contextmanager
    def single(self, *, within_s: float | None = None) -> Iterator[Execute]:
        if self.pooled:
            # Its settings need a transaction around it.
            with self._transaction(self._connections.calls, write=True, within_s=within_s) as execute:
                yield execute
            return
        with self._connections.lent() as connection:
            yield partial(self._run_alone, connection, within_s=within_s)

    def put(self, text: str, parameters: Any, then: Follow | None = None) -> bool:
        if self.pooled:
            with self.transaction(write=True) as execute:
                execute(text, parameters)
            return False
        with self._connections.lent() as connection:
            self._run_alone(connection, text, parameters)
            return then is not None and self._followed(connection, *then)

    async def run_async(self, text: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]] | None:
        with self._connections.at_hand() as connection:
            if connection is None:
                return None
            calls = self._connections.calls
            calls.begin(connection)
            try:
                answer = await self._connections.shortcuts.run_async(connection, text, parameters)
                return None if answer is None else answer.fetchall()
            finally:
                calls.end(connection)

    @contextmanager
    def script(self, statements: list[str]) -> Iterator[Execute]:
        # A process may wait for another one's migration, and a migration may have much to do.
        with self._transaction(NoLimit(), write=True) as execute:
            execute(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})", {})
            for statement in statements:
                execute(statement.replace("%", "%%"), {})
            yield execute

    def connect(self) -> Connection:
        """A connection of its own, for listening; the caller closes it."""
        return self._connections.connect()

    def leave(self) -> None:
        self._connections.leave()

    @property
    def left(self) -> int:
        """How many times a server was left; a connection of one's own that is older leads to such a server."""
        return self._connections.left

    def on_other_server(self, tell: Callable[[], None]) -> None:
        self._connections.on_other_server = tell

    def close(self) -> None:
        self._connections.close()

    @contextmanager
    def _transaction(self, calls: CallLimit, *, write: bool, within_s: float | None = None) -> Iterator[Execute]:
        with self._connections.lent() as connection:
            execute = _Executor(connection, calls, within_s)
            begin = "BEGIN" if write else "BEGIN READ ONLY"
            execute(beginning(begin, SETTINGS) if self.pooled else begin)
            try:
                yield execute
            except BaseException as error:
                execute.roll_back()
                if write:
                    self._leave_standby(connection, error)
                raise
            execute.commit()

    def _run_alone(
        self, connection: Connection, text: str, parameters: Mapping[str, Any], within_s: float | None = None
    ) -> Cursor:
        """Run one statement that commits by itself, the shorter way where it leads there."""
        calls = self._connections.calls
        calls.begin(connection, within_s)
        try:
            return self._connections.shortcuts.run(connection, text, parameters) or connection.execute(text, parameters)
        except Exception as error:
            # A lost connection leaves open whether it did.
            if connection.closed and getattr(error, "sqlstate", None) is None:
                raise CommitUnknown from error
            self._leave_standby(connection, error)
            raise
        finally:
            calls.end(connection)

    def _followed(self, connection: Connection, text: str, parameters: Mapping[str, Any]) -> bool:
        from psycopg import OperationalError

        calls = self._connections.calls
        calls.begin(connection)
        try:
            return self._connections.shortcuts.run(connection, text, parameters) is not None
        except OperationalError:
            return False  # the connection is gone; what was put before is on disk
        finally:
            calls.end(connection)

    def _leave_standby(self, connection: Connection, error: BaseException) -> None:
        """A server that takes no writes any more has become a standby: no connection to it is of use."""
        if getattr(error, "sqlstate", None) == READ_ONLY:
            connection.close()
            self._connections.leave()


class _Executor:
    """Runs statements of one transaction, each within the time limit."""

    __slots__ = ("_calls", "_connection", "_within_s")

    def __init__(self, connection: Connection, calls: CallLimit, within_s: float | None = None) -> None:
        self._connection = connection
        self._calls = calls
        self._within_s = within_s

    def __call__(self, text: str, parameters: Mapping[str, Any] | None = None) -> Cursor:
        self._calls.begin(self._connection, self._within_s)
        try:
            return self._connection.execute(text, parameters)
        finally:
            self._calls.end(self._connection)

    def stream(self, text: str, pieces: Iterable[str]) -> None:
        """COPY from these pieces."""
        self._calls.begin(self._connection)
        try:
            with self._connection.cursor() as cursor, cursor.copy(text) as copy:
                for piece in pieces:
                    copy.write(piece)
                    # Else the last part of it stays here, and the server idles while the next piece is made.
                    self._connection.pgconn.flush()
                    self._calls.begin(self._connection)
        finally:
            self._calls.end(self._connection)

    def commit(self) -> None:
        """End the transaction.

        Raises:
            CommitUnknown: nobody can tell whether it was committed.
        """
        self._calls.begin(self._connection, self._within_s)
        try:
            ended = self._connection.execute("COMMIT").statusmessage
        except Exception as error:
            # Only what the server says about the transaction itself is its word that it rolled back.
            if (getattr(error, "sqlstate", None) or "")[:2] not in ROLLED_BACK_CLASSES:
                raise CommitUnknown from error
            raise
        finally:
            self._calls.end(self._connection)
        if ended != "COMMIT":
            from psycopg.errors import InFailedSqlTransaction

            raise InFailedSqlTransaction("a statement had failed and the phase went on: everything was rolled back")

    def roll_back(self) -> None:
        """Undo the transaction; a broken connection does so by itself."""
        try:
            if not self._connection.closed:
                self("ROLLBACK")
        except Exception:  # noqa: BLE001 - the first error is the one to tell
            self._connection.close()
