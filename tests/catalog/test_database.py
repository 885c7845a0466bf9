"""Database errors, made by real statements where a database is at hand."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import psycopg
import psycopg.errors
import psycopg_pool
import pytest
import sqlalchemy
import sqlalchemy.exc
import sqlalchemy.pool

from holdfast.base import plain
from holdfast.catalog import Failure
from holdfast.catalog.classify import DEFAULT_CLASSIFIER
from holdfast.catalog.database import sqlite_fault

classify = DEFAULT_CLASSIFIER.classify


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "test.db"


@pytest.fixture
def database(path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path, isolation_level=None, timeout=0)
    connection.executescript(
        """
        PRAGMA foreign_keys = ON;
        CREATE TABLE person (id INTEGER PRIMARY KEY, email TEXT UNIQUE, age INTEGER NOT NULL CHECK (age > 0));
        CREATE TABLE slot (code TEXT PRIMARY KEY, person INTEGER REFERENCES person) WITHOUT ROWID;
        INSERT INTO person VALUES (1, 'a@example.com', 30);
        INSERT INTO slot VALUES ('CEO', 1);
        """
    )
    yield connection
    connection.close()


def failed(connection: sqlite3.Connection, statement: str) -> Failure:
    with pytest.raises(sqlite3.Error) as raised:
        connection.execute(statement)
    failure = classify(raised.value)
    assert failure.__cause__ is raised.value
    return failure


# -- SQLite, by real statements --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "code", "name"),
    [
        ("INSERT INTO person VALUES (2, 'a@example.com', 30)", "DUPLICATE_RECORD", "SQLITE_CONSTRAINT_UNIQUE"),
        ("INSERT INTO person VALUES (1, 'b@example.com', 30)", "DUPLICATE_RECORD", "SQLITE_CONSTRAINT_PRIMARYKEY"),
        ("INSERT INTO slot VALUES ('CEO', 1)", "DUPLICATE_RECORD", "SQLITE_CONSTRAINT_PRIMARYKEY"),
        ("INSERT INTO slot VALUES ('CFO', 9)", "CONSTRAINT_VIOLATED", "SQLITE_CONSTRAINT_FOREIGNKEY"),
        ("INSERT INTO person VALUES (2, 'b@example.com', NULL)", "CONSTRAINT_VIOLATED", "SQLITE_CONSTRAINT_NOTNULL"),
        ("INSERT INTO person VALUES (2, 'b@example.com', -1)", "CONSTRAINT_VIOLATED", "SQLITE_CONSTRAINT_CHECK"),
        ("SELECT nothing FROM nowhere", "DATABASE_ERROR", "SQLITE_ERROR"),
    ],
)
def test_a_refused_statement_becomes_a_generic_code(
    database: sqlite3.Connection, statement: str, code: str, name: str
) -> None:
    failure = failed(database, statement)
    assert (failure.code, failure.details["sqlite"].value) == (code, name)
    assert failure.retryable is False


def test_a_database_that_another_writer_holds_is_a_rollback_and_retryable(
    database: sqlite3.Connection, path: Path
) -> None:
    other = sqlite3.connect(path, isolation_level=None, timeout=0)
    database.execute("BEGIN IMMEDIATE")
    failure = failed(other, "BEGIN IMMEDIATE")
    other.close()
    assert (failure.code, failure.retryable) == ("TRANSACTION_ROLLED_BACK", True)


def test_a_stale_snapshot_is_a_rollback(database: sqlite3.Connection, path: Path) -> None:
    database.execute("PRAGMA journal_mode = WAL")
    other = sqlite3.connect(path, isolation_level=None, timeout=0)
    other.execute("BEGIN")
    other.execute("SELECT * FROM person").fetchall()
    database.execute("UPDATE person SET age = 31")
    failure = failed(other, "UPDATE person SET age = 32")
    other.close()
    assert (failure.code, failure.details["sqlite"].value) == ("TRANSACTION_ROLLED_BACK", "SQLITE_BUSY_SNAPSHOT")


def test_a_full_database_is_storage_full_and_may_be_tried_again(database: sqlite3.Connection) -> None:
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    database.execute(f"PRAGMA max_page_count = {pages}")
    failure = failed(database, "INSERT INTO person VALUES (2, hex(zeroblob(100000)), 30)")
    assert (failure.code, failure.retryable) == ("STORAGE_FULL", True)


def test_a_file_that_is_no_database_is_a_database_error(path: Path) -> None:
    path.write_bytes(b"this is not a database, whatever its name says" * 20)
    connection = sqlite3.connect(path)
    failure = failed(connection, "SELECT * FROM sqlite_master")
    connection.close()
    assert (failure.code, failure.details["sqlite"].value) == ("DATABASE_ERROR", "SQLITE_NOTADB")


def test_a_database_that_cannot_be_opened_is_a_connection_error(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError) as raised:
        sqlite3.connect(tmp_path / "missing" / "test.db")
    failure = classify(raised.value)
    assert (failure.code, failure.retryable) == ("DATABASE_CONNECTION_ERROR", True)


def test_an_interrupted_statement_is_a_timeout(database: sqlite3.Connection) -> None:
    database.set_progress_handler(lambda: 1, 1)
    assert failed(database, "SELECT * FROM person").code == "DATABASE_TIMEOUT"


def test_a_closed_connection_is_a_database_error() -> None:
    connection = sqlite3.connect(":memory:")
    connection.close()
    assert failed(connection, "SELECT 1").code == "DATABASE_ERROR"


@pytest.mark.parametrize(
    ("result_code", "code"),
    [
        (5, "TRANSACTION_ROLLED_BACK"),
        (5 | 1 << 8, "TRANSACTION_ROLLED_BACK"),  # SQLITE_BUSY_RECOVERY
        (6 | 1 << 8, "TRANSACTION_ROLLED_BACK"),  # SQLITE_LOCKED_SHAREDCACHE
        (10 | 4 << 8, "DATABASE_CONNECTION_ERROR"),  # SQLITE_IOERR_FSYNC
        (19 | 10 << 8, "DUPLICATE_RECORD"),  # SQLITE_CONSTRAINT_ROWID
        (19 | 7 << 8, "CONSTRAINT_VIOLATED"),  # SQLITE_CONSTRAINT_TRIGGER
        (11, "DATABASE_ERROR"),  # SQLITE_CORRUPT
        (8, "DATABASE_ERROR"),  # SQLITE_READONLY
    ],
)
def test_an_extended_result_code_is_read_by_itself_or_by_its_primary_code(result_code: int, code: str) -> None:
    assert sqlite_fault(result_code).code == code


# -- PostgreSQL ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sqlstate", "code", "retryable"),
    [
        ("08000", "DATABASE_CONNECTION_ERROR", True),
        ("08006", "DATABASE_CONNECTION_ERROR", True),
        ("57P01", "DATABASE_CONNECTION_ERROR", True),
        ("57P02", "DATABASE_CONNECTION_ERROR", True),
        ("57P03", "DATABASE_CONNECTION_ERROR", True),
        ("53300", "DATABASE_POOL_EXHAUSTED", True),
        ("40001", "TRANSACTION_ROLLED_BACK", True),
        ("40P01", "TRANSACTION_ROLLED_BACK", True),
        ("55P03", "TRANSACTION_ROLLED_BACK", True),
        ("57014", "DATABASE_TIMEOUT", True),
        ("53100", "STORAGE_FULL", True),
        ("23505", "DUPLICATE_RECORD", False),
        ("23503", "CONSTRAINT_VIOLATED", False),
        ("23514", "CONSTRAINT_VIOLATED", False),
        ("23P01", "CONSTRAINT_VIOLATED", False),
        ("42P01", "DATABASE_ERROR", False),
        ("22012", "DATABASE_ERROR", False),
        ("57P04", "DATABASE_ERROR", False),
    ],
)
def test_a_sqlstate_becomes_a_generic_code(sqlstate: str, code: str, retryable: bool) -> None:
    failure = classify(psycopg.errors.lookup(sqlstate)('relation "person" says no'))
    assert (failure.code, failure.retryable) == (code, retryable)
    assert failure.details["sqlstate"].value == sqlstate
    assert 'relation "person" says no' in failure.details["original"].value
    assert plain(failure.details) == {}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (psycopg.OperationalError("connection failed: server closed the connection"), "DATABASE_CONNECTION_ERROR"),
        (psycopg.errors.ConnectionTimeout("connection timeout expired"), "DATABASE_CONNECTION_ERROR"),
        (psycopg.ProgrammingError("the query has 1 placeholder but 2 were passed"), "DATABASE_ERROR"),
        (psycopg.InterfaceError("the cursor is closed"), "DATABASE_ERROR"),
        (psycopg_pool.PoolTimeout("couldn't get a connection after 1.00 sec"), "DATABASE_POOL_EXHAUSTED"),
        (psycopg_pool.TooManyRequests("the pool has already 3 requests waiting"), "DATABASE_POOL_EXHAUSTED"),
        (psycopg_pool.PoolClosed("the pool is already closed"), "DATABASE_ERROR"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else value,
)
def test_a_psycopg_error_without_a_sqlstate_is_read_by_its_type(error: BaseException, code: str) -> None:
    assert classify(error).code == code


def test_a_server_that_is_not_there_is_a_connection_error_and_retryable(tmp_path: Path) -> None:
    with pytest.raises(psycopg.OperationalError) as raised:
        psycopg.connect(host=str(tmp_path), dbname="nowhere")
    failure = classify(raised.value)
    assert (failure.code, failure.retryable) == ("DATABASE_CONNECTION_ERROR", True)
    assert str(tmp_path) not in failure.message


@pytest.mark.parametrize("part", ["sqlstate", "pgcode"])
def test_other_drivers_hold_the_sqlstate_under_names_of_their_own(part: str) -> None:
    base = type("Error", (Exception,), {"__module__": "psycopg2"})
    kind = type("UniqueViolation", (base,), {"__module__": "psycopg2.errors", part: "23505"})
    assert classify(kind()).code == "DUPLICATE_RECORD"


@pytest.mark.parametrize(
    "error",
    [
        sqlite3.OperationalError("no such table: queue"),
        psycopg.errors.lookup("42P01")('relation "queue" does not exist'),
        sqlalchemy.exc.OperationalError("SELECT 1", {}, sqlite3.OperationalError("no such table: queue")),
    ],
    ids=["sqlite", "postgresql", "sqlalchemy"],
)
def test_a_missing_table_is_told_with_the_remedy_in_the_traceback(error: Exception) -> None:
    failure = classify(error)
    assert failure.code == "DATABASE_ERROR"
    assert "store.migrate()" in failure.__notes__[0]
    assert not hasattr(classify(sqlite3.OperationalError("near x: syntax error")), "__notes__")


# -- SQLAlchemy ------------------------------------------------------------------------------------------------


def test_sqlalchemy_is_read_by_the_drivers_error_inside(path: Path) -> None:
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        connection.exec_driver_sql("CREATE TABLE person (email TEXT UNIQUE)")
        connection.exec_driver_sql("INSERT INTO person VALUES ('a@example.com')")
        with pytest.raises(sqlalchemy.exc.IntegrityError) as raised:
            connection.exec_driver_sql("INSERT INTO person VALUES ('a@example.com')")
    engine.dispose()
    failure = classify(raised.value)
    assert (failure.code, failure.__cause__) == ("DUPLICATE_RECORD", raised.value)
    assert plain(failure.details) == {}


def test_sqlalchemy_over_postgresql_is_read_by_the_sqlstate() -> None:
    inner = psycopg.errors.lookup("40001")("could not serialize access")
    failure = classify(sqlalchemy.exc.OperationalError("UPDATE person", {}, inner))
    assert (failure.code, failure.details["sqlstate"].value) == ("TRANSACTION_ROLLED_BACK", "40001")


def test_sqlalchemys_exhausted_pool_is_pool_exhaustion_and_no_network_timeout(path: Path) -> None:
    engine = sqlalchemy.create_engine(
        f"sqlite:///{path}", poolclass=sqlalchemy.pool.QueuePool, pool_size=1, max_overflow=0, pool_timeout=0.001
    )
    with engine.connect(), pytest.raises(sqlalchemy.exc.TimeoutError) as raised:
        engine.connect()
    engine.dispose()
    failure = classify(raised.value)
    assert (failure.code, failure.retryable) == ("DATABASE_POOL_EXHAUSTED", True)
