"""How database errors are read: SQLSTATE and SQLite result codes become generic faults.

What the database said is kept in the details as `Private`: for the log, never for the person.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from holdfast.base import Private, limits
from holdfast.catalog.core import (
    CONSTRAINT_VIOLATED,
    DATABASE_CONNECTION_ERROR,
    DATABASE_ERROR,
    DATABASE_POOL_EXHAUSTED,
    DATABASE_READ_ONLY,
    DATABASE_TIMEOUT,
    DUPLICATE_RECORD,
    STORAGE_FULL,
    TRANSACTION_ROLLED_BACK,
)
from holdfast.catalog.failure import UNREACHABLE, Failure
from holdfast.catalog.fault import Fault

if TYPE_CHECKING:
    from holdfast.catalog.classify import Readings

SQLSTATE_FAULTS: Mapping[str, Fault] = {
    "08": DATABASE_CONNECTION_ERROR,
    "57P01": DATABASE_CONNECTION_ERROR,  # admin_shutdown
    "57P02": DATABASE_CONNECTION_ERROR,  # crash_shutdown
    "57P03": DATABASE_CONNECTION_ERROR,  # cannot_connect_now
    "57P05": DATABASE_CONNECTION_ERROR,  # idle_session_timeout
    "53300": DATABASE_POOL_EXHAUSTED,  # too_many_connections
    "53100": STORAGE_FULL,  # disk_full
    "25006": DATABASE_READ_ONLY,  # read_only_sql_transaction
    "40000": TRANSACTION_ROLLED_BACK,  # transaction_rollback
    "40001": TRANSACTION_ROLLED_BACK,  # serialization_failure
    "40P01": TRANSACTION_ROLLED_BACK,  # deadlock_detected
    "55P03": TRANSACTION_ROLLED_BACK,  # lock_not_available
    "57014": DATABASE_TIMEOUT,  # query_canceled
    "23505": DUPLICATE_RECORD,  # unique_violation
    "23": CONSTRAINT_VIOLATED,
}
"""By the five characters, else by the first two."""

SQLITE_FAULTS: Mapping[int, Fault] = {
    5: TRANSACTION_ROLLED_BACK,  # SQLITE_BUSY
    6: TRANSACTION_ROLLED_BACK,  # SQLITE_LOCKED
    9: DATABASE_TIMEOUT,  # SQLITE_INTERRUPT
    10: DATABASE_CONNECTION_ERROR,  # SQLITE_IOERR
    13: STORAGE_FULL,  # SQLITE_FULL
    14: DATABASE_CONNECTION_ERROR,  # SQLITE_CANTOPEN
    19: CONSTRAINT_VIOLATED,  # SQLITE_CONSTRAINT
    1555: DUPLICATE_RECORD,  # SQLITE_CONSTRAINT_PRIMARYKEY
    2067: DUPLICATE_RECORD,  # SQLITE_CONSTRAINT_UNIQUE
    2579: DUPLICATE_RECORD,  # SQLITE_CONSTRAINT_ROWID
}
"""By the extended result code, else by the primary one (its low byte)."""


def sqlstate_fault(sqlstate: str) -> Fault:
    """The fault of a SQLSTATE; DATABASE_ERROR when the table does not name it."""
    return SQLSTATE_FAULTS.get(sqlstate) or SQLSTATE_FAULTS.get(sqlstate[:2], DATABASE_ERROR)


def sqlite_fault(result_code: int) -> Fault:
    """The fault of a SQLite result code; DATABASE_ERROR when the table does not name it."""
    return SQLITE_FAULTS.get(result_code) or SQLITE_FAULTS.get(result_code & 0xFF, DATABASE_ERROR)


def read_sqlstate(error: BaseException) -> Failure:
    """An error of a PostgreSQL driver, by its SQLSTATE; without one, an operational error is a lost connection."""
    sqlstate = sqlstate_of(error)
    if sqlstate is not None:
        return _occurrence(sqlstate_fault(sqlstate), error, sqlstate=Private(sqlstate))
    lost = any(kind.__name__ == "OperationalError" for kind in type(error).__mro__)
    return _occurrence(DATABASE_CONNECTION_ERROR if lost else DATABASE_ERROR, error)


def read_sqlite(error: BaseException) -> Failure:
    """An error of SQLite, by its result code; errors of the driver itself have none."""
    result_code = getattr(error, "sqlite_errorcode", None)
    if not isinstance(result_code, int):
        return _occurrence(DATABASE_ERROR, error)
    name = getattr(error, "sqlite_errorname", str(result_code))
    return _occurrence(sqlite_fault(result_code), error, sqlite=Private(name))


def read_orig(error: BaseException) -> Failure:
    """An error of SQLAlchemy, by the driver's error that it holds."""
    held = getattr(error, "orig", None)
    if not isinstance(held, BaseException):
        return _occurrence(DATABASE_ERROR, error)
    if any(kind.__module__ == "sqlite3" for kind in type(held).__mro__):
        return read_sqlite(held)
    return read_sqlstate(held)


def sqlstate_of(error: BaseException) -> str | None:
    """The five characters as psycopg, asyncpg (`sqlstate`) or psycopg2 (`pgcode`, `diag`) hold them."""
    held: tuple[object, ...] = (
        getattr(error, "sqlstate", None),
        getattr(error, "pgcode", None),
        getattr(getattr(error, "diag", None), "sqlstate", None),
    )
    return next((text for text in held if isinstance(text, str) and len(text) == SQLSTATE_CHARS), None)


UNOPENED = frozenset({"SQLITE_CANTOPEN", "SQLITE_NOTADB"})
"""What SQLite says of a file that it cannot use."""
SQLSTATE_CHARS = 5
TABLE_MISSING_SQLSTATE = "42P01"
TABLE_MISSING_SQLITE = "OperationalError: no such table: "
TABLE_MISSING_HINT = (
    "holdfast: a table is missing; if it is one of ours, call store.migrate() or run `holdfast migrate` first"
)
"""The first mistake everybody makes. A note stands in the traceback, and in no answer."""

DATABASE_READINGS: Readings = {
    "psycopg.Error": read_sqlstate,
    "psycopg2.Error": read_sqlstate,
    "asyncpg.PostgresError": read_sqlstate,
    "asyncpg.InterfaceError": read_sqlstate,
    "psycopg_pool.PoolTimeout": lambda error: _occurrence(DATABASE_POOL_EXHAUSTED, error),
    "psycopg_pool.TooManyRequests": lambda error: _occurrence(DATABASE_POOL_EXHAUSTED, error),
    # A closed pool stays closed: trying again cannot help.
    "psycopg_pool.PoolClosed": lambda error: _occurrence(DATABASE_ERROR, error),
    "sqlite3.Error": read_sqlite,
    "sqlalchemy.exc.DBAPIError": read_orig,
    "sqlalchemy.exc.TimeoutError": lambda error: _occurrence(DATABASE_POOL_EXHAUSTED, error),
}
"""What Holdfast knows about database errors, by name."""


def _occurrence(fault: Fault, error: BaseException, **facts: Private[str]) -> Failure:
    original = f"{type(error).__name__}: {error}"[: limits().message_chars_max]
    details: dict[str, Private[str]] = {"original": Private(original), **facts}
    if fault is DATABASE_CONNECTION_ERROR or getattr(error, "sqlite_errorname", "") in UNOPENED:
        from holdfast.base import redacted_text  # loaded when a database is away

        details[UNREACHABLE] = Private(redacted_text(original))
    failure = Failure(fault, details=details)
    if sqlstate_of(error) == TABLE_MISSING_SQLSTATE or original.startswith(TABLE_MISSING_SQLITE):
        failure.add_note(TABLE_MISSING_HINT)
    return failure
