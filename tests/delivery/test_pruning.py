"""Pruning: a worker's own run deletes what everybody has got."""

from __future__ import annotations

import pytest

from holdfast.catalog import Failure
from holdfast.delivery import Deliveries
from holdfast.store import Store
from holdfast.testing import VirtualTime
from holdfast.worker import Retention
from holdfast.worker.retention import DAY_S

from .loopback import Loopback, VirtualWorker


def test_the_workers_own_run_prunes_delivered_events_after_a_week(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback, time: VirtualTime, virtual_store: Store
) -> None:
    deliveries.endpoints.add(receiver.url)
    event = deliveries.publish("order.paid", {})
    worker.run()
    time.advance(6 * DAY_S)
    assert Retention().prune(virtual_store).others == {}
    time.advance(2 * DAY_S)
    assert Retention(others_s={"webhook events": None}).prune(virtual_store).others == {}
    assert Retention().prune(virtual_store).others == {"webhook events": 1}
    with pytest.raises(Failure, match="EVENT_NOT_FOUND"):
        deliveries.history(event.id)


def test_a_run_is_bounded_and_says_that_there_is_more(
    deliveries: Deliveries, time: VirtualTime, virtual_store: Store
) -> None:
    for _ in range(5):
        deliveries.publish("order.paid", {})  # nobody wants them
    time.advance(8 * DAY_S)
    runs = [Retention(batch_rows=2, batches_max=1).prune(virtual_store) for _ in range(4)]
    assert [(run.others.get("webhook events", 0), run.more) for run in runs] == [
        (2, True),
        (2, True),
        (1, False),
        (0, False),
    ]
