"""What the tests of credentials share: a running system on each engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.store import Store
from holdfast.testing.postgres import PostgresAddress
from holdfast_systems.credentials import tables

from .live import Live, called, running


@pytest.fixture(scope="session")
def postgres_template(postgres_template: str, postgres_server: PostgresAddress, worker_id: str) -> str:
    """What the databases of our tests are copied from has our tables: to make them takes longer than most tests."""
    name = f"credentials_template_{worker_id}"
    store = Store.open(postgres_server.create_database(name, template=postgres_template))
    tables.prepare(store)
    store.close()
    return name


@pytest.fixture
def live(store: Store, tmp_path: Path) -> Iterator[Live]:
    """Both halves, called without a server."""
    with called(store, tmp_path) as system:
        yield system


@pytest.fixture
def server(store: Store, tmp_path: Path) -> Iterator[Live]:
    """Both halves on a server, without a worker."""
    with running(store, tmp_path) as system:
        yield system
