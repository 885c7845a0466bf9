"""The same database for the user's own engine: the server that takes writes, with several hosts too."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from holdfast.store import Store
from holdfast.store.address import CONNECTING
from holdfast.testing.postgres import PostgresServer, multi_host_dsn

IN_RECOVERY = "SELECT pg_is_in_recovery()"


def test_the_engine_of_the_user_finds_the_server_that_takes_writes(tmp_path: Path) -> None:
    with (
        PostgresServer.start(tmp_path / "primary", fsync=False) as primary,
        primary.standby(tmp_path / "standby", synchronous=False) as standby,
    ):
        store = Store.open(multi_host_dsn([standby, primary]).partition("?")[0])
        engine = sa.create_engine(store.address_for("sqlalchemy"))
        with engine.connect() as connection:
            assert connection.execute(sa.text(IN_RECOVERY)).scalar() is False
        engine.dispose()
        with psycopg.connect(store.address_for("psycopg")) as own:
            assert own.execute(IN_RECOVERY).fetchone() == (False,)
        store.close()


def test_a_password_and_the_options_arrive_whole() -> None:
    store = Store.open(
        "postgresql://us%40er:p%2F%3A%40ss@db.internal:6432/shop?sslmode=require&schema=s&connect_timeout=2"
    )
    url = sa.make_url(store.address_for("sqlalchemy"))
    assert (url.username, url.password, url.host, url.port, url.database) == (
        "us@er", "p/:@ss", "db.internal", 6432, "shop",
    )  # fmt: skip
    usual = {name: str(value) for name, value in CONNECTING.items()}
    assert dict(url.query) == {**usual, "sslmode": "require", "connect_timeout": "2"}
    store.close()


def test_sqlite_is_named_by_its_file(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path / 'shop.db'}")
    store.migrate()
    engine = sa.create_engine(store.address_for("sqlalchemy"))
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT count(*) FROM holdfast_job")).scalar() == 0
    engine.dispose()
    store.close()


def test_an_unknown_client_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(ValueError, match="psycopg and sqlalchemy"):
        Store.open("sqlite://").address_for("mysql")
