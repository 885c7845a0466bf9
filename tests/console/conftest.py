"""What the tests of the console share: somebody who is inside, and jobs to look at."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.store import Store
from holdfast.worker import Jobs

from .asking import Asker, asker


@pytest.fixture
def jobs(store: Store) -> Iterator[Jobs]:
    client = Jobs(store)
    yield client
    client.close()


@pytest.fixture
def inside(store: Store) -> Iterator[Asker]:
    """Somebody who has come in."""
    visitor = asker(store).enter()
    yield visitor
    visitor.console.close()
