"""One PostgreSQL server for several processes, such as the workers of one test run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from holdfast.testing.postgres import PostgresAddress, PostgresServer
from holdfast.testing.postgres_files import PostgresBroken
from holdfast.testing.shared_server import SharedServerBroken, shared_server

FOLDER = "shared-postgres"


@contextmanager
def shared_postgres(root: Path, *, fsync: bool = True) -> Iterator[PostgresAddress]:
    """The server that all users of the folder share; it ends when the last of them leaves the block.

    Args:
        fsync: as the first of them says, so it is.

    Raises:
        PostgresBroken: the server did not start.
    """
    start = durable if fsync else hasty
    with ExitStack() as block:
        try:
            port = block.enter_context(shared_server(root / FOLDER, f"{__name__}.{start.__name__}"))
        except SharedServerBroken as broken:
            raise PostgresBroken(str(broken)) from None
        yield PostgresAddress(int(port))


@contextmanager
def durable(folder: Path) -> Iterator[str]:
    """A server whose acknowledged commits are on disk; the text is its port."""
    with PostgresServer.start(folder) as server:
        yield str(server.port)


@contextmanager
def hasty(folder: Path) -> Iterator[str]:
    """A server that does not wait for the disk; the text is its port."""
    with PostgresServer.start(folder, fsync=False) as server:
        yield str(server.port)
