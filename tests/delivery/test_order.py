"""Order: at an endpoint that asks for it, events of one key are sent one after the other, each when the last ended."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from holdfast.delivery import Deliveries, NewEvent, UndeliveredFilter
from holdfast.delivery.endpoint import SCHEDULE_S
from holdfast.store import Store
from holdfast.testing import VirtualTime
from holdfast.testing.processes import wait_until
from holdfast.worker import Jobs, Worker

from .loopback import Loopback, Say, VirtualWorker, post


def told(receiver: Loopback) -> list[Any]:
    """The payloads in the order of their arrival."""
    return [got.data for got in receiver.got]


def test_the_next_event_of_a_key_waits_until_the_one_before_has_come_through(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback
) -> None:
    deliveries.endpoints.add(receiver.url, ordered=True)
    receiver.answers["/"].extend([Say(500), Say(500)])
    for number in range(4):
        deliveries.publish("order.changed", number, key="order-7")
    worker.run()
    assert told(receiver) == [0, 0, 0, 1, 2, 3]
    assert deliveries.undelivered.count() == 0


def test_an_event_that_is_given_up_lets_the_next_one_through(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback
) -> None:
    deliveries.endpoints.add(receiver.url, ordered=True)
    receiver.answers["/"].extend([Say(500)] * (len(SCHEDULE_S) + 1) + [Say(400)])
    for number in range(3):
        deliveries.publish("order.changed", number, key="order-7")
    worker.run()
    assert told(receiver) == [0] * 5 + [1, 2]
    assert deliveries.undelivered.count() == 2


def test_an_event_that_is_cancelled_in_the_middle_lets_nobody_overtake(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback
) -> None:
    deliveries.endpoints.add(receiver.url, ordered=True)
    receiver.answers["/"].extend([Say(500), Say(500), Say(500)])
    made = [deliveries.publish("order.changed", number, key="order-7") for number in range(4)]
    worker.turn()
    for event in made[1:3]:
        (delivery,) = deliveries.history(event.id).deliveries
        assert deliveries.jobs.cancel(delivery.job_id)
    worker.run()
    assert told(receiver) == [0, 0, 0, 0, 3]


def test_other_keys_other_endpoints_and_events_without_a_key_do_not_wait(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback
) -> None:
    deliveries.endpoints.add(receiver.url, ordered=True)
    deliveries.endpoints.add(receiver.url + "/other", ordered=True)
    receiver.always["/"] = Say(500)
    deliveries.publish("order.changed", "stuck", key="order-7")
    worker.turn()
    receiver.always["/"] = Say(200)
    deliveries.publish("order.changed", "next", key="order-7")
    deliveries.publish("order.changed", "another key", key="order-8")
    deliveries.publish("order.changed", "no key")
    worker.turn()
    assert [got.data for got in receiver.at("/")] == ["stuck", "another key", "no key"]
    assert [got.data for got in receiver.at("/other")] == ["stuck", "next", "another key", "no key"]


def test_an_endpoint_that_did_not_ask_for_order_gets_everything_at_once(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback
) -> None:
    deliveries.endpoints.add(receiver.url)
    receiver.answers["/"].append(Say(500))
    for number in range(3):
        deliveries.publish("order.changed", number, key="order-7")
    worker.turn()
    assert told(receiver) == [0, 1, 2]


def test_the_next_one_is_called_the_moment_the_one_before_comes_through(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback
) -> None:
    deliveries.endpoints.add(receiver.url, ordered=True)
    receiver.answers["/"].append(Say(500))
    for number in range(2):
        deliveries.publish("order.changed", number, key="order-7")
    worker.run()
    assert [got.at_us - receiver.got[0].at_us for got in receiver.got] == [0, 1_000_000, 1_000_000]


def test_waiting_in_line_spends_no_attempts(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback, time: VirtualTime
) -> None:
    deliveries.endpoints.add(receiver.url, ordered=True, delays_s=[600])
    receiver.answers["/"].append(Say(500))
    deliveries.publish("order.changed", 0, key="k")
    second = deliveries.publish("order.changed", 1, key="k")
    worker.run(700)
    (delivery,) = deliveries.history(second.id).deliveries
    assert (delivery.state, delivery.attempts, told(receiver)) == ("complete", 1, [0, 0, 1])


def test_events_that_are_replayed_come_after_all_that_wait_in_their_old_order(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback
) -> None:
    deliveries.endpoints.add(receiver.url, ordered=True)
    receiver.answers["/"].extend([Say(400), Say(400)])
    for number in range(2):
        deliveries.publish("order.changed", number, key="k")
    worker.run()
    receiver.answers["/"].append(Say(500))
    for number in (2, 3):
        deliveries.publish("order.changed", number, key="k")
    worker.turn()
    assert deliveries.undelivered.replay_all(UndeliveredFilter()).done == 2
    worker.run()
    assert told(receiver) == [0, 1, 2, 2, 3, 0, 1]
    assert deliveries.undelivered.count() == 0


@pytest.mark.parametrize("how", ["disabled", "removed"])
def test_with_its_endpoint_a_whole_line_is_given_up_in_order_and_nothing_is_left_behind(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback, time: VirtualTime, how: str
) -> None:
    endpoint = deliveries.endpoints.add(receiver.url, ordered=True)
    receiver.answers["/"].append(Say(500))
    made = [deliveries.publish("order.changed", number, key="k") for number in range(3)]
    worker.turn()
    if how == "disabled":
        deliveries.endpoints.disable(endpoint.id, reason="moving")
    else:
        deliveries.endpoints.remove(endpoint.id)
    worker.run()
    dead = deliveries.undelivered.list().events
    assert [event.event_id for event in dead] == [event.id for event in reversed(made)], "the last one first"
    assert told(receiver) == [0]
    if how == "disabled":
        deliveries.endpoints.enable(endpoint.id)
        deliveries.publish("order.changed", 3, key="k")
        worker.run()
        deliveries.undelivered.replay_all(UndeliveredFilter())
        worker.run()
        assert told(receiver) == [0, 3, 0, 1, 2]


def test_events_of_several_keys_in_one_call_keep_the_order_of_each_key(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback
) -> None:
    deliveries.endpoints.add(receiver.url, ordered=True)
    deliveries.publish_many([NewEvent("e", f"{key}{number}", key=key) for number in range(3) for key in "zba"])
    worker.run()
    for key in "zba":
        assert [data for data in told(receiver) if key in data] == [f"{key}{number}" for number in range(3)]


def test_many_publishers_and_a_real_worker_keep_each_key_in_order(store: Store, receiver: Loopback) -> None:
    jobs = Jobs(store)
    deliveries = Deliveries(store, jobs)
    deliveries.endpoints.add(receiver.url, ordered=True)
    open_now: dict[str, int] = {}
    overlapped: list[str] = []
    lock = threading.Lock()

    def send(request):
        key = json.loads(request.body)["data"].split(":")[0]
        with lock:
            open_now[key] = open_now.get(key, 0) + 1
            if open_now[key] > 1:
                overlapped.append(key)
        try:
            return post(request)
        finally:
            with lock:
                open_now[key] -= 1

    def publisher(key: str) -> None:
        for number in range(0, 10, 2):
            deliveries.publish_many([NewEvent("e", f"{key}:{number + step}", key=key) for step in range(2)])

    threads = [threading.Thread(target=publisher, args=(key,)) for key in "abc"]
    # A long lease: nothing is sent twice because this process stood still for a while.
    worker = Worker(store, deliveries.handlers(send), queues=[deliveries.queue(20)], lease_s=60.0)
    worker.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_until(lambda: len(receiver.got) == 30, within_s=90, what="thirty events")
    worker.stop()
    worker.join()
    jobs.close()
    for key in "abc":
        mine = [data for data in told(receiver) if data.startswith(key)]
        assert mine == [f"{key}:{number}" for number in range(10)]
    assert overlapped == []
