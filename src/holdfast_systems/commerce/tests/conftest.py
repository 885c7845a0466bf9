"""What the tests of commerce share: the system on each engine, called without a server or served on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.store import Store

from .live import Live, called, running


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
