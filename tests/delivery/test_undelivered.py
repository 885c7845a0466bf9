"""Undelivered events: the seed's fields, replayed one, many or all of an endpoint, each once whoever does it."""

from __future__ import annotations

import threading
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.base import now_us, replaced, world
from holdfast.catalog import Failure
from holdfast.delivery import Deliveries, UndeliveredFilter
from holdfast.testing import VirtualTime
from holdfast.worker.dead import Progress

from .loopback import Loopback, Say, VirtualWorker


def moment() -> datetime:
    return datetime.fromtimestamp(now_us() / 1_000_000, UTC)


def test_an_undelivered_event_has_every_field_of_the_seed(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback, time: VirtualTime
) -> None:
    deliveries.endpoints.add(receiver.url)
    receiver.always["/"] = Say(500, {}, b"oops")
    began = moment()
    payload = {"event_id": "evt_1", "actor": {"user_id": "user123"}}
    deliveries.publish("contribution.created", payload, id="evt_1")
    worker.run()
    (dead,) = deliveries.undelivered.list().events
    assert (dead.event_id, dead.event_type, dead.payload) == ("evt_1", "contribution.created", payload)
    assert (dead.error_message, dead.status_code, dead.attempts) == ("The endpoint answered 500: oops", 500, 5)
    assert dead.last_attempt_at == dead.created_at == began + timedelta(seconds=15)


def test_one_event_is_replayed_under_its_own_id(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback
) -> None:
    deliveries.endpoints.add(receiver.url)
    receiver.answers["/"].append(Say(404))
    event = deliveries.publish("order.paid", {})
    worker.run()
    assert deliveries.undelivered.replay(event.id, reason="the route is there now") == 1
    worker.run()
    assert deliveries.undelivered.count() == 0
    assert [got.headers["webhook-id"] for got in receiver.got] == [event.id] * 2
    with pytest.raises(Failure, match="JOB_NOT_FOUND"):
        deliveries.undelivered.replay(event.id)


def test_a_replayed_event_has_all_its_attempts_again(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback
) -> None:
    deliveries.endpoints.add(receiver.url)
    receiver.always["/"] = Say(500)
    event = deliveries.publish("order.paid", {})
    worker.run()
    deliveries.undelivered.replay(event.id)
    worker.run()
    assert len(receiver.got) == 10
    assert deliveries.undelivered.list().events[0].attempts == 5


def test_what_matches_is_counted_first_and_then_replayed(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback, time: VirtualTime
) -> None:
    one = deliveries.endpoints.add(receiver.url + "/one").id
    two = deliveries.endpoints.add(receiver.url + "/two").id
    receiver.always = {"/one": Say(400), "/two": Say(404)}
    for number in range(3):
        deliveries.publish("order.paid", number)
    deliveries.publish("order.lost", 3)
    worker.run()
    time.advance(100)
    later = moment()
    deliveries.publish("order.paid", 4)
    worker.run()
    undelivered = deliveries.undelivered
    table = [
        (UndeliveredFilter(), 10), (UndeliveredFilter(endpoint_id=one), 5), (UndeliveredFilter(code="NOT_FOUND"), 5),
        (UndeliveredFilter(event_type="order.lost"), 2), (UndeliveredFilter(text="answered 404"), 5),
        (UndeliveredFilter(since=later), 2), (UndeliveredFilter(until=later), 8),
        (UndeliveredFilter(endpoint_id=two, since=later), 1), (UndeliveredFilter(event_type="order.paid", code="X"), 0),
        (UndeliveredFilter(event_type="order.paid", endpoint_id=two, until=later), 3),
    ]  # fmt: skip
    assert [undelivered.count(chosen) for chosen, _ in table] == [expected for _, expected in table]
    receiver.always.clear()
    receiver.got.clear()
    assert undelivered.replay_all(UndeliveredFilter(endpoint_id=two, since=later)) == Progress(total=1, done=1)
    assert undelivered.replay_all(UndeliveredFilter(event_type="order.lost")) == Progress(total=2, done=2)
    assert undelivered.replay_all(UndeliveredFilter(endpoint_id=one)) == Progress(total=4, done=4)
    worker.run()
    assert Counter(got.path for got in receiver.got) == {"/two": 2, "/one": 5}
    assert undelivered.count() == 3


def test_pages_follow_each_other(deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback) -> None:
    deliveries.endpoints.add(receiver.url)
    receiver.always["/"] = Say(400)
    made = {deliveries.publish("order.paid", number).id for number in range(5)}
    worker.run()
    first = deliveries.undelivered.list(count=3)
    second = deliveries.undelivered.list(count=3, before=first.next)
    assert {one.event_id for page in (first, second) for one in page.events} == made
    assert (len(first.events), len(second.events), second.next) == (3, 2, None)


@pytest.mark.parametrize("chosen", [UndeliveredFilter(), UndeliveredFilter(event_type="order.paid")])
def test_replaying_twice_at_once_loses_and_doubles_nothing(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback, chosen: UndeliveredFilter
) -> None:
    deliveries.endpoints.add(receiver.url)
    receiver.always["/"] = Say(400)
    made = {deliveries.publish("order.paid", number).id for number in range(30)}
    worker.run()
    here, ready, done = world(), threading.Barrier(4), []

    def operator() -> None:
        with replaced(here):
            ready.wait()
            done.append(deliveries.undelivered.replay_all(chosen).done)

    threads = [threading.Thread(target=operator) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    receiver.always.clear()
    receiver.got.clear()
    worker.run()
    assert sum(done) == 30
    assert sorted(got.headers["webhook-id"] for got in receiver.got) == sorted(made)
    assert deliveries.undelivered.count() == 0


def test_nothing_is_replayed_to_an_endpoint_that_is_disabled(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback
) -> None:
    made = deliveries.endpoints.add(receiver.url)
    receiver.answers["/"].append(Say(410))
    event = deliveries.publish("order.paid", {})
    worker.run()
    for ask in (
        lambda: deliveries.undelivered.replay(event.id),
        lambda: deliveries.undelivered.replay_all(UndeliveredFilter(endpoint_id=made.id)),
    ):
        with pytest.raises(Failure, match="ENDPOINT_DISABLED"):
            ask()
    assert deliveries.undelivered.count() == 1


@pytest.mark.parametrize("event_type", [None, "order.paid"])
def test_replaying_everything_leaves_what_nobody_would_receive(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback, event_type: str | None
) -> None:
    paths = ("/good", "/disabled", "/removed")
    _, disabled, removed = (deliveries.endpoints.add(receiver.url + path).id for path in paths)
    receiver.always = dict.fromkeys(paths, Say(400))
    for number in range(2):
        deliveries.publish("order.paid", number)
    worker.run()
    deliveries.endpoints.disable(disabled, reason="it is being rebuilt")
    deliveries.endpoints.remove(removed)
    receiver.always.clear()
    receiver.got.clear()
    replayed = deliveries.undelivered.replay_all(UndeliveredFilter(event_type=event_type))
    assert replayed == Progress(total=6, done=2, refused=4)
    worker.run()
    assert [got.path for got in receiver.got] == ["/good"] * 2
    left = deliveries.undelivered.list().events
    assert {(one.endpoint_id, one.error_code) for one in left} == {(disabled, "BAD_REQUEST"), (removed, "BAD_REQUEST")}
    deliveries.endpoints.enable(disabled)
    assert deliveries.undelivered.replay_all(UndeliveredFilter()) == Progress(total=4, done=2, refused=2)
    worker.run()
    assert Counter(got.path for got in receiver.got) == {"/good": 2, "/disabled": 2}
    assert {one.endpoint_id for one in deliveries.undelivered.list().events} == {removed}


def test_one_event_is_replayed_to_those_who_would_receive_it(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback
) -> None:
    deliveries.endpoints.add(receiver.url + "/good")
    disabled = deliveries.endpoints.add(receiver.url + "/disabled").id
    receiver.always = {"/good": Say(400), "/disabled": Say(400)}
    event = deliveries.publish("order.paid", {})
    worker.run()
    deliveries.endpoints.disable(disabled, reason="it is being rebuilt")
    assert deliveries.undelivered.replay(event.id) == 1
    with pytest.raises(Failure, match="ENDPOINT_DISABLED"):
        deliveries.undelivered.replay(event.id)
    deliveries.endpoints.remove(disabled)
    with pytest.raises(Failure, match="ENDPOINT_REMOVED"):
        deliveries.undelivered.replay(event.id)


def test_only_the_endpoint_that_missed_the_event_gets_it_again(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback
) -> None:
    deliveries.endpoints.add(receiver.url + "/good")
    missed = deliveries.endpoints.add(receiver.url + "/bad").id
    other = deliveries.endpoints.add(receiver.url + "/worse").id
    receiver.always = {"/bad": Say(400), "/worse": Say(400)}
    event = deliveries.publish("order.paid", {})
    worker.run()
    receiver.always.clear()
    assert deliveries.undelivered.replay(event.id, endpoint_id=missed) == 1
    worker.run()
    assert Counter(got.path for got in receiver.got) == {"/good": 1, "/bad": 2, "/worse": 1}
    assert [one.endpoint_id for one in deliveries.undelivered.list().events] == [other]
