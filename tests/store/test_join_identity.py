"""A connection to another database is not joined: what is written there would not commit with what is written here."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy

from holdfast.catalog import Failure
from holdfast.store import JoinRefused, Store
from holdfast.testing.postgres import PostgresServer
from holdfast.worker import Jobs


@pytest.fixture
def filed(tmp_path: Path) -> Store:
    store = Store.open(f"sqlite:///{tmp_path / 'own.db'}")
    store.migrate()
    return store


def sqlite_at(path: object) -> Any:
    return sqlite3.connect(str(path))


@pytest.mark.parametrize("migrated", [False, True])
def test_another_file_is_refused_and_both_are_named(filed: Store, tmp_path: Path, migrated: bool) -> None:
    other = tmp_path / "other.db"
    if migrated:
        with_tables = Store.open(f"sqlite:///{other}")
        with_tables.migrate()
        with_tables.close()
    connection = sqlite_at(other)
    connection.execute("CREATE TABLE t (x)")
    with pytest.raises(JoinRefused) as refused:
        Jobs(filed).enqueue("k", tx=filed.join(connection))
    assert str(other) in str(refused.value)
    assert str(tmp_path / "own.db") in str(refused.value)
    assert not connection.in_transaction, "nothing was begun on it"
    connection.close()
    filed.close()


def test_a_database_in_memory_is_refused(filed: Store) -> None:
    for connection in (
        sqlite_at(":memory:"),
        sqlite3.connect("file:x?mode=memory&cache=shared", uri=True),
        sqlite_at(""),
    ):
        with pytest.raises(JoinRefused, match="in memory"):
            filed.join(connection)
        connection.close()
    filed.close()


def test_nothing_joins_a_store_in_memory() -> None:
    store = Store.open("sqlite://")
    connection = sqlite_at(":memory:")
    with pytest.raises(JoinRefused, match="open it on a file"):
        store.join(connection)
    connection.close()
    store.close()


def test_the_same_file_by_another_path_is_welcome(
    filed: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "own.db")
    monkeypatch.chdir(tmp_path)
    for path in ("own.db", "link.db", f"../{tmp_path.name}/own.db"):
        connection = sqlite_at(path)
        filed.join(connection)
        connection.close()
    assert os.getcwd() == str(tmp_path)
    filed.close()


def test_another_database_of_the_same_server_is_refused_without_a_password(postgres_dsn: str, emptied_dsn: str) -> None:
    with_password = emptied_dsn.replace("postgres@", "postgres:hunter2@")
    assert "hunter2" in with_password
    store, other = Store.open(with_password), postgres_dsn
    engine = sqlalchemy.create_engine(other.replace("postgresql://", "postgresql+psycopg://"))
    with psycopg.connect(other) as connection, engine.connect() as theirs:
        for joined in (connection, theirs):
            with pytest.raises(JoinRefused) as refused:
                Jobs(store).enqueue("k", tx=store.join(joined))
            said = str(refused.value)
            assert other.rsplit("/", 1)[1] in said
            assert emptied_dsn.rsplit("/", 1)[1] in said
            assert "hunter2" not in said
    engine.dispose()
    store.close()


def test_the_same_database_by_another_name_of_the_server_is_welcome(emptied_dsn: str) -> None:
    store = Store.open(emptied_dsn)
    with psycopg.connect(emptied_dsn.replace("127.0.0.1", "localhost")) as connection:
        Jobs(store).enqueue("k", tx=store.join(connection))
    assert len(Jobs(store).list()) == 1
    store.close()


def test_the_database_is_asked_once_for_each_connection(emptied_dsn: str) -> None:
    store = Store.open(emptied_dsn)
    asked: list[str] = []
    with psycopg.connect(emptied_dsn) as connection:
        store.join(connection)

        class Counting(psycopg.Cursor[Any]):
            def execute(self, query: Any, *args: Any, **kwargs: Any) -> Any:
                asked.append(str(query))
                return super().execute(query, *args, **kwargs)

        connection.cursor_factory = Counting
        store.join(connection)
        connection.commit()
        store.join(connection)
    assert asked == []
    store.close()


def test_another_search_path_that_finds_no_tables_of_ours_is_refused(emptied_dsn: str) -> None:
    store = Store.open(emptied_dsn)
    wanted = r"holdfast_job.*search_path.*schema="
    with (
        psycopg.connect(emptied_dsn, options="-csearch_path=pg_temp") as connection,
        pytest.raises(JoinRefused, match=wanted),
    ):
        store.join(connection)
    store.close()


SESSIONS = "SELECT pid FROM pg_stat_activity WHERE application_name = 'holdfast' ORDER BY pid"


def test_a_copy_of_the_server_and_a_server_that_was_restarted_are_told_apart(tmp_path: Path) -> None:
    with PostgresServer.start(tmp_path / "primary") as primary:
        dsn = primary.create_database("shop")
        store = Store.open(dsn)
        store.migrate()
        with psycopg.connect(dsn) as connection:
            store.join(connection)
        with primary.standby(tmp_path / "copy") as copy:
            sessions = primary.execute(SESSIONS)
            with psycopg.connect(copy.dsn("shop")) as connection, pytest.raises(Failure):
                store.join(connection)
            assert sessions
            assert sessions == primary.execute(SESSIONS), "a standby is no reason to connect anew"
            copy.promote()
            with psycopg.connect(copy.dsn("shop")) as connection, pytest.raises(Failure) as refused:
                store.join(connection)
            # After a failover one of both may still lead to the old leader: it is worth another try.
            assert (refused.value.status, refused.value.retryable) == (503, True)
            assert all(f"'shop' at 127.0.0.1:{server.port}" in str(refused.value) for server in (primary, copy))
        primary.restart()
        with psycopg.connect(dsn) as connection:
            store.join(connection)
        store.close()
