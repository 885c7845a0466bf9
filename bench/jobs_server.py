"""One PostgreSQL server for the whole run, the same for all, and a fresh database for each measurement."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from unittest.mock import patch

import psycopg

from bench.jobs_process import ask, cpu_s
from holdfast.testing import postgres

SETTINGS = {"shared_buffers": "256MB", "max_wal_size": "4GB"}
"""What differs from the server's defaults; `fsync` and `synchronous_commit` are on."""


class Bench:
    """Databases on the server: prepared and filled once for each contender, then copied."""

    def __init__(self, server: postgres.PostgresServer) -> None:
        self.server = server
        self._numbers = count(1)
        self._templates: dict[tuple[str, int], str] = {}
        self._unfinished: dict[str, str] = {}

    @contextmanager
    def database(self, contender: str, jobs: int = 0) -> Iterator[str]:
        """The address of a database that holds this many jobs and nothing else; dropped when the block ends.

        Raises:
            Unavailable: the contender cannot be run.
        """
        template = self._template(contender, jobs)
        name = f"run_{next(self._numbers)}"
        address = self.server.create_database(name, template=template)
        self.server.execute("CHECKPOINT")  # so that nobody pays for the writes of others
        try:
            yield address
        finally:
            self.server.drop_database(name)

    def forget(self, contender: str, jobs: int) -> None:
        """Give the place of a filled template back."""
        self.server.drop_database(self._templates.pop((contender, jobs)))

    @contextmanager
    def asking(self, address: str) -> Iterator[psycopg.Connection[tuple[int]]]:
        with psycopg.connect(address, autocommit=True) as connection:
            yield connection

    def unfinished(self, contender: str, connection: psycopg.Connection[tuple[int]]) -> int:
        row = connection.execute(self._unfinished[contender].encode()).fetchone()
        assert row is not None
        return int(row[0])

    def backends_s(self, database: str) -> float:
        """CPU time that the connections to a database have used so far, on the server's side."""
        found = self.server.execute(f"SELECT pid FROM pg_stat_activity WHERE datname = '{database}'")
        return sum(cpu_s(int(pid)) for (pid,) in found)

    def _template(self, contender: str, jobs: int) -> str:
        if (contender, jobs) not in self._templates:
            name = f"template_{contender}_{jobs}"
            self.server.drop_database(name)  # of an attempt that failed half-way
            address = self.server.create_database(name)
            self._unfinished[contender] = ask(contender, "prepare", address)["unfinished"]
            if jobs:
                ask(contender, "fill", address, jobs)
            with psycopg.connect(address, autocommit=True) as connection:
                connection.execute("VACUUM (ANALYZE)")
            self._templates[contender, jobs] = name
        return self._templates[contender, jobs]


@contextmanager
def bench_server(parent: Path) -> Iterator[Bench]:
    """A server of our own, ended and deleted when the block ends."""
    with tempfile.TemporaryDirectory(dir=parent, prefix="postgres-") as folder:
        with patch.dict(postgres.SETTINGS, SETTINGS):
            server = postgres.PostgresServer.start(Path(folder))
        with server:
            yield Bench(server)
