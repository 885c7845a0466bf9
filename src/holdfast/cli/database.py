"""The database that a command works on, and the door through which every command goes: it opens the store, closes it
again, and turns whatever goes wrong into one line and an exit code."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from holdfast.base import Private
from holdfast.catalog import Failure
from holdfast.catalog.classify import DEFAULT_CLASSIFIER
from holdfast.cli.faults import DATABASE_NOT_FOUND, DATABASE_UNUSABLE, DRIVER_MISSING, SCHEMA_OUTDATED
from holdfast.cli.output import be_tolerant, explain, refuse, want_json
from holdfast.cli.state import DATA_VARIABLE, DATABASE_FILE, DEFAULT_DATA, database_of
from holdfast.store import AddressInvalid, Engine, Store, read_address
from holdfast.store.address import ENVIRONMENT_VARIABLE

DRIVERS = {"psycopg", "psycopg_pool"}
UNDEFINED = {"42P01", "42703"}
"""PostgreSQL's words for a table and a column that do not exist."""
UNUSABLE = ("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_NOTADB", "SQLITE_PERM", "SQLITE_CORRUPT")
"""What SQLite says of a file that nobody can use until somebody mends it."""
UNREACHED = "Check the address, and that the server runs and lets you in; then try again."

DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="URL",
        envvar=ENVIRONMENT_VARIABLE,
        help=f"sqlite:///path or postgresql://user@host/name; without it {DATABASE_FILE} in {DATA_VARIABLE}, "
        f"or in ./{DEFAULT_DATA}.",
        show_default=False,
    ),
]
AsJson = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print JSON, one document on each line, instead of text; errors too, beside the answer.",
        show_default=False,
        is_eager=True,
        callback=want_json,
    ),
]


@contextmanager
def opened(url: str | None, *, create: bool = False) -> Iterator[Store]:
    """The store at this address, for one command; only some commands may make a database that is not there."""
    with explained():
        store = _open(url, create=create)
        try:
            yield store
        except Failure as failure:
            if not _holds(failure, "sqlite", UNUSABLE):
                raise
            raise DATABASE_UNUSABLE(address=str(store.address), problem=str(failure.__cause__)) from None
        finally:
            store.close()


@contextmanager
def explained() -> Iterator[None]:
    """Turn whatever goes wrong inside into one line and an exit code."""
    be_tolerant()
    try:
        yield
    except AddressInvalid as invalid:
        raise refuse(str(invalid)) from None
    except Failure as failure:
        raise explain(SCHEMA_OUTDATED() if _outdated(failure) else failure) from None
    except ModuleNotFoundError as missing:
        if missing.name not in DRIVERS:
            raise
        raise explain(DRIVER_MISSING(module=missing.name)) from None


def _open(url: str | None, *, create: bool) -> Store:
    # The same rule as for `holdfast serve`: both are to use one database.
    url = url or database_of(Path(os.environ.get(DATA_VARIABLE) or DEFAULT_DATA), os.environ.get(ENVIRONMENT_VARIABLE))
    address = read_address(url)
    # SQLite would make an empty file out of a misspelt path.
    if address.engine is Engine.SQLITE and not create and not Path(address.target).is_file():
        raise DATABASE_NOT_FOUND(address=str(address))
    try:
        store = Store.open(url)
    except OSError as refused:
        raise DATABASE_UNUSABLE(address=str(address), problem=refused.strerror or str(refused)) from None
    _reach(store)
    return store


def _reach(store: Store) -> None:
    """Connect once, to say at once and exactly what is wrong; a pool would only say that it waited in vain."""
    if store.engine is not Engine.POSTGRESQL:
        return
    from holdfast.store.postgresql import PostgresqlDatabase

    assert isinstance(store.database, PostgresqlDatabase)
    try:
        store.database.connect().close()
    except ModuleNotFoundError:
        raise
    except Exception as error:
        failure = DEFAULT_CLASSIFIER.classify(error)
        # A service connects again by itself; a command has ended by then.
        failure.fault = replace(failure.fault, remedy=UNREACHED)
        raise failure from error


def _outdated(failure: Failure) -> bool:
    missing = str(failure.__cause__).startswith(("no such table:", "no such column:"))
    return missing or _holds(failure, "sqlstate", tuple(UNDEFINED))


def _holds(failure: Failure, detail: str, beginnings: tuple[str, ...]) -> bool:
    """Whether the database's own word begins with one of these; SQLite adds details to its words."""
    held = failure.details.get(detail)
    return isinstance(held, Private) and str(held.value).startswith(beginnings)
