"""What the tests of commerce share: the system on each engine, called without a server or served on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.store import Store
from holdfast.testing.postgres import PostgresAddress
from holdfast_systems.commerce import tables

from .live import Live, called, running


@pytest.fixture(scope="session")
def postgres_template(postgres_template: str, postgres_server: PostgresAddress, worker_id: str) -> str:
    """What the databases of our tests are copied from has our tables: to make them takes longer than most tests."""
    name = f"commerce_template_{worker_id}"
    store = Store.open(postgres_server.create_database(name, template=postgres_template))
    tables.prepare(store)
    store.close()
    return name


@pytest.fixture
def live(store: Store, tmp_path: Path) -> Iterator[Live]:
    """The applications, called without a server: for tests of one service that calls no other."""
    with called(store, tmp_path / "commerce") as live:
        yield live


@pytest.fixture
def served(store: Store, tmp_path: Path) -> Iterator[Live]:
    """All services on one free port with stand-ins and a worker."""
    with running(store, tmp_path / "commerce") as live:
        yield live
