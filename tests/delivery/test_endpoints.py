"""Endpoints: checked when they are added, changed while events are under way, signed for with every secret in force."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import standardwebhooks.webhooks

from holdfast.base import Secret, encode, replaced, world
from holdfast.catalog import Failure, continued, enriched
from holdfast.delivery import BodyHmac, Deliveries, StandardWebhooks
from holdfast.policy import RateLimit
from holdfast.testing import VirtualTime

from .loopback import Loopback, Say, VirtualWorker

URL = "https://example.com/hook"
SETTINGS: dict[str, Any] = {
    "event_types": ("order.*", "refund"),
    "scheme": "body-hmac",
    "headers": {"X-Api-Key": Secret("k3y")},
    "delays_s": (0.5, 60.0),
    "timeout_s": 3.5,
    "retry_after_max_s": 120.0,
    "in_flight_max": 3,
    "rate_limit": RateLimit(count=5, per_s=2.5, burst=2),
    "ordered": True,
}


def test_every_setting_is_kept(deliveries: Deliveries) -> None:
    made = deliveries.endpoints.add(URL, tenant="acme", **SETTINGS)
    found = deliveries.endpoints.show(made.id)
    assert found == made
    assert {name: getattr(found, name) for name in SETTINGS} == SETTINGS
    assert (found.url, found.tenant, found.enabled) == (URL, "acme", True)


def test_every_setting_can_be_changed(deliveries: Deliveries) -> None:
    made = deliveries.endpoints.add(URL, secret=Secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))
    deliveries.endpoints.update(made.id, url=URL + "/2", **SETTINGS)
    found = deliveries.endpoints.show(made.id)
    assert {name: getattr(found, name) for name in SETTINGS} == SETTINGS
    assert found.url == URL + "/2"


def test_endpoints_are_listed_a_page_at_a_time(deliveries: Deliveries) -> None:
    made = sorted(deliveries.endpoints.add(URL, tenant=tenant).id for tenant in ("a", "a", "b"))
    first = deliveries.endpoints.list(count=2)
    assert [one.id for one in (*first, *deliveries.endpoints.list(after=first[-1].id))] == made
    assert len(deliveries.endpoints.list(tenant="a")) == 2


def test_nothing_that_is_printed_or_encoded_shows_a_secret(deliveries: Deliveries) -> None:
    made = deliveries.endpoints.add(URL, secret=Secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
                                    headers={"Authorization": "Bearer t0ken"})  # fmt: skip
    shown = f"{made} {made!r} {made.secrets!r}"
    assert "MfKQ" not in shown
    assert "t0ken" not in shown
    with pytest.raises(TypeError):
        encode(made)


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("url", {"url": "ftp://x/"}), ("url", {"url": "example.com"}), ("url", {"url": "http://"}),
        ("url", {"url": "http://user:pw@x/"}), ("url", {"url": "http://x/#y"}), ("url", {"url": "http://x/ y"}),
        ("url", {"url": "http://x:99999/"}), ("url", {"url": "http://[::1/"}), ("url", {"url": "http://" + "y" * 2000}),
        ("url", {"url": "http://x\\@y/"}), ("url", {"url": "http://é/"}), ("url", {"url": "http://x/\r\nHost: y"}),
        ("event_types", {"event_types": ["*"]}), ("event_types", {"event_types": ["a b"]}),
        ("event_types", {"event_types": ["x"] * 101}), ("headers", {"headers": {"Host": "x"}}),
        ("headers", {"headers": {"Webhook-Id": "x"}}),
        ("headers", {"headers": {"Content-Type": "x"}}), ("headers", {"headers": {"a b": "x"}}),
        ("headers", {"headers": {"a": "x\r\ny"}}), ("headers", {"headers": {"a": "é"}}),
        ("delays_s", {"delays_s": [-1]}), ("delays_s", {"delays_s": [1e99]}), ("delays_s", {"delays_s": [1] * 50}),
        ("timeout_s", {"timeout_s": 0}), ("in_flight_max", {"in_flight_max": 0}), ("scheme", {"scheme": "none"}),
        ("retry_after_max_s", {"retry_after_max_s": float("inf")}), ("secret", {"secret": Secret("whsec_short")}),
        # what JSON can say as well
        ("url", {"url": 7}), ("url", {"url": None}), ("tenant", {"tenant": 7}), ("tenant", {"tenant": "a\0b"}),
        ("tenant", {"tenant": "x" * 201}), ("event_types", {"event_types": "order"}),
        ("event_types", {"event_types": 7}),
        ("event_types", {"event_types": [7]}), ("headers", {"headers": ["x"]}), ("headers", {"headers": {"a": 7}}),
        ("headers", {"headers": {7: "a"}}), ("delays_s", {"delays_s": "12"}), ("delays_s", {"delays_s": ["1"]}),
        ("delays_s", {"delays_s": [None]}), ("delays_s", {"delays_s": [True]}), ("timeout_s", {"timeout_s": "10"}),
        ("timeout_s", {"timeout_s": float("nan")}), ("retry_after_max_s", {"retry_after_max_s": None}),
        ("in_flight_max", {"in_flight_max": 2.5}), ("in_flight_max", {"in_flight_max": True}),
        ("rate_limit", {"rate_limit": 5}), ("ordered", {"ordered": "yes"}), ("scheme", {"scheme": ["standard"]}),
        ("scheme", {"scheme": None}), ("secret", {"secret": "plain text"}),
        # what is not a setting, or none that is given from outside
        ("retries", {"retries": 5}), ("id", {"id": "ep_1"}), ("disabled_us", {"disabled_us": 1}),
        ("created_us", {"created_us": 1}), ("secrets", {"secrets": ()}),
    ],
)  # fmt: skip
def test_what_cannot_be_an_endpoint_is_refused_by_name(field: str, given: dict[str, Any]) -> None:
    from holdfast.store import Store
    from holdfast.worker import Jobs

    store = Store.open("sqlite://")
    with pytest.raises(Failure) as caught:
        Deliveries(store, Jobs(store)).endpoints.add(**{"url": URL} | given)
    assert (caught.value.code, caught.value.details["field"]) == ("BAD_REQUEST", field)
    store.close()


def test_what_is_not_there_is_not_found(deliveries: Deliveries) -> None:
    endpoints = deliveries.endpoints
    for ask in (
        lambda: endpoints.show("ep_0"),
        lambda: endpoints.update("ep_0", ordered=True),
        lambda: endpoints.disable("ep_0", reason="x"),
        lambda: endpoints.enable("ep_0"),
        lambda: endpoints.rotate_secret("ep_0"),
    ):
        with pytest.raises(Failure, match="ENDPOINT_NOT_FOUND"):
            ask()
    for refused in (
        lambda: endpoints.update("ep_0", id="ep_1"),
        lambda: endpoints.disable("ep_0", reason=""),
        lambda: endpoints.disable("ep_0", reason=7),  # type: ignore[arg-type]
        lambda: endpoints.enable("ep_0", reason="x" * 501),
        lambda: endpoints.remove("ep_0", reason="x" * 501),
    ):
        with pytest.raises(Failure, match="BAD_REQUEST"):
            refused()


def test_the_scheme_cannot_be_changed_to_one_that_the_secret_does_not_fit(deliveries: Deliveries) -> None:
    made = deliveries.endpoints.add(URL, scheme="body-hmac", secret=Secret("plain words"))
    with pytest.raises(Failure, match="BAD_REQUEST"):
        deliveries.endpoints.update(made.id, scheme="standard")


@pytest.mark.parametrize("own", [{}, {"Traceparent": "mine"}])
def test_a_request_carries_the_trace_of_its_event_unless_the_endpoint_has_a_header_of_that_name(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback, own: dict[str, str]
) -> None:
    deliveries.endpoints.add(receiver.url, headers=own)
    deliveries.publish("order.paid", {})
    with enriched(**continued(None)) as request:
        deliveries.publish("order.paid", {})
    worker.run()
    told = [got.headers.get("traceparent", "") for got in receiver.got]
    if own:
        assert told == ["mine", "mine"]
    else:
        assert told[0] == ""
        assert told[1].split("-")[1] == request.trace_id


def test_each_attempt_is_signed_afresh_under_the_same_id(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback
) -> None:
    made = deliveries.endpoints.add(receiver.url, headers={"X-Api-Key": "k3y"})
    receiver.answers["/"].extend([Say(500), Say(500)])
    event = deliveries.publish("order.paid", {"n": "Zoë"})
    worker.run()
    assert len(receiver.got) == 3
    for got in receiver.got:
        assert (got.headers["webhook-id"], got.headers["x-api-key"]) == (event.id, "k3y")
        assert got.headers["content-type"] == "application/json"
        assert int(got.headers["webhook-timestamp"]) == got.at_us // 1_000_000
        StandardWebhooks(tolerance_s=3_600).verify(got.headers, got.body, secrets=[made.secrets[0].secret])
    assert len({got.headers["webhook-signature"] for got in receiver.got}) == 3


def test_during_a_rotation_both_secrets_sign_and_afterwards_only_the_new_one(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback, time: VirtualTime
) -> None:
    made = deliveries.endpoints.add(receiver.url)
    old = made.secrets[0].secret
    deliveries.publish("order.paid", {})
    worker.run()
    new = deliveries.endpoints.rotate_secret(made.id, overlap_s=3_600)
    time.advance(2)
    deliveries.publish("order.paid", {})
    worker.run()
    time.advance(3_600)
    deliveries.publish("order.paid", {})
    worker.run()

    def fits(got: Any, secret: Secret) -> bool:
        try:
            StandardWebhooks(tolerance_s=86_400).verify(got.headers, got.body, secrets=[secret])
        except Failure:
            return False
        return True

    assert [(fits(got, old), fits(got, new)) for got in receiver.got] == [(True, False), (True, True), (False, True)]
    assert [held.secret for held in deliveries.endpoints.show(made.id).secrets] == [new]


def test_a_scheme_with_room_for_one_signature_uses_the_newest_secret(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback, time: VirtualTime
) -> None:
    made = deliveries.endpoints.add(receiver.url, scheme="body-hmac", secret=Secret("old"))
    deliveries.endpoints.rotate_secret(made.id, secret=Secret("new"))
    deliveries.publish("order.paid", {"event_id": "evt_1"})
    worker.run()
    (got,) = receiver.got
    BodyHmac().verify(got.headers, got.body, secrets=[Secret("new")])
    assert got.headers["x-gr-signature"].startswith("sha256=")


def test_a_real_library_accepts_what_arrives(deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback) -> None:
    made = deliveries.endpoints.add(receiver.url)
    deliveries.publish("order.paid", {"order": 7})
    worker.run()
    (got,) = receiver.got
    library = standardwebhooks.webhooks.Webhook(made.secrets[0].secret.reveal())
    assert library.verify(got.body, got.headers)["data"] == {"order": 7}


def test_a_secret_cannot_be_rotated_without_end(deliveries: Deliveries) -> None:
    made = deliveries.endpoints.add(URL)
    for _ in range(15):
        deliveries.endpoints.rotate_secret(made.id)
    with pytest.raises(Failure, match="BAD_REQUEST"):
        deliveries.endpoints.rotate_secret(made.id)
    newest = deliveries.endpoints.rotate_secret(made.id, overlap_s=0)
    assert [one.secret for one in deliveries.endpoints.show(made.id).secrets] == [newest]


def test_changes_by_two_at_once_are_both_kept(deliveries: Deliveries) -> None:
    made = deliveries.endpoints.add(URL)
    changes: list[dict[str, Any]] = [{"timeout_s": 5.0}, {"in_flight_max": 7}, {"ordered": True}, {"delays_s": (3.0,)}]
    here = world()

    def change(wanted: dict[str, Any]) -> None:
        with replaced(here):
            deliveries.endpoints.update(made.id, **wanted)

    threads = [threading.Thread(target=change, args=(wanted,)) for wanted in changes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = deliveries.endpoints.show(made.id)
    assert (found.timeout_s, found.in_flight_max, found.ordered, found.delays_s) == (5.0, 7, True, (3.0,))


def test_the_journal_tells_what_happened_to_an_endpoint(deliveries: Deliveries) -> None:
    made = deliveries.endpoints.add(URL)
    deliveries.endpoints.disable(made.id, reason="holidays")
    deliveries.endpoints.enable(made.id, reason="back at work")
    deliveries.endpoints.rotate_secret(made.id)
    steps = deliveries.jobs.history(f"endpoint:{made.id}")
    assert [(step["verb"], step["reason"]) for step in steps] == [
        ("added", None), ("disabled", "holidays"), ("enabled", "back at work"), ("secret_rotated", None),
    ]  # fmt: skip
