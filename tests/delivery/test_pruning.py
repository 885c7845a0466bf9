"""Pruning: a worker's own run deletes what everybody has got, and forgets lines in which nobody stands."""

from __future__ import annotations

import threading
from contextvars import copy_context

import pytest

from holdfast.catalog import Failure
from holdfast.delivery import Deliveries
from holdfast.store import Engine, Store, Tx
from holdfast.testing import VirtualTime
from holdfast.worker import Retention
from holdfast.worker.retention import DAY_S

from .loopback import Loopback, Say, VirtualWorker


def lines(store: Store) -> list[tuple[str, int]]:
    def phase(tx: Tx) -> list[tuple[str, int]]:
        rows = tx._execute(
            "SELECT order_key, position FROM holdfast_webhook_sequence ORDER BY order_key", {}
        ).fetchall()
        return [(key, position) for key, position in rows]

    return store.atomic(phase, write=False)


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


def test_a_line_is_forgotten_when_nobody_stands_in_it(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback, time: VirtualTime, virtual_store: Store
) -> None:
    deliveries.endpoints.add(receiver.url, ordered=True)
    receiver.answers["/"].append(Say(404))
    for key in ("dead", "done", "done", "going on"):
        deliveries.publish("order.changed", key, key=key)
        worker.run()
    time.advance(100)
    deliveries.publish("order.changed", "again", key="going on")
    assert deliveries.prune(older_s=50) == 3
    assert lines(virtual_store) == [("dead", 1), ("going on", 2)]
    deliveries.publish("order.changed", "anew", key="done")
    worker.run()
    assert [got.data for got in receiver.got][-2:] == ["again", "anew"]
    assert lines(virtual_store) == [("dead", 1), ("done", 1), ("going on", 2)]


def test_a_line_that_somebody_joins_at_that_moment_stays(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback, time: VirtualTime, virtual_store: Store
) -> None:
    if virtual_store.engine is Engine.SQLITE:
        pytest.skip("SQLite has one writer at a time")
    deliveries.endpoints.add(receiver.url, ordered=True)
    deliveries.publish("order.changed", 1, key="k")
    worker.run()
    time.advance(100)
    context = copy_context()  # the virtual world goes along
    pruning = threading.Thread(target=lambda: context.run(deliveries.prune, older_s=50))

    def join(tx: Tx) -> None:
        deliveries.publish("order.changed", 2, key="k", tx=tx)
        pruning.start()  # it waits for this transaction at the line's row
        pruning.join(0.3)
        assert pruning.is_alive()

    virtual_store.atomic(join)
    pruning.join()
    assert lines(virtual_store) == [("k", 2)]
