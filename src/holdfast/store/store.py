"""The store: one place where everything durable is remembered.

A unit of work is one function, given to `atomic`; it happens whole or not at all. What the database rolled back is
run again here; what may or may not have happened is run again only if the phase says that it may be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any, TypeVar

from holdfast.base import monotonic_s, now_us, world
from holdfast.base.arguments import number
from holdfast.catalog.classify import DEFAULT_CLASSIFIER
from holdfast.catalog.core import (
    DATABASE_CONNECTION_ERROR,
    DATABASE_ERROR,
    DATABASE_READ_ONLY,
    TRANSACTION_ROLLED_BACK,
)
from holdfast.catalog.durable import COMMIT_UNKNOWN
from holdfast.catalog.failure import Failure
from holdfast.store.address import Address, check_postgresql, read_address
from holdfast.store.database import CommitUnknown, Database, Execute, Follow
from holdfast.store.join import Joined, joined
from holdfast.store.join.asynchronous import AsyncTx, joined_async
from holdfast.store.join.identity import Identity
from holdfast.store.migrate import migrate
from holdfast.store.row_parameters import Row, bound, given
from holdfast.store.snapshot import Snapshots, SnapshotTx
from holdfast.store.statements import Engine, Statement, parse
from holdfast.store.tables import created_by, placing, tables
from holdfast.store.transaction import Tx

T = TypeVar("T")

ROLLBACK_TRIES = 12
CONNECT_TRIES = 4
TRY_S = 0.02
TRYING_S_MAX = 10.0
"""Time after which no further try begins; for a lost connection the `wait_s` of the address counts instead."""
_AGAIN = {
    TRANSACTION_ROLLED_BACK.code: ROLLBACK_TRIES,
    DATABASE_CONNECTION_ERROR.code: CONNECT_TRIES,
    DATABASE_READ_ONLY.code: CONNECT_TRIES,
}


class Store:
    """Transactions on one database, by named statements."""

    def __init__(self, address: Address, database: Database, *, database_clock: bool = True) -> None:
        self.address = address
        self.database = database
        self._database_clock = database_clock
        self._statements: dict[str, Statement] = {}
        self._tables = set(tables())
        self._wakes: list[Callable[[], None]] = []
        self._identity = Identity(address, self.look, database.leave)
        database.on_other_server(self._identity.server_changed)
        self._snapshots = Snapshots()
        self.load("holdfast.store")

    @classmethod
    def open(
        cls,
        url: str | None = None,
        *,
        schema: str | None = None,
        wait_s: float | None = None,
        database_clock: bool = True,
        pool_max: int = 16,
    ) -> Store:
        """Open `sqlite:///path` or `postgresql://…`; without one, `HOLDFAST_DATABASE` or the embedded default.

        Args:
            schema: the PostgreSQL schema of our tables, also as `?schema=` in the address; `migrate` creates it.
            wait_s: maximum time that a caller waits for a PostgreSQL server that is away, also as `?wait_s=` in the
                address or as `HOLDFAST_DATABASE_WAIT_S`; None is 1.5 s.
            database_clock: False reads the injected clock also on PostgreSQL, for tests in virtual time.

        Raises:
            AddressInvalid: the address cannot be read; it says why. Whether a server answers is seen at the first use.
        """
        number("pool_max", pool_max, least=1, whole=True)
        address = read_address(url, schema=schema, wait_s=wait_s)
        if address.engine is Engine.SQLITE:
            from holdfast.store.sqlite import SqliteDatabase

            return cls(address, SqliteDatabase(address.target), database_clock=database_clock)
        from holdfast.store.postgresql import PostgresqlDatabase

        check_postgresql(address)
        database = PostgresqlDatabase(address, pool_max=pool_max)
        return cls(address, database, database_clock=database_clock)

    @property
    def engine(self) -> Engine:
        """SQLite or PostgreSQL."""
        return self.database.engine

    def load(self, package: str) -> None:
        """Read the `sql` folder of a package; statements are named `file.statement`."""
        self._tables |= created_by(package)
        place = placing(self.address.schema, self._tables)
        for file in resources.files(package).joinpath("sql").iterdir():
            if file.name.endswith(".sql"):
                prefix = file.name.removesuffix(".sql")
                for statement in parse(
                    file.read_text("utf-8"),
                    self.engine,
                    prefix=prefix,
                    database_clock=self._database_clock,
                    place=place,
                ):
                    self._statements[statement.name] = statement

    def migrate(self, package: str = "holdfast.store", *, system: str = "core") -> list[str]:
        """Bring the schema up to date; the names of the migrations that ran. Safe when many processes start at once."""
        return self._tried(lambda: migrate(self.database, package, system, schema=self.address.schema), repeatable=True)

    def atomic(self, phase: Callable[[Tx], T], *, write: bool = True, repeatable: bool = False) -> T:
        """Run the phase in one transaction and commit.

        Args:
            write: False is for a phase that only reads; the database refuses it any change.
            repeatable: the phase has one effect however often it runs, so it may run again after a lost reply.

        Raises:
            Failure: the database's error under its catalog code; COMMIT_UNKNOWN when nobody can tell whether it
                happened.
        """
        snapshot = self._snapshots.tx
        if snapshot is not None:
            if write:
                raise TypeError("a snapshot only reads")
            return phase(snapshot)
        # A phase that changes nothing may always be repeated.
        repeatable = repeatable or not write
        tx, result = self._tried(lambda: self._once(phase, write=write), repeatable=repeatable, write=write)
        # Only now: what fails from here on must not be taken for a transaction that failed.
        for follow in tx.after_commit:
            follow()
        return result

    def snapshot(self, read: Callable[[], T]) -> T:
        """Run a function whose reads on this thread share one transaction and one moment; it may not write.

        Raises:
            Failure: as `atomic`.
            TypeError: the function writes.
        """

        def phase(tx: Tx) -> T:
            self._snapshots.tx = SnapshotTx(tx)
            try:
                return read()
            finally:
                self._snapshots.tx = None

        return self.atomic(phase, write=False)

    def each(self, phase: Callable[[Tx], T], *, repeatable: bool = False) -> T:
        """Run a phase in which every statement is a transaction of its own: for one that is all but always one.

        Raises:
            Failure: as `atomic`.
        """

        def once() -> T:
            with self.database.single() as execute:
                return phase(self._tx(execute))

        return self._tried(once, repeatable=repeatable)

    def single(
        self, name: str, /, *, repeatable: bool = False, within_s: float | None = None, **parameters: Any
    ) -> list[tuple[Any, ...]]:
        """Run one statement that is a transaction of its own; the cheapest way to write.

        Args:
            repeatable: as in `atomic`.
            within_s: maximum time for PostgreSQL to answer, where that is shorter than `call_timeout_s`.
        """

        def once() -> list[tuple[Any, ...]]:
            with self.database.single(within_s=within_s) as execute:
                return self._tx(execute).rows(name, **dict(parameters))

        return self._tried(once, repeatable=repeatable)

    def put(
        self,
        name: str,
        /,
        *,
        repeatable: bool = False,
        then: Follow | None = None,
        **parameters: Any,
    ) -> bool:
        """Run one statement that is a transaction of its own and answers nothing; cheaper still.

        Args:
            repeatable: as in `atomic`.
            then: another statement and its parameters, which may follow at once, a transaction of its own too.

        Returns:
            Whether the other one has happened: it is left out where that is not cheap, and its failure is nobody's.
        """
        statement = self._statements[name]
        if statement.clocked:
            parameters["now_us"] = now_us()
        follow = None if then is None else (self._statements[then[0]].text, then[1])
        return self._tried(lambda: self.database.put(statement.text, parameters, follow), repeatable=repeatable)

    def prepare_put(self, name: str, rows: Sequence[Row], /, **shared: Any) -> Callable[[], None]:
        """One statement for many rows that is a transaction of its own, may be repeated and answers nothing: what is
        returned runs it."""
        text, parameters = bound(self._statements[name], self.engine, rows, shared)

        def put() -> None:
            self._tried(lambda: self.database.put(text, parameters), repeatable=True)

        return put

    def many_rows(self, name: str, rows: Sequence[Row], /, *, repeatable: bool = False, **shared: Any) -> list[Row]:
        """The same for one that answers rows."""
        text, parameters = bound(self._statements[name], self.engine, rows, shared)

        def once() -> list[Row]:
            with self.database.single() as execute:
                return execute(text, parameters).fetchall()

        return self._tried(once, repeatable=repeatable)

    async def many_rows_async(self, name: str, rows: Sequence[Row], /, **shared: Any) -> list[Row] | None:
        """Run one statement for many rows, a transaction of its own, without a thread; what it answers.

        None when that cannot be here: then the caller does it again in another way, and so it must be repeatable.
        """
        if self.engine is not Engine.POSTGRESQL:
            return None
        statement = self._statements[name]
        return await self.database.run_async(statement.text, {**shared, **given(statement, self.engine, rows)})

    def look(self, name: str, /, **parameters: Any) -> list[tuple[Any, ...]]:
        """Run one statement that only reads; the cheapest way to ask."""
        if self.engine is Engine.POSTGRESQL:
            return self.single(name, repeatable=True, **parameters)
        return self.atomic(lambda tx: tx.rows(name, **dict(parameters)), write=False)

    async def atomic_async(self, phase: Callable[[Tx], T], *, write: bool = True, repeatable: bool = False) -> T:
        """The one door for coroutines: the same, in a thread."""
        import asyncio

        return await asyncio.to_thread(self.atomic, phase, write=write, repeatable=repeatable)

    def join(self, connection: Any) -> Tx:
        """A transaction that the caller commits: sqlite3, psycopg, SQLAlchemy's Connection or Session, or Django's.

        It is what `tx` means everywhere: `jobs.enqueue(…, tx=store.join(connection))`.

        Raises:
            JoinRefused: the connection is none of these, goes to another database, or commits each statement by itself.
            Failure: after a failover it still leads to the old leader, or the store does; to be tried again.
        """
        return self._entered(joined(connection, self.engine))

    def join_async(self, connection: Any) -> AsyncTx:
        """The same for a coroutine: SQLAlchemy's AsyncConnection or AsyncSession, or psycopg's AsyncConnection.

        It is what `tx` means to `jobs.enqueue_async`; everything else goes through `tx.run`, such as
        `await tx.run(lambda tx: job.finish(tx))`.

        Raises:
            JoinRefused: the connection is none of these; the rest is found out when it is used.
        """
        return joined_async(connection, self.engine, self.join, self._entered)

    def takes_writes(self) -> bool:
        """Whether something can be saved: a standby only shows what its leader has saved."""
        return bool(self.look("store.takes_writes")[0][0])

    def address_for(self, client: str) -> str:
        """The address of this database for a client of the user's own, `sqlalchemy` or `psycopg`.

        It leads to the server that takes writes, also after a failover, and holds the password.

        Raises:
            ValueError: the client is not known.
        """
        from holdfast.store.client_address import client_address

        return client_address(self.address, client)

    def twin(self, *, pool_max: int) -> Store:
        """The same store with connections of its own, so that nobody else can use them up; SQLite needs none."""
        if self.engine is Engine.SQLITE:
            return self
        from holdfast.store.postgresql import PostgresqlDatabase

        database = PostgresqlDatabase(self.address, pool_max=pool_max)
        other = Store(self.address, database, database_clock=self._database_clock)
        other._statements = self._statements
        return other

    def on_wake(self, tell: Callable[[], None]) -> None:
        """Call this when something was enqueued through this store."""
        self._wakes.append(tell)

    def off_wake(self, tell: Callable[[], None]) -> None:
        """No longer."""
        self._wakes.remove(tell)

    def woken(self, queue: str) -> None:  # noqa: ARG002 - listeners of this process look at all their queues
        """Something was committed to the queue."""
        for tell in self._wakes:
            tell()

    def close(self) -> None:
        """Give every connection back."""
        self._identity.close()
        self.database.close()

    def _tx(self, execute: Execute) -> Tx:
        return Tx(execute, self._statements, self.engine)

    def _entered(self, connection: Joined) -> Tx:
        tx = Tx(
            connection.execute,
            self._statements,
            self.engine,
            joined=True,
            is_open=connection.is_open,
            on_commit=connection.on_commit,
        )
        self._identity.check(tx, connection.driver)
        connection.begin()
        return tx

    def _once(self, phase: Callable[[Tx], T], *, write: bool) -> tuple[Tx, T]:
        with self.database.transaction(write=write) as execute:
            tx = self._tx(execute)
            try:
                return tx, phase(tx)
            finally:
                tx.over = True

    def _tried(self, once: Callable[[], T], *, repeatable: bool, write: bool = True) -> T:
        tries, begun_s = 0, monotonic_s()
        unknown: CommitUnknown | None = None
        while True:
            tries += 1
            try:
                return once()
            except Failure:
                raise
            except CommitUnknown as lost:
                unknown = lost
                if not repeatable or tries >= CONNECT_TRIES:
                    raise COMMIT_UNKNOWN() from lost.__cause__
            except Exception as error:
                failure = _database_failure(error, write=write)
                if failure is None:
                    raise
                limit_s = self.address.wait_s if failure.code == DATABASE_CONNECTION_ERROR.code else TRYING_S_MAX
                if tries >= _AGAIN.get(failure.code, 1) or monotonic_s() - begun_s >= limit_s:
                    # Whatever came after it, an earlier try may have been carried out.
                    raise (failure if unknown is None else COMMIT_UNKNOWN()) from error
            here = world()
            here.sleep(TRY_S * tries * (0.5 + here.dice()))


def _database_failure(error: Exception, *, write: bool) -> Failure | None:
    """The failure that a driver's error is; None for the phase's own exceptions."""
    if type(error).__module__.split(".")[0] not in {"sqlite3", "psycopg", "psycopg_pool", "sqlalchemy"}:
        return None
    failure = DEFAULT_CLASSIFIER.classify(error)
    if failure.code == DATABASE_READ_ONLY.code and not write:
        # The server is not to blame: the phase said that it only reads.
        failure.fault = DATABASE_ERROR
    return failure
