"""What the tests of the console share: somebody who is inside, and jobs to look at."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.store import Store
from holdfast.worker import Jobs

from .asking import ASKED, Asker, asker


@pytest.fixture
def jobs(store: Store) -> Iterator[Jobs]:
    client = Jobs(store)
    yield client
    client.close()


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while ASKED:
        ASKED.pop().close()


@pytest.fixture
def inside(store: Store) -> Asker:
    """Somebody who has come in."""
    return asker(store).enter()
