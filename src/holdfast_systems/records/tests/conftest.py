"""What the tests of records share: the system on each engine, called without a server or served by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from holdfast.store import Store
from holdfast.testing.postgres import PostgresAddress
from holdfast_systems.records import tables

from .live import Live, called

Make = Callable[..., Live]


@pytest.fixture(scope="session")
def postgres_template(postgres_template: str, postgres_server: PostgresAddress, worker_id: str) -> str:
    """What the databases of our tests are copied from has our tables: to make them takes longer than most tests."""
    name = f"records_template_{worker_id}"
    store = Store.open(postgres_server.create_database(name, template=postgres_template))
    tables.prepare(store)
    store.close()
    return name


@pytest.fixture
def make(store: Store, tmp_path: Path) -> Iterator[Make]:
    """The system with these settings, on each engine, called without a server."""
    with ExitStack() as stack:
        yield lambda **settings: stack.enter_context(called(store, tmp_path / "records", **settings))


@pytest.fixture
def live(make: Make) -> Live:
    """The system with its defaults."""
    return make()


@pytest.fixture
def solo(tmp_path: Path) -> Iterator[Live]:
    """The system on one engine, for what does not depend on it."""
    store = Store.open(f"sqlite:///{tmp_path / 'alone.db'}")
    store.migrate()
    with called(store, tmp_path / "records") as system:
        yield system
    store.close()
