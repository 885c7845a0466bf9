"""Several `Deliveries` on one store: what each has for itself, and what they share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from holdfast.catalog import Failure
from holdfast.delivery import Deliveries, UndeliveredFilter
from holdfast.delivery.publishing import channel
from holdfast.store import Store
from holdfast.testing import VirtualTime
from holdfast.worker import Jobs
from holdfast.worker.dead import Progress

from .loopback import Loopback, Say, VirtualWorker, post


@pytest.fixture
def billing(virtual_store: Store, time: VirtualTime) -> Iterator[Deliveries]:
    jobs = Jobs(virtual_store)
    yield Deliveries(virtual_store, jobs, name="billing-webhook")
    jobs.close()


def test_the_queue_and_the_kind_follow_from_the_name(deliveries: Deliveries, billing: Deliveries) -> None:
    for made, queue, kind in (
        (deliveries, "webhooks", "webhook.deliver"),
        (billing, "billing-webhooks", "billing-webhook.deliver"),
    ):
        made.endpoints.add("http://127.0.0.1:1/", tenant=kind)
        made.publish("order.paid", {}, tenant=kind)
        (job,) = made.jobs.list(queue=queue)
        assert (job["kind"], job["tenant"], made.queue().name) == (kind, kind, queue)


def test_one_worker_serves_both(deliveries: Deliveries, billing: Deliveries) -> None:
    handlers = billing.handlers(post, into=deliveries.handlers(post))
    assert len(handlers) == 2
    with pytest.raises(ValueError, match="has a handler already"):
        billing.handlers(post, into=handlers)


def test_each_delivers_and_replays_its_own(
    deliveries: Deliveries, billing: Deliveries, receiver: Loopback, virtual_store: Store, time: VirtualTime
) -> None:
    for made, tenant in ((deliveries, "/usual"), (billing, "/billing")):
        made.endpoints.add(receiver.url + tenant, tenant=tenant, ordered=True)
        receiver.always[tenant] = Say(400)
        for number in range(2):
            made.publish("order.paid", number, tenant=tenant, key="one line")
    VirtualWorker(virtual_store, billing, time).run()
    assert Counter(got.path for got in receiver.got) == {"/billing": 2}
    assert (deliveries.undelivered.count(), billing.undelivered.count()) == (0, 2)
    VirtualWorker(virtual_store, deliveries, time).run()
    assert (deliveries.undelivered.count(), billing.undelivered.count()) == (2, 2)
    receiver.always.clear()
    receiver.got.clear()
    assert billing.undelivered.replay_all(UndeliveredFilter()) == Progress(total=2, done=2)
    VirtualWorker(virtual_store, billing, time).run()
    assert Counter(got.path for got in receiver.got) == {"/billing": 2}
    assert (deliveries.undelivered.count(), billing.undelivered.count()) == (2, 0)


def test_endpoints_and_events_are_the_stores(deliveries: Deliveries, billing: Deliveries) -> None:
    endpoint = deliveries.endpoints.add("http://127.0.0.1:1/")
    event = billing.publish("order.paid", {"order": 7})
    assert event.endpoint_ids == (endpoint.id,)
    assert deliveries.history(event.id).payload == {"order": 7}
    assert deliveries.publish("order.paid", {"order": 7}, id=event.id).created is False
    with pytest.raises(Failure, match="EVENT_ID_TAKEN"):
        deliveries.publish("order.paid", {"order": 8}, id=event.id)


@pytest.mark.parametrize("name", ["", "a b", "a.b", "a\n", "a" * 65, "é"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not a name for deliveries"):
        channel(name)
