"""A store behind a proxy with faults, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.store import Store
from holdfast.testing.postgres import PostgresAddress
from holdfast.testing.proxy import FaultProxy


@pytest.fixture
def proxy(postgres_server: PostgresAddress) -> Iterator[FaultProxy]:
    with FaultProxy(postgres_server.port) as running:
        yield running


@pytest.fixture
def behind(proxy: FaultProxy, emptied_dsn: str) -> Iterator[Store]:
    """A store that reaches its database through the proxy."""
    store = Store.open(PostgresAddress(proxy.port).dsn(emptied_dsn.rsplit("/", 1)[1]))
    yield store
    proxy.heal()
    store.close()
