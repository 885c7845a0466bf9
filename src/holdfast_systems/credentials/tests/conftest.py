"""What the tests of credentials share: a running system on each engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.store import Store

from .live import Live, called, running


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
