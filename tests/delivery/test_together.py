"""Publishing at the same time: one transaction for many, and still everybody for himself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from holdfast.base import Limits, replaced, world
from holdfast.catalog import Failure, continued, current_context, enriched
from holdfast.delivery import Deliveries, NewEvent, Published
from holdfast.store import Store
from holdfast.worker import Jobs

T = TypeVar("T")
COUNT = 30


@pytest.fixture
def publishing(store: Store) -> Iterator[Deliveries]:
    jobs = Jobs(store)
    deliveries = Deliveries(store, jobs)
    deliveries.endpoints.add("https://example.com/hook")
    yield deliveries
    jobs.close()


def at_once(deliveries: Deliveries, work: Callable[[int], T]) -> list[T]:
    """Let so many threads publish so that all but the first share a transaction."""
    combiner: Any = deliveries._together._combiner
    flush, gate, sizes = combiner._flush, threading.Event(), []

    def held(items: Any) -> Any:
        sizes.append(len(items))
        while len(sizes) == 1 and len(combiner._pending) < COUNT - 1:
            gate.wait(0.001)
        return flush(items)

    combiner._flush = held
    try:
        with ThreadPoolExecutor(COUNT) as threads:
            return list(threads.map(work, range(COUNT)))
    finally:
        combiner._flush = flush
        assert sizes == [1, COUNT - 1]


def test_each_event_stays_in_the_trace_of_its_own_caller(publishing: Deliveries) -> None:
    def work(number: int) -> tuple[Published, str]:
        with enriched(**continued(None)):
            return publishing.publish("order.paid", number), current_context().traceparent

    made = at_once(publishing, work)
    assert len({traceparent for _, traceparent in made}) == COUNT
    for event, traceparent in made:
        (delivery,) = publishing.history(event.id).deliveries
        assert publishing.jobs.show(delivery.job_id)["trace"] == traceparent


def test_an_id_that_is_taken_concerns_nobody_else(publishing: Deliveries) -> None:
    publishing.publish("order.paid", "the first", id="taken")

    def work(number: int) -> str:
        try:
            return publishing.publish("order.paid", number, id="taken" if number == 7 else f"evt_{number}").id
        except Failure as failure:
            return failure.code

    told = at_once(publishing, work)
    assert sorted(told) == sorted([f"evt_{number}" for number in range(COUNT) if number != 7] + ["EVENT_ID_TAKEN"])
    for name in told:
        if name != "EVENT_ID_TAKEN":
            assert len(publishing.history(name).deliveries) == 1


def test_the_same_event_from_many_is_published_once(publishing: Deliveries) -> None:
    made = at_once(publishing, lambda _: publishing.publish("order.paid", {}, id="one"))
    assert sum(one.created for one in made) == 1
    assert len(publishing.history("one").deliveries) == 1


def test_more_deliveries_than_one_call_may_enqueue_are_enqueued_all_the_same(publishing: Deliveries) -> None:
    for _ in range(2):
        publishing.endpoints.add("https://example.com/another")
    with replaced(replace(world(), limits=Limits(enqueue_batch_max=10))):
        made = publishing.publish_many([NewEvent("order.paid", number) for number in range(9)])
    assert [len(publishing.history(one.id).deliveries) for one in made] == [3] * 9
