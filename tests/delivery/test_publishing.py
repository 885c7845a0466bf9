"""Publishing: an event and its deliveries are written together or not at all, and once, however often it is said."""

from __future__ import annotations

import sqlite3
import threading
from typing import Any

import pytest

from holdfast.base import Secret, SecretLeak
from holdfast.catalog import Failure
from holdfast.delivery import Deliveries, NewEvent
from holdfast.store import Engine, Store
from holdfast.testing import VirtualTime
from holdfast.worker import Jobs

from .loopback import Loopback, VirtualWorker

URL = "https://example.com/hook"


def queued(deliveries: Deliveries) -> int:
    return len(deliveries.jobs.list(queue="webhooks", count=1_000))


def test_only_those_who_want_it_are_told(deliveries: Deliveries) -> None:
    everything = deliveries.endpoints.add(URL).id
    orders = deliveries.endpoints.add(URL, event_types=["order.*"]).id
    paid = deliveries.endpoints.add(URL, event_types=["order.paid", "refund"]).id
    foreign = deliveries.endpoints.add(URL, tenant="acme").id
    off = deliveries.endpoints.add(URL).id
    deliveries.endpoints.disable(off, reason="holidays")

    def told(event_type: str, **given: Any) -> set[str]:
        return set(deliveries.publish(event_type, {}, **given).endpoint_ids)

    assert told("order.paid") == {everything, orders, paid}
    assert told("order.item.added") == {everything, orders}
    assert told("orders") == told("order") == {everything}
    assert told("refund") == {everything, paid}
    assert told("order.paid", tenant="acme") == {foreign}


def test_a_connection_is_no_transaction_to_publish_with(deliveries: Deliveries) -> None:
    with sqlite3.connect(":memory:") as mine, pytest.raises(TypeError, match=r"give store\.join"):
        deliveries.publish("order.paid", {}, tx=mine)  # type: ignore[arg-type]
    mine.close()


def test_the_same_id_again_is_the_same_event(deliveries: Deliveries) -> None:
    deliveries.endpoints.add(URL)
    first = deliveries.publish("order.paid", {"a": 1, "b": 2}, id="evt_1")
    again = deliveries.publish("order.paid", {"a": 1, "b": 2}, id="evt_1")
    assert (first.created, again.created, queued(deliveries)) == (True, False, 1)


@pytest.mark.parametrize("change", [{"payload": {"a": 2}}, {"event_type": "order.lost"}, {"key": "k"}])
def test_an_id_that_was_used_for_something_else_is_refused(deliveries: Deliveries, change: dict[str, Any]) -> None:
    deliveries.publish("order.paid", {"a": 1}, id="evt_1")
    with pytest.raises(Failure) as caught:
        deliveries.publish(**{"event_type": "order.paid", "payload": {"a": 1}, "id": "evt_1"} | change)
    assert (caught.value.code, caught.value.status) == ("EVENT_ID_TAKEN", 409)


def test_many_at_once_are_published_together_and_each_once(deliveries: Deliveries) -> None:
    deliveries.endpoints.add(URL)
    deliveries.publish("a", 1, id="e1")
    made = deliveries.publish_many([NewEvent("a", 1, "e1"), NewEvent("b", 2, "e2"), NewEvent("b", 2, "e2")])
    assert [(one.id, one.created) for one in made] == [("e1", False), ("e2", True), ("e2", True)]
    assert queued(deliveries) == 2
    with pytest.raises(Failure, match="EVENT_ID_TAKEN"):
        deliveries.publish_many([NewEvent("c", 3, "e3"), NewEvent("a", "other", "e1")])
    with pytest.raises(Failure, match="EVENT_ID_TAKEN"):
        deliveries.publish_many([NewEvent("c", 3, "e3"), NewEvent("c", 4, "e3")])
    with pytest.raises(Failure, match="EVENT_NOT_FOUND"):
        deliveries.history("e3")
    assert deliveries.publish_many([]) == []


def test_two_that_publish_the_same_event_at_once_publish_one(store: Store) -> None:
    jobs = Jobs(store)
    deliveries = Deliveries(store, jobs)
    deliveries.endpoints.add(URL)
    made: list[bool] = []
    threads = [
        threading.Thread(target=lambda: made.append(deliveries.publish("order.paid", {}, id="evt_1").created))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    jobs.close()
    assert sorted(made) == [False] * 7 + [True]
    assert queued(deliveries) == 1


def test_a_publication_that_is_repeated_after_a_lost_reply_recognises_its_own_work(deliveries: Deliveries) -> None:
    from holdfast.delivery.publishing import prepared, publish

    deliveries.endpoints.add(URL)
    rows = prepared([NewEvent("a", 1, "e1"), NewEvent("b", 2, "e2")])
    for _ in range(2):
        deliveries.store.atomic(lambda tx: publish(tx, deliveries.jobs, rows, "this call"))
    assert queued(deliveries) == 2


def test_a_phase_that_fails_leaves_no_event_and_no_delivery(deliveries: Deliveries) -> None:
    deliveries.endpoints.add(URL)

    def phase(tx: Any) -> None:
        deliveries.publish("order.paid", {}, id="evt_1", tx=tx)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        deliveries.store.atomic(phase)
    assert queued(deliveries) == 0
    with pytest.raises(Failure, match="EVENT_NOT_FOUND"):
        deliveries.history("evt_1")


def test_it_commits_or_rolls_back_with_the_user_s_own_connection(deliveries: Deliveries, database_url: str) -> None:
    deliveries.endpoints.add(URL)
    store = deliveries.store
    if store.engine is Engine.SQLITE:
        connection: Any = sqlite3.connect(database_url.removeprefix("sqlite:///"))
    else:
        import psycopg

        connection = psycopg.connect(database_url)
    deliveries.publish("order.paid", {}, id="undone", tx=store.join(connection))
    connection.rollback()
    deliveries.publish("order.paid", {}, id="done", tx=store.join(connection))
    assert queued(deliveries) == 0
    connection.commit()
    connection.close()
    assert queued(deliveries) == 1
    assert deliveries.history("done").id == "done"


def test_a_large_event_is_sent_whole_and_one_that_is_too_large_is_refused(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback
) -> None:
    deliveries.endpoints.add(receiver.url)
    deliveries.publish("big", "ü" * 300_000)
    worker.run()
    assert receiver.got[0].data == "ü" * 300_000
    with pytest.raises(Failure) as caught:
        deliveries.publish("big", "x" * 1_048_576)
    assert (caught.value.code, caught.value.status) == ("EVENT_TOO_LARGE", 413)


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("type", {"event_type": ""}), ("type", {"event_type": "a b"}), ("type", {"event_type": "a..b"}),
        ("type", {"event_type": "order.*"}), ("type", {"event_type": 7}), ("id", {"id": ""}), ("id", {"id": "a.b"}),
        ("id", {"id": "x" * 101}), ("id", {"id": "é"}), ("key", {"key": ""}), ("key", {"key": "a\0b"}),
        ("tenant", {"tenant": "\ud800"}), ("payload", {"payload": float("nan")}), ("payload", {"payload": object()}),
        ("payload", {"payload": "\ud800"}),
    ],
)  # fmt: skip
def test_what_cannot_be_published_is_refused_by_name(field: str, given: dict[str, Any]) -> None:
    store = Store.open("sqlite://")
    with pytest.raises(Failure) as caught:
        Deliveries(store, Jobs(store)).publish(**{"event_type": "order.paid", "payload": {}} | given)
    assert (caught.value.code, caught.value.details["field"]) == ("BAD_REQUEST", field)
    store.close()


def test_a_secret_is_never_published(deliveries: Deliveries) -> None:
    with pytest.raises(SecretLeak):
        deliveries.publish("order.paid", {"token": Secret("hush")})


def test_delivered_events_are_pruned_and_others_are_not(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback, time: VirtualTime
) -> None:
    deliveries.endpoints.add(receiver.url)
    deliveries.publish("order.paid", {}, id="delivered")
    worker.run()
    deliveries.publish("order.paid", {}, id="waiting")
    time.advance(100)
    assert deliveries.prune(older_s=200) == 0
    assert deliveries.prune(older_s=50) == 1
    assert deliveries.history("waiting").deliveries[0].state == "queued"
    with pytest.raises(Failure, match="EVENT_NOT_FOUND"):
        deliveries.history("delivered")
