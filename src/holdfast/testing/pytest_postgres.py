"""pytest fixtures: one PostgreSQL server for the whole run, also under xdist, and a fresh database for each test.

Use them with `pytest_plugins = ("holdfast.testing.pytest_postgres",)` in the topmost `conftest.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.base import REAL
from holdfast.testing.postgres import PostgresAddress
from holdfast.testing.postgres_shared import shared_postgres


@pytest.fixture(scope="session")
def postgres_fsync() -> bool:
    """Whether the server of the run waits for the disk; override it with False for speed."""
    return True


@pytest.fixture(scope="session")
def postgres_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, postgres_fsync: bool
) -> Iterator[PostgresAddress]:
    """The server that all workers of this run share."""
    base = tmp_path_factory.getbasetemp()
    # A worker of xdist has a folder of its own inside that of the run.
    root = base.parent if hasattr(request.config, "workerinput") else base
    with shared_postgres(root, fsync=postgres_fsync) as address:
        yield address


@pytest.fixture(scope="session")
def postgres_template() -> str:
    """The database that fresh ones are copied from; override it with one that has your tables."""
    return "template1"


@pytest.fixture
def postgres_dsn(postgres_server: PostgresAddress, postgres_template: str) -> Iterator[str]:
    """The DSN of a database that is this test's alone."""
    name = f"test_{REAL.token_bytes(8).hex()}"
    yield postgres_server.create_database(name, template=postgres_template)
    postgres_server.drop_database(name)
