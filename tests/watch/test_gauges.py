"""What stands in the tables now: queues and what keeps them, and deliveries whatever their sender is called."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.delivery import Deliveries, Reply
from holdfast.policy import Breaker
from holdfast.store import Store
from holdfast.testing.processes import wait_until
from holdfast.watch import StoreSeries, names
from holdfast.watch.alert_reading import read_rule
from holdfast.watch.gauges import Gauges
from holdfast.watch.rules_builtin import RULES
from holdfast.worker import Handlers, Jobs, Queues, QueueSettings, Worker
from holdfast.worker.breakers import SharedBreaker, Tally

BY_NAME = {rule.name: rule for rule in RULES}


def readings(store: Store, rule: str) -> dict[str, float]:
    series = StoreSeries(store, gauges=Gauges(store, remembered_s=0))
    return read_rule(BY_NAME[rule], series, series.now_us() + 1)


def shown(store: Store, metric: names.Metric) -> dict[str, float]:
    return {one.labels.get("queue", ""): one.value for one in Gauges(store).read() if one.name == metric.name}


@pytest.fixture
def jobs(store: Store) -> Iterator[Jobs]:
    found = Jobs(store)
    yield found
    found.close()


@pytest.mark.parametrize("name", ["webhook", "shop-webhook"])
def test_deliveries_are_counted_by_what_they_are_not_by_the_name_of_their_sender(
    store: Store, jobs: Jobs, name: str
) -> None:
    deliveries = Deliveries(store, jobs, name=name)
    deliveries.endpoints.add("https://example.com/hook")
    handlers = deliveries.handlers(lambda request: Reply(400, {}, b"no"))

    @handlers.handle("other")
    def other(job):
        raise ValueError("not a delivery")

    for number in range(3):
        deliveries.publish("order.paid", {"order": number})
    jobs.enqueue("other", queue=f"{name}s", attempts=1)
    jobs.enqueue("other", attempts=1)
    worker = Worker(store, handlers, queues=[deliveries.queue(), QueueSettings("default")])
    worker.start()
    try:
        wait_until(lambda: sum(shown(store, names.DEAD_LETTERS).values()) == 5, within_s=60, what="all have died")
    finally:
        worker.stop()
        worker.join()
    assert shown(store, names.WEBHOOK_DEAD) == {"": 3}
    assert shown(store, names.WEBHOOK_DEAD_LATELY) == {"": 3}
    assert shown(store, names.DEAD_LETTERS) == {f"{name}s": 4, "default": 1}


def test_a_queue_that_no_worker_serves_is_told_apart_from_one_that_is_stuck(store: Store, jobs: Jobs) -> None:
    jobs.enqueue("a", queue="served")
    jobs.enqueue("a", queue="mispelt")
    Queues(store).pause("served", "for this test")
    worker = Worker(store, Handlers(), queues=[QueueSettings("served")])
    worker.start()
    try:
        assert shown(store, names.QUEUE_WORKERS) == {"served": 1, "mispelt": 0}
        states = {one.name: one.state for one in Queues(store).status()}
        assert states == {"served": "paused", "mispelt": "no worker"}
        assert set(readings(store, "queue_without_worker")) == {"mispelt"}
        assert set(readings(store, "queue_paused_long")) == {"served"}
        assert readings(store, "queue_stuck") == {}
    finally:
        worker.stop()
        worker.join()
    assert shown(store, names.QUEUE_WORKERS) == {"served": 0, "mispelt": 0}


def test_a_queue_that_a_breaker_holds_is_not_stuck(store: Store, jobs: Jobs) -> None:
    failed = Tally(calls=4, failures=4, code="GW_5XX")
    store.atomic(lambda tx: SharedBreaker("pdf", Breaker(calls_min=4, open_s=600)).report(tx, failed))
    worker = Worker(store, Handlers(), queues=[QueueSettings("pdf", breaker=Breaker(calls_min=4, open_s=600))])
    worker.start()
    try:
        jobs.enqueue("a", queue="pdf")
        assert [one.state for one in Queues(store).status()] == ["holding"]
        assert shown(store, names.QUEUE_HELD) == {"pdf": 1}
        assert readings(store, "queue_stuck") == {}
        assert set(readings(store, "queue_held_long")) == {"pdf"}
        assert readings(store, "queue_without_worker") == {}
    finally:
        worker.stop()
        worker.join()
