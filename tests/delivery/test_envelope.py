"""The envelope tells a subscriber which event it has received; where a contract prescribes the body, there is none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.base import Json, utc_text
from holdfast.catalog import Failure
from holdfast.delivery import EVENT_BYTES_MAX, Deliveries, Incoming, NewEvent, Receiver, StandardWebhooks
from holdfast.delivery.envelope import unwrapped, wrapped
from holdfast.testing import VirtualTime

from .loopback import Loopback, Say, VirtualWorker

AT_US = 1_763_355_600_000_000


def heard_by(receiver: Loopback, deliveries: Deliveries) -> list[Incoming]:
    """What arrived, through the receiver of the other side."""
    found: list[Incoming] = []
    (endpoint,) = deliveries.endpoints.list()
    taking = Receiver(StandardWebhooks(tolerance_s=86_400), secrets=[held.secret for held in endpoint.secrets])
    for got in receiver.got:
        assert taking.receive(got.headers, got.body, found.append).status == 200
    return found


def test_a_subscriber_knows_the_type_the_time_and_the_payload_of_an_event(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback
) -> None:
    deliveries.endpoints.add(receiver.url)
    event = deliveries.publish("order.paid", {"order": 7})
    worker.run()
    (got,) = heard_by(receiver, deliveries)
    assert (got.type, got.data) == ("order.paid", {"order": 7})
    document = got.json()
    assert isinstance(document, dict)
    assert list(document) == ["type", "timestamp", "data"]
    # On one clock in virtual time: the event happened when it was published.
    assert document["timestamp"] == utc_text(deliveries.history(event.id).created_us)
    assert deliveries.history(event.id).payload == {"order": 7}


@pytest.mark.parametrize("payload", ["small", "large" * 10_000])
def test_every_attempt_brings_the_same_bytes_however_late_and_however_large(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback, time: VirtualTime, payload: str
) -> None:
    deliveries.endpoints.add(receiver.url)
    receiver.answers["/"].extend([Say(500), Say(500)])
    deliveries.publish("order.paid", payload)
    time.advance(3_600)
    worker.run()
    assert len(receiver.got) == 3
    assert len({got.body for got in receiver.got}) == 1
    assert receiver.got[0].data == payload


def test_a_raw_event_is_the_payload_and_nothing_else(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback
) -> None:
    deliveries.endpoints.add(receiver.url)
    deliveries.publish("order.paid", {"order": 7}, raw=True)
    deliveries.publish_many([NewEvent("order.paid", {"order": 8}, raw=True)])
    worker.run()
    assert [got.body for got in receiver.got] == [b'{"order":7}', b'{"order":8}']
    assert [(got.type, got.data) for got in heard_by(receiver, deliveries)] == [
        (None, {"order": 7}),
        (None, {"order": 8}),
    ]


def test_an_event_that_is_published_again_later_is_still_the_same_one(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback, time: VirtualTime
) -> None:
    deliveries.endpoints.add(receiver.url)
    deliveries.publish("order.paid", {"order": 7}, id="evt_1")
    time.advance(10)
    assert not deliveries.publish("order.paid", {"order": 7}, id="evt_1").created
    worker.run()
    assert len(receiver.got) == 1
    with pytest.raises(Failure) as caught:
        deliveries.publish("order.paid", {"order": 7}, id="evt_1", raw=True)
    assert caught.value.code == "EVENT_ID_TAKEN"


def test_the_envelope_counts_towards_the_size_that_is_sent(deliveries: Deliveries) -> None:
    room = EVENT_BYTES_MAX - len(wrapped("big", AT_US + 1, '""'))
    assert deliveries.publish("big", "x" * (room - 10)).created
    assert deliveries.publish("big", "x" * (EVENT_BYTES_MAX - 2), raw=True).created
    with pytest.raises(Failure) as caught:
        deliveries.publish("big", "x" * (EVENT_BYTES_MAX - 2))
    assert caught.value.code == "EVENT_TOO_LARGE"


@pytest.mark.parametrize("payload", [None, 7, "ü\n", [1, {"a": None}], {"type": "inner", "timestamp": "", "data": 1}])
def test_what_is_wrapped_is_found_again(payload: Json) -> None:
    assert unwrapped(json.loads(wrapped("order.paid", AT_US, json.dumps(payload)))) == ("order.paid", payload)


@pytest.mark.parametrize(
    "document",
    [None, 7, [], {}, {"type": "a", "data": 1}, {"type": 7, "timestamp": "t", "data": 1},
     {"type": "a", "timestamp": 7, "data": 1}, {"timestamp": "t", "data": 1}],
)  # fmt: skip
def test_what_is_not_an_envelope_has_no_type(document: Any) -> None:
    assert unwrapped(document) is None


def test_a_body_that_is_not_json_has_no_type() -> None:
    taking = Receiver(StandardWebhooks(), secrets=[secret := StandardWebhooks().new_secret()])
    from holdfast.base import now_us

    headers = StandardWebhooks().sign(b"{", event_id="e", at_us=now_us(), secrets=[secret])
    found: list[str | None] = []
    assert taking.receive(headers, b"{", lambda incoming: found.append(incoming.type)).status == 200
    assert found == [None]
    answer = taking.receive(headers, b"{", lambda incoming: incoming.data)
    assert (answer.status, b"INVALID_JSON" in answer.body) == (400, True)
