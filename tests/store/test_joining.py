"""A job enqueued inside the user's own transaction commits and rolls back with the user's own write."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
import sqlalchemy
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from holdfast.store import Engine, JoinRefused, Store
from holdfast.worker import Jobs, NewJob

Writes = Callable[[str], Any]


class Own:
    """A connection of the user's, with the one write that goes beside the job."""

    def __init__(self, connection: Any, write: Writes, end: Callable[[], None]) -> None:
        self.connection = connection
        self.write = write
        self.end = end


def path(url: str) -> str:
    return url.removeprefix("sqlite:///")


def driver(url: str) -> Own:
    """sqlite3's or psycopg's own connection, as they come."""
    connection: Any = sqlite3.connect(path(url)) if url.startswith("sqlite") else psycopg.connect(url)
    return Own(connection, lambda text: connection.execute(f"INSERT INTO invoice VALUES ('{text}')"), connection.close)


def core(url: str) -> Own:
    engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    connection = engine.connect()

    def end() -> None:
        connection.close()
        engine.dispose()

    return Own(connection, lambda text: connection.exec_driver_sql(f"INSERT INTO invoice VALUES ('{text}')"), end)


def session(url: str) -> Own:
    engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    own = Session(engine)

    def end() -> None:
        own.close()
        engine.dispose()

    return Own(own, lambda text: own.execute(sqlalchemy.text(f"INSERT INTO invoice VALUES ('{text}')")), end)


@pytest.fixture
def ledgered(store: Store) -> Store:
    """A store beside a table of the user's own."""
    with store.database.script(["CREATE TABLE invoice (number TEXT)"]):
        pass
    return store


@pytest.fixture(params=[driver, core, session], ids=["driver", "sqlalchemy", "session"])
def own(request: pytest.FixtureRequest, ledgered: Store, database_url: str) -> Iterator[Own]:
    opened: Own = request.param(database_url)
    yield opened
    opened.end()


def stored(store: Store) -> tuple[int, ...]:
    """How many invoices and jobs there are."""
    with store.database.transaction(write=False) as execute:
        return tuple(
            execute(f"SELECT count(*) FROM {table}", {}).fetchall()[0][0] for table in ("invoice", "holdfast_job")
        )


def test_the_job_commits_with_the_users_own_write(ledgered: Store, own: Own) -> None:
    jobs = Jobs(ledgered)
    own.write("A-1")
    made = jobs.enqueue("invoice.send", {"number": "A-1"}, tx=ledgered.join(own.connection))
    assert made.created
    assert stored(ledgered) == (0, 0)
    own.connection.commit()
    assert stored(ledgered) == (1, 1)
    assert jobs.show(made.id)["state"] == "queued"


def test_the_job_rolls_back_with_the_users_own_write(ledgered: Store, own: Own) -> None:
    own.write("A-1")
    Jobs(ledgered).enqueue("invoice.send", tx=ledgered.join(own.connection))
    own.connection.rollback()
    assert stored(ledgered) == (0, 0)


def test_the_job_may_come_first(ledgered: Store, own: Own) -> None:
    Jobs(ledgered).enqueue("invoice.send", tx=ledgered.join(own.connection))
    own.write("A-1")
    own.connection.rollback()
    assert stored(ledgered) == (0, 0)
    Jobs(ledgered).enqueue("invoice.send", tx=ledgered.join(own.connection))
    own.write("A-2")
    own.connection.commit()
    assert stored(ledgered) == (1, 1)


def test_a_twin_is_found_inside_the_users_transaction(ledgered: Store, own: Own) -> None:
    tx = ledgered.join(own.connection)
    first, second = Jobs(ledgered).enqueue_many(
        [NewJob(kind="k", dedupe_key="d"), NewJob(kind="k", dedupe_key="d")], tx=tx
    )
    assert (first.created, second.created) == (True, False)
    assert second.id == first.id
    own.connection.commit()
    assert stored(ledgered) == (0, 1)


def test_rows_of_the_users_own_shape_do_no_harm(ledgered: Store, database_url: str) -> None:
    own = driver(database_url)
    if ledgered.engine is Engine.SQLITE:
        own.connection.row_factory = sqlite3.Row
    else:
        own.connection.row_factory = psycopg.rows.dict_row
    jobs = Jobs(ledgered)
    first = jobs.enqueue("k", dedupe_key="d", tx=ledgered.join(own.connection))
    assert jobs.enqueue("k", dedupe_key="d", tx=ledgered.join(own.connection)).id == first.id
    own.connection.commit()
    own.end()
    assert stored(ledgered) == (0, 1)


def test_a_scoped_session_is_joined_too(ledgered: Store, database_url: str) -> None:
    engine = sqlalchemy.create_engine(database_url.replace("postgresql://", "postgresql+psycopg://"))
    sessions = scoped_session(sessionmaker(engine))
    Jobs(ledgered).enqueue("k", tx=ledgered.join(sessions))
    assert stored(ledgered) == (0, 0)
    sessions.commit()
    sessions.remove()
    engine.dispose()
    assert stored(ledgered) == (0, 1)


def test_a_subclass_of_the_drivers_connection_is_joined_too(ledgered: Store, database_url: str) -> None:
    connection: Any
    if ledgered.engine is Engine.SQLITE:
        kind: Any = type("Mine", (sqlite3.Connection,), {})
        connection = sqlite3.connect(path(database_url), factory=kind)
    else:
        kind = type("Mine", (psycopg.Connection,), {})
        connection = kind.connect(database_url)
    Jobs(ledgered).enqueue("k", tx=ledgered.join(connection))
    connection.commit()
    connection.close()
    assert stored(ledgered) == (0, 1)


# -- what is refused -------------------------------------------------------------------------------------------------


def autocommitting(url: str) -> Any:
    if url.startswith("sqlite"):
        return sqlite3.connect(path(url), isolation_level=None)
    return psycopg.connect(url, autocommit=True)


def test_a_connection_that_commits_each_statement_is_refused_and_told_what_to_do(
    ledgered: Store, database_url: str
) -> None:
    connection = autocommitting(database_url)
    with pytest.raises(JoinRefused, match=r"autocommit mode.*(BEGIN|transaction)"):
        ledgered.join(connection)
    connection.close()
    assert stored(ledgered) == (0, 0)


def test_inside_a_transaction_the_same_connection_is_welcome(ledgered: Store, database_url: str) -> None:
    connection = autocommitting(database_url)
    connection.execute("BEGIN")
    tx = ledgered.join(connection)
    Jobs(ledgered).enqueue("k", tx=tx)
    connection.execute("ROLLBACK")
    assert stored(ledgered) == (0, 0)
    with pytest.raises(JoinRefused, match="autocommit"):
        Jobs(ledgered).enqueue("k", tx=tx)
    connection.close()
    assert stored(ledgered) == (0, 0)


def test_sqlalchemys_autocommit_is_refused(ledgered: Store, database_url: str) -> None:
    engine = sqlalchemy.create_engine(
        database_url.replace("postgresql://", "postgresql+psycopg://"), isolation_level="AUTOCOMMIT"
    )
    with engine.connect() as connection, pytest.raises(JoinRefused, match="AUTOCOMMIT"):
        ledgered.join(connection)
    with Session(engine) as own_session, pytest.raises(JoinRefused, match="AUTOCOMMIT"):
        ledgered.join(own_session)
    engine.dispose()


def test_a_connection_of_another_engine_is_refused(store: Store, emptied_dsn: str) -> None:
    memory = sqlalchemy.create_engine("sqlite://")
    if store.engine is Engine.SQLITE:
        others: list[Any] = [psycopg.connect(emptied_dsn)]
    else:
        others = [sqlite3.connect(":memory:"), memory.connect(), Session(memory)]
    for connection in others:
        with pytest.raises(JoinRefused, match=f"on a {store.engine} store"):
            store.join(connection)
        connection.close()
    memory.dispose()


@pytest.mark.parametrize("stranger", [None, "sqlite:///x", object(), 7])
def test_anything_else_is_refused_with_what_is_accepted(stranger: object) -> None:
    store = Store.open("sqlite://")
    with pytest.raises(JoinRefused, match=r"sqlite3 or psycopg connection, SQLAlchemy.*django"):
        store.join(stranger)
    store.close()


async def test_an_async_connection_is_refused_with_the_way_round(emptied_dsn: str) -> None:
    store = Store.open(emptied_dsn)
    async with await psycopg.AsyncConnection.connect(emptied_dsn) as connection:
        with pytest.raises(JoinRefused, match=r"synchronously.*join_async.*run_sync"):
            store.join(connection)
    store.close()
