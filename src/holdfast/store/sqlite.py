"""SQLite: one writer connection per process, taken in turn, and readers that are handed round.

WAL mode with `synchronous=FULL`: an acknowledgement means on disk. Threads of one process queue for the writer here,
so they never meet SQLite's own lock; between processes that lock is waited for, patiently.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.base import monotonic_s, world
from holdfast.base.private_files import make_file, make_folder, open_to_others
from holdfast.catalog.core import TRANSACTION_ROLLED_BACK
from holdfast.store.database import Cursor, Execute, Follow, Parameters
from holdfast.store.statements import Engine

log = logging.getLogger("holdfast.store")

BUSY_S = 30.0
"""Maximum time that a process waits for the transaction of another one."""
STEP_S = 0.002
"""Between two looks at a lock that another process holds; SQLite's own waits grow to 100 ms and starve the unlucky."""
STATEMENTS_CACHED = 512
"""Maximum number of prepared statements of a connection: those for many rows are prepared in several sizes."""
MEMORY = ":memory:"
VERSION_MIN = (3, 38, 0)


class SqliteDatabase:
    """The connections of this process to one file."""

    engine = Engine.SQLITE
    _open: list[sqlite3.Connection]
    _readers: list[sqlite3.Connection]
    _writer: sqlite3.Connection | None
    _watcher: sqlite3.Connection | None

    def __init__(self, path: str) -> None:
        if sqlite3.sqlite_version_info < VERSION_MIN:
            raise RuntimeError(f"SQLite {sqlite3.sqlite_version} is too old; Holdfast needs 3.38 or later")
        self._path = path
        self._closed = False
        self._inherited: list[object] = []
        self._begin_empty()
        if path != MEMORY:
            self._make_private()

    def _make_private(self) -> None:
        """Make the file for its owner alone, and so its write-ahead log too; one that was there stays as it is."""
        make_folder(Path(self._path).parent)
        make_file(self._path)
        if open_to_others(self._path):
            log.warning("other users of this machine may open the database %s; chmod 600 closes it", self._path)

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[Execute]:
        self._forget_after_fork()
        if write or self._path == MEMORY:
            with self._turn:
                yield from self._inside(self._write_connection(), "BEGIN IMMEDIATE")
        else:
            with self._reader() as connection:
                yield from self._inside(connection, "BEGIN")

    @contextmanager
    def single(self, *, within_s: float | None = None) -> Iterator[Execute]:  # noqa: ARG002 - no server that hangs
        with self.transaction(write=True) as execute:
            yield execute

    def put(self, text: str, parameters: Parameters, then: Follow | None = None) -> bool:  # noqa: ARG002 - left out
        self._forget_after_fork()
        with self._turn:
            connection = self._write_connection()
            _refuse_open(connection)
            # By itself it is a transaction; to begin and to end one costs as much again as to insert a row.
            _patiently(connection, text, parameters)
        return False

    async def run_async(self, text: str, parameters: Mapping[str, Any]) -> None:  # noqa: ARG002 - it would block
        return None

    @contextmanager
    def script(self, statements: list[str]) -> Iterator[Execute]:
        with self.transaction(write=True) as execute:
            for statement in statements:
                execute(statement, {})
            yield execute

    def changes(self) -> int:
        """A number that differs when another connection has committed; cheap enough to look at often."""
        self._forget_after_fork()
        with self._watching:
            if self._watcher is None:
                self._watcher = self._connect()
            return int(self._watcher.execute("PRAGMA data_version").fetchone()[0])

    def leave(self) -> None:
        """There is one file, and no other server."""

    def on_other_server(self, tell: Callable[[], None]) -> None:
        """It does not happen."""

    def close(self) -> None:
        with self._turn, self._watching:
            self._closed = True
            for connection in self._open:
                connection.close()
            self._begin_empty()

    def _begin_empty(self) -> None:
        self._turn = threading.RLock()
        self._watching = threading.Lock()
        self._open = []
        self._readers = []
        self._writer = None
        self._watcher = None
        self._process = os.getpid()

    def _inside(self, connection: sqlite3.Connection, begin: str) -> Iterator[Execute]:
        _refuse_open(connection)
        try:
            _patiently(connection, begin)
            yield executor_on(connection)
            _patiently(connection, "COMMIT")
        except BaseException:
            _roll_back(connection)
            raise

    def _write_connection(self) -> sqlite3.Connection:
        if self._writer is None:
            self._writer = self._connect()
        return self._writer

    @contextmanager
    def _reader(self) -> Iterator[sqlite3.Connection]:
        """A connection that nobody else uses meanwhile; there are as many as ever read at the same time."""
        readers = self._readers
        try:
            connection = readers.pop()
        except IndexError:
            connection = self._connect()
            connection.execute("PRAGMA query_only=ON")
        try:
            yield connection
        finally:
            readers.append(connection)

    def _forget_after_fork(self) -> None:
        # A connection must not be carried over a fork, nor even be closed there; a lock may have been held by a
        # thread that the child does not have. The child begins anew and lets the old ones lie.
        if self._process != os.getpid():
            self._inherited.append((self._open, self._turn, self._watching))
            self._begin_empty()

    def _connect(self) -> sqlite3.Connection:
        if self._closed:
            raise sqlite3.ProgrammingError("the store is closed")
        connection = sqlite3.connect(
            self._path,
            isolation_level=None,
            check_same_thread=False,
            timeout=BUSY_S,
            cached_statements=STATEMENTS_CACHED,
        )
        for pragma in ("synchronous=FULL", "foreign_keys=ON", "temp_store=MEMORY", "cache_size=-65536"):
            connection.execute(f"PRAGMA {pragma}")
        if self._path != MEMORY:
            _patiently(connection, "PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA busy_timeout=0")
        self._open.append(connection)
        return connection


def executor_on(connection: sqlite3.Connection) -> Execute:
    """Statements on one connection, also on one of the user's; rows are plain tuples."""

    def execute(text: str, parameters: Parameters) -> Cursor:
        cursor = connection.cursor()
        cursor.row_factory = None
        return cursor.execute(text, parameters)

    return execute


def _refuse_open(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        raise sqlite3.ProgrammingError("this thread has a transaction open already: hand its Tx on instead")


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def _patiently(connection: sqlite3.Connection, text: str, parameters: Parameters = ()) -> None:
    """Run a statement that may find the file locked by another process; it has done nothing then."""
    give_up_s = monotonic_s() + BUSY_S
    while True:
        try:
            connection.execute(text, parameters)
            return
        except sqlite3.OperationalError as busy:
            if busy.sqlite_errorcode & 0xFF not in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
                raise
            if monotonic_s() >= give_up_s:
                # Said as a failure, so that nobody begins the whole wait again.
                raise TRANSACTION_ROLLED_BACK() from busy
        here = world()
        here.sleep(STEP_S * (0.5 + here.dice()))
