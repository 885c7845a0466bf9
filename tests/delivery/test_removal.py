"""An endpoint that is removed gets nothing more, and what was under way to it is not lost without a trace."""

from __future__ import annotations

import pytest

from holdfast.catalog import Failure
from holdfast.delivery import Deliveries, UndeliveredFilter
from holdfast.delivery.endpoints import SUBJECT
from holdfast.delivery.known import FRESH_S
from holdfast.store import Store
from holdfast.testing import VirtualTime

from .loopback import Loopback, VirtualWorker


def test_a_removed_endpoint_is_gone_with_its_secrets_and_journalled(
    deliveries: Deliveries, virtual_store: Store
) -> None:
    endpoint = deliveries.endpoints.add("https://example.com/hook")
    deliveries.endpoints.remove(endpoint.id, reason="the customer left")
    with pytest.raises(Failure, match="ENDPOINT_NOT_FOUND"):
        deliveries.endpoints.show(endpoint.id)
    assert deliveries.publish("order.paid", {}).endpoint_ids == ()
    journal = deliveries.jobs.history(SUBJECT + endpoint.id)
    assert [(row["verb"], row["reason"]) for row in journal] == [("added", None), ("removed", "the customer left")]
    left = virtual_store.atomic(lambda tx: tx.rows("delivery.secrets", endpoint_id=endpoint.id), write=False)
    assert left == []


def test_what_was_under_way_is_not_sent_and_stands_among_the_undelivered(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback
) -> None:
    endpoint = deliveries.endpoints.add(receiver.url)
    kept = deliveries.endpoints.add(receiver.url + "/kept")
    event = deliveries.publish("order.paid", {})
    deliveries.endpoints.remove(endpoint.id)
    worker.run()
    assert [got.path for got in receiver.got] == ["/kept"]
    (undelivered,) = deliveries.undelivered.list().events
    assert (undelivered.event_id, undelivered.endpoint_id) == (event.id, endpoint.id)
    assert undelivered.error_code == "ENDPOINT_NOT_FOUND"
    with pytest.raises(Failure, match="ENDPOINT_REMOVED"):
        deliveries.undelivered.replay(event.id)
    with pytest.raises(Failure, match="ENDPOINT_NOT_FOUND"):
        deliveries.undelivered.replay_all(UndeliveredFilter(endpoint_id=endpoint.id))
    assert deliveries.endpoints.show(kept.id).enabled


def test_a_worker_that_has_just_seen_it_sends_nothing_more_after_a_second(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback, time: VirtualTime
) -> None:
    endpoint = deliveries.endpoints.add(receiver.url)
    deliveries.publish("order.paid", "before")
    worker.run()
    for number in range(20):
        deliveries.publish("order.paid", number)
    deliveries.endpoints.remove(endpoint.id)
    time.advance(FRESH_S)
    worker.run()
    assert [got.data for got in receiver.got] == ["before"]
    assert deliveries.undelivered.count() == 20


def test_only_what_is_there_can_be_removed(deliveries: Deliveries) -> None:
    with pytest.raises(Failure, match="ENDPOINT_NOT_FOUND"):
        deliveries.endpoints.remove("ep_nobody")
    endpoint = deliveries.endpoints.add("https://example.com/hook")
    with pytest.raises(Failure, match="BAD_REQUEST"):
        deliveries.endpoints.remove(endpoint.id, reason="x" * 501)
    assert deliveries.endpoints.show(endpoint.id).enabled
