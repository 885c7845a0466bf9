"""What listeners are told of attempts and of received webhooks; without a listener nothing is said."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.base import Secret, bus
from holdfast.catalog.core import SERVICE_UNAVAILABLE
from holdfast.delivery import BodyHmac, Deliveries, Incoming, Receiver
from holdfast.delivery.faults import INVALID_PAYLOAD
from holdfast.store import Store

from .loopback import Loopback, Say, VirtualWorker, closed_port

SECRET = Secret("0123456789abcdef")
BODY = b'{"event_id":"evt_1"}'


@pytest.fixture
def memory() -> Iterator[Store]:
    store = Store.open("sqlite://")
    store.migrate()
    yield store
    store.close()


def attempts(told: list[tuple[str, Any]]) -> list[tuple[Any, ...]]:
    found = [facts for verb, facts in told if verb == "delivery.attempted"]
    return [(facts["attempt"], facts["status"], facts["code"], facts["outcome"]) for facts in found]


def received(told: list[tuple[str, Any]]) -> list[Any]:
    """Only these: what other tests left behind may tell of itself."""
    return [facts for verb, facts in told if verb == "webhook.received"]


def test_each_attempt_is_told_with_its_outcome(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback
) -> None:
    endpoint = deliveries.endpoints.add(receiver.url, delays_s=[1])
    receiver.answers["/"].extend([Say(500), Say(200), Say(500), Say(500), Say(404), Say(410)])
    with bus.heard() as told:
        for number in range(5):
            deliveries.publish("order.paid", number, id=f"evt_{number}")
            worker.run()
    assert attempts(told) == [
        (1, 500, "UPSTREAM_ERROR", "retried"),
        (2, 200, None, "delivered"),
        (1, 500, "UPSTREAM_ERROR", "retried"),
        (2, 500, "UPSTREAM_ERROR", "dead"),
        (1, 404, "NOT_FOUND", "dead"),
        (1, 410, "GONE", "disabled"),
    ]
    facts = next(facts for verb, facts in told if verb == "delivery.attempted")
    assert (facts["endpoint"], facts["event_id"], facts["event_type"]) == (endpoint.id, "evt_0", "order.paid")
    assert facts["duration_s"] >= 0


def test_attempts_without_an_answer_are_told_too(deliveries: Deliveries, worker: VirtualWorker) -> None:
    with closed_port() as port, bus.heard() as told:
        endpoint = deliveries.endpoints.add(f"http://127.0.0.1:{port}/", delays_s=[])
        for _ in range(2):
            deliveries.publish("order.paid", {})
        worker.turn()
        deliveries.publish("order.paid", {})
        deliveries.endpoints.disable(endpoint.id, reason="it is dead")
        worker.run(3_600)
    assert attempts(told) == [(1, None, "CONNECTION_REFUSED", "dead")] * 2 + [
        (1, None, "ENDPOINT_DISABLED", "disabled")
    ]


def test_nothing_is_said_where_nobody_listens(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tell(verb: str, **facts: Any) -> None:
        raise AssertionError(verb)

    monkeypatch.setattr(type(bus), "tell", lambda self, verb, /, **facts: tell(verb))
    deliveries.endpoints.add(receiver.url)
    deliveries.publish("order.paid", {})
    worker.run()
    assert len(receiver.got) == 1
    assert Receiver(BodyHmac(), secrets=[SECRET]).receive({}, BODY, lambda _: None).status == 401


def test_received_webhooks_are_told_with_what_became_of_them(memory: Store) -> None:
    receiver = Receiver(BodyHmac(), secrets=[SECRET], store=memory, source="bank", wait_s=0)
    headers = dict(BodyHmac().sign(BODY, event_id="", at_us=0, secrets=[SECRET]))

    def raising(error: Exception) -> Any:
        def handle(incoming: Any) -> None:
            raise error

        return handle

    with bus.heard() as told:
        receiver.receive({}, BODY, lambda _: None)
        receiver.receive(headers, BODY, raising(SERVICE_UNAVAILABLE()))
        receiver.receive(headers, BODY, raising(RuntimeError("hush")))
        receiver.receive(headers, BODY, raising(INVALID_PAYLOAD()))
        receiver.receive(headers, BODY, lambda _: None)
    found = received(told)
    assert [(facts["event_id"], facts["code"]) for facts in found] == [
        (None, "UNAUTHORIZED"),
        ("evt_1", "SERVICE_UNAVAILABLE"),
        ("evt_1", "INTERNAL_ERROR"),
        ("evt_1", "INVALID_PAYLOAD"),
        ("evt_1", None),
    ]
    assert {facts["source"] for facts in found} == {"bank"}
    assert "hush" not in str(told)


def test_a_receiver_without_a_name_is_called_by_its_scheme() -> None:
    with bus.heard() as told:
        Receiver(BodyHmac(), secrets=[SECRET]).receive({}, BODY, lambda _: None)
    assert [facts["source"] for facts in received(told)] == ["BodyHmac"]


def test_without_a_store_the_handler_says_which_event_it_was_and_it_is_told_once() -> None:
    receiver = Receiver(BodyHmac(), secrets=[SECRET], source="bank")
    headers = dict(BodyHmac().sign(BODY, event_id="", at_us=0, secrets=[SECRET]))

    def handle(incoming: Incoming) -> None:
        incoming.known_as(str(incoming.json()["event_id"]))

    def refuse(incoming: Incoming) -> None:
        handle(incoming)
        raise INVALID_PAYLOAD()

    with bus.heard() as told:
        receiver.receive(headers, BODY, lambda _: None)
        receiver.receive(headers, BODY, handle)
        receiver.receive(headers, BODY, refuse)
    assert receiver.receive(headers, BODY, handle).status == 200  # also where nobody listens
    assert [(facts["event_id"], facts["code"]) for facts in received(told)] == [
        (None, None),
        ("evt_1", None),
        ("evt_1", "INVALID_PAYLOAD"),
    ]
