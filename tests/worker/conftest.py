"""What the tests of jobs share: a client, handlers, and workers that are stopped when the test ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdfast.store import Store
from holdfast.worker import Handlers, Jobs, QueueSettings, Worker
from holdfast.worker import heart as heart_module

PATIENCE_S = 30.0
"""So long anything may take on a busy machine; nothing waits so long when all is well."""
LEASE_S = 60.0
"""So long workers may stand still without losing what they hold."""
LOOK_S = 0.05
"""So often workers look after cancels and time limits: often, with a lease that a busy machine cannot miss."""


@pytest.fixture
def jobs(store: Store) -> Iterator[Jobs]:
    client = Jobs(store)
    yield client
    client.close()


@pytest.fixture
def handlers() -> Handlers:
    return Handlers()


@pytest.fixture
def work(store: Store, handlers: Handlers, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Worker]]:
    """Start a worker for these handlers; it is stopped with the test."""
    monkeypatch.setattr(heart_module, "REST_S", LOOK_S)
    started: list[Worker] = []

    def begin(*, concurrency: int = 4, queue: str = "default", grace_s: float = 10.0, **settings: Any) -> Worker:
        settings.setdefault("store", store)
        settings.setdefault("lease_s", LEASE_S)
        settings.setdefault("queues", [QueueSettings(queue, concurrency=concurrency)])
        worker = Worker(settings.pop("store"), handlers, grace_s=grace_s, **settings)
        worker.start()
        started.append(worker)
        return worker

    yield begin
    for worker in started:
        worker.stop()
    for worker in started:
        assert worker.join(2 * PATIENCE_S), "the worker does not stop"
