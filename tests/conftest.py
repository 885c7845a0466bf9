"""What every test shares: the root of the checkout, and a store on each engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.store import Store
from holdfast.testing.postgres import PostgresAddress

pytest_plugins = ("holdfast.testing.pytest_postgres",)

ENGINES = ("sqlite", "postgresql")
TEMPLATE = "holdfast_template"


@pytest.fixture(scope="session")
def root() -> Path:
    """The folder that holds pyproject.toml."""
    return Path(__file__).parents[1]


@pytest.fixture(scope="session")
def postgres_fsync() -> bool:
    """Durability itself is tested on servers of their own; everything else need not wait for the disk."""
    return False


@pytest.fixture(scope="session")
def postgres_template(postgres_server: PostgresAddress, worker_id: str) -> str:
    """A database with our schema, made once for each test process and copied for each test."""
    name = f"{TEMPLATE}_{worker_id}"
    store = Store.open(postgres_server.create_database(name))
    store.migrate()
    store.close()
    return name


@pytest.fixture(params=ENGINES)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a fresh database with our schema, on each engine in turn."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'holdfast.db'}"
        store = Store.open(url)
        store.migrate()
        store.close()
        return url
    return str(request.getfixturevalue("postgres_dsn"))


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    """A store on each engine, on the database's own clock."""
    opened = Store.open(database_url)
    yield opened
    opened.close()


@pytest.fixture
def virtual_store(database_url: str) -> Iterator[Store]:
    """A store on each engine that reads the injected clock, for tests in virtual time."""
    opened = Store.open(database_url, database_clock=False)
    yield opened
    opened.close()
