"""What the delivery tests share: a receiver on loopback, and deliveries in virtual time on each engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.delivery import Deliveries
from holdfast.store import Store
from holdfast.testing import VirtualTime, instant
from holdfast.worker import Jobs

from .loopback import Loopback, VirtualWorker


@pytest.fixture
def receiver() -> Iterator[Loopback]:
    server = Loopback()
    yield server
    server.close()


@pytest.fixture
def time() -> Iterator[VirtualTime]:
    with instant() as virtual:
        yield virtual


@pytest.fixture
def deliveries(virtual_store: Store, time: VirtualTime) -> Iterator[Deliveries]:
    jobs = Jobs(virtual_store)
    yield Deliveries(virtual_store, jobs)
    jobs.close()


@pytest.fixture
def worker(virtual_store: Store, deliveries: Deliveries, time: VirtualTime, receiver: Loopback) -> VirtualWorker:
    from holdfast.base import world

    receiver.clock = world().wall_us  # the server's threads live outside the virtual world
    return VirtualWorker(virtual_store, deliveries, time)
