"""What the crash tests share: a database with room for effects, a fleet of processes, and a seed that is told."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from .accounts import make_effect_table
from .fleet import Fleet

SEED_VARIABLE = "HOLDFAST_CRASH_SEED"


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    """Chance whose seed is printed when the test fails; set HOLDFAST_CRASH_SEED to meet it again."""
    seed = int(os.environ.get(SEED_VARIABLE) or random.SystemRandom().randrange(2**32))
    request.node.add_report_section("setup", "seed", f"{SEED_VARIABLE}={seed}")
    return random.Random(seed)


@pytest.fixture
def fleet(database_url: str, tmp_path: Path) -> Iterator[Fleet]:
    """Processes on a fresh database, on each engine in turn."""
    yield from _fleet(tmp_path, database_url)


@pytest.fixture
def postgres_fleet(postgres_dsn: str, tmp_path: Path) -> Iterator[Fleet]:
    """Processes on a fresh database of PostgreSQL."""
    yield from _fleet(tmp_path, postgres_dsn)


def _fleet(folder: Path, url: str) -> Iterator[Fleet]:
    make_effect_table(url)
    fleet = Fleet(folder, url)
    try:
        yield fleet
    finally:
        fleet.close()
