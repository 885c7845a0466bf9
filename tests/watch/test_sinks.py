"""Notices on their way to real receivers on loopback: what they look like, retries, order, and no secret anywhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.base import MASK, Secret, bus
from holdfast.catalog.fault import Severity
from holdfast.delivery import StandardWebhooks
from holdfast.store import Store
from holdfast.testing import VirtualTime, instant
from holdfast.watch.alert_ledger import QUEUE, AlertLedger, Known
from holdfast.watch.alert_notice import notice_of
from holdfast.watch.alert_sending import SINK_UNKNOWN, Notices
from holdfast.watch.alert_state import QUIET, judge
from holdfast.watch.rules import Rule
from holdfast.watch.rules_builtin import RULES
from holdfast.watch.sinks import Sink, WebhookSink, scrubbed
from holdfast.watch.sinks_pagerduty import PagerDutySink, dedup_key
from holdfast.watch.sinks_slack import SlackSink
from holdfast.worker import Jobs

from .alert_scene import AlertWorker, Receiver, open_sqlite, post

BY_NAME = {rule.name: rule for rule in RULES}
DEAD = BY_NAME["webhook_dead_letters_critical"]
DOWN = BY_NAME["external_service_down"]
SECRET = Secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    yield server
    server.close()


@pytest.fixture
def time() -> Iterator[VirtualTime]:
    with instant() as virtual:
        yield virtual


class Scene:
    """Alerts that move when they are told to, and a worker that takes the notices to one sink."""

    def __init__(self, store: Store, sink: Sink, send: Any = post) -> None:
        self.store = store
        self.ledger = AlertLedger(store, Jobs(store), [sink])
        self.worker = AlertWorker(store, Notices(store, [sink], send).handlers())
        self._at_us = 1_700_000_000_000_000

    def move(self, rule: Rule, cause: str, reading: float | None) -> None:
        self._at_us += 60_000_000
        known = self.ledger.known().get((rule.name, cause), Known())
        assert self.ledger.move(rule, cause, known, judge(rule, reading, known.state, self._at_us))

    def jobs(self) -> list[dict[str, Any]]:
        return [Jobs(self.store).show(job["id"]) for job in Jobs(self.store).list(queue=QUEUE)][::-1]


@pytest.fixture
def slack(virtual_store: Store, time: VirtualTime, receiver: Receiver) -> Scene:
    return Scene(virtual_store, SlackSink(name="ops", url=Secret(f"{receiver.url}/services/T0/hush-hush")))


@pytest.fixture
def pager(tmp_path: Path, time: VirtualTime, receiver: Receiver) -> Iterator[Scene]:
    store = open_sqlite(tmp_path)
    sink = PagerDutySink(
        name="oncall", routing_key=Secret("r0uting-key"), url=Secret(f"{receiver.url}/v2/enqueue"), source="api-1"
    )
    yield Scene(store, sink)
    store.close()


def test_slack_gets_a_text_and_blocks(slack: Scene, receiver: Receiver) -> None:
    for reading in (31, 2):
        slack.move(DOWN, "records → <!channel>", reading)
        assert slack.worker.turn() == 1
    fired, over = told = [json.loads(got.body) for got in receiver.got]
    assert fired["text"] == (
        "Warning: An outside service failed more than 20 times in 5 min. (link: records → &lt;!channel&gt;)"
    )
    section, context = fired["blocks"]
    assert section["type"] == "section"
    assert "Read: 31; told when above 20." in section["text"]["text"]
    assert "fallback" in section["text"]["text"]
    assert context["elements"][0]["text"].startswith("`external_service_down/records → &lt;!channel&gt;` since 2023-")
    assert over["text"].startswith("Resolved: ")
    assert "<!channel>" not in json.dumps(told, ensure_ascii=False)


def test_a_notice_arrives(slack: Scene, receiver: Receiver) -> None:
    slack.move(DEAD, "", 101)
    assert slack.worker.turn() == 1
    (got,) = receiver.got
    assert got.path == "/services/T0/hush-hush"
    assert got.headers["content-type"] == "application/json"
    assert json.loads(got.body)["text"] == "Critical: More than 100 webhook deliveries are dead."
    assert [job["state"] for job in slack.jobs()] == ["complete"]


def test_pagerduty_gets_an_incident_for_each_cause_and_its_end(pager: Scene, receiver: Receiver) -> None:
    pager.move(DEAD, "", 101)
    pager.worker.turn()
    pager.move(DEAD, "", 99)
    pager.worker.turn()
    fired, over = (json.loads(got.body) for got in receiver.got)
    assert fired["event_action"] == "trigger"
    assert fired["routing_key"] == over["routing_key"] == "r0uting-key"
    assert fired["dedup_key"] == over["dedup_key"] == "holdfast/webhook_dead_letters_critical"
    assert fired["payload"]["severity"] == "critical"
    assert fired["payload"]["source"] == "api-1"
    assert fired["payload"]["summary"] == "Critical: More than 100 webhook deliveries are dead."
    assert fired["payload"]["custom_details"]["reading"] == "101"
    assert over == {"routing_key": "r0uting-key", "event_action": "resolve", "dedup_key": fired["dedup_key"]}


def test_pagerduty_hears_of_what_is_critical_alone(pager: Scene) -> None:
    pager.move(BY_NAME["webhook_dead_letters_warning"], "", 60)
    assert pager.jobs() == []


def test_a_long_cause_still_has_a_key_that_fits() -> None:
    long = "external_service_down/" + "x" * 300
    assert len(dedup_key(long)) <= 255
    assert dedup_key(long) == dedup_key(long) != dedup_key(long + "y")


def test_any_webhook_is_signed_as_the_standard_says(
    virtual_store: Store, time: VirtualTime, receiver: Receiver
) -> None:
    sink = WebhookSink(name="own", url=Secret(f"{receiver.url}/alerts"), secret=SECRET)
    scene = Scene(virtual_store, sink)
    receiver.statuses = [503]
    scene.move(DOWN, "a → b", 31)
    scene.worker.run(time, 60, lambda: len(receiver.got) == 2)
    first, second = receiver.got
    verified = StandardWebhooks().verify(list(second.headers.items()), second.body, secrets=[SECRET])
    assert verified.event_id == first.headers["webhook-id"] == scene.jobs()[0]["id"]
    document = json.loads(second.body)
    assert document["type"] == "alert.fired"
    assert (document["data"]["rule"], document["data"]["cause"]) == ("external_service_down", "a → b")
    assert (document["data"]["value"], document["data"]["threshold"]) == (31, 20)
    assert document["data"]["action"] == "switch_provider"


def test_an_unsigned_webhook_has_no_signature(tmp_path: Path, time: VirtualTime, receiver: Receiver) -> None:
    store = open_sqlite(tmp_path)
    scene = Scene(store, WebhookSink(name="own", url=Secret(f"{receiver.url}/alerts")))
    scene.move(DEAD, "", 101)
    scene.worker.turn()
    assert "webhook-signature" not in receiver.got[0].headers
    store.close()


def test_a_notice_is_tried_again_until_it_arrives(slack: Scene, receiver: Receiver, time: VirtualTime) -> None:
    receiver.statuses = [500, 429, 503]
    slack.move(DEAD, "", 101)
    slack.worker.run(time, 300, lambda: len(receiver.got) == 4)
    assert [job["state"] for job in slack.jobs()] == ["complete"]


def test_what_a_sink_refuses_for_good_is_a_dead_letter(slack: Scene, receiver: Receiver) -> None:
    receiver.statuses = [404]
    slack.move(DEAD, "", 101)
    slack.worker.turn()
    (job,) = slack.jobs()
    assert (job["state"], job["error_code"]) == ("failed", "NOT_FOUND")


def test_a_notice_that_is_no_longer_true_is_not_sent(slack: Scene, receiver: Receiver, time: VirtualTime) -> None:
    receiver.statuses = [503]
    slack.move(DEAD, "", 101)
    slack.worker.turn()
    slack.move(DEAD, "", 99)
    slack.worker.run(time, 60, lambda: all(job["state"] == "complete" for job in slack.jobs()))
    texts = [json.loads(got.body)["text"].split(":")[0] for got in receiver.got]
    assert texts == ["Critical", "Resolved"]


def test_a_notice_waits_for_the_one_before_it(slack: Scene, receiver: Receiver, time: VirtualTime) -> None:
    slack.move(DEAD, "", 101)
    (on_its_way,) = slack.worker.claim()
    slack.move(DEAD, "", 99)
    slack.worker.turn()
    assert receiver.got == []  # the second was put off, and spent no attempt
    slack.worker.settle(on_its_way)
    slack.worker.run(time, 30, lambda: len(receiver.got) == 1)
    assert json.loads(receiver.got[0].body)["text"].startswith("Resolved")


def test_no_secret_of_a_sink_is_in_the_store_or_on_the_bus(
    slack: Scene, receiver: Receiver, virtual_store: Store
) -> None:
    hidden = "hush-hush"
    receiver.answer = b"no such hook: /services/T0/hush-hush"
    receiver.statuses = [404]
    with bus.heard() as told:
        slack.move(DEAD, "", 101)
        slack.worker.turn()
    (job,) = slack.jobs()
    assert MASK in job["error_message"]
    everything = json.dumps([job, Jobs(virtual_store).history(job["id"]), [str(one) for one in told]], default=str)
    assert hidden not in everything


def test_a_sender_that_names_the_address_in_its_error_does_not_give_it_away(tmp_path: Path, time: VirtualTime) -> None:
    def broken(request: Any) -> Any:
        raise ConnectionRefusedError(f"cannot reach {request.url}")

    store = open_sqlite(tmp_path)
    scene = Scene(store, SlackSink(name="ops", url=Secret("http://127.0.0.1:9/services/hush-hush")), broken)
    scene.move(DEAD, "", 101)
    scene.worker.turn()
    (job,) = scene.jobs()
    history = Jobs(store).history(job["id"])
    assert "CONNECTION_REFUSED" in json.dumps(history, default=str)
    assert "hush-hush" not in json.dumps([job, history], default=str)
    store.close()


async def test_a_sender_may_be_a_coroutine(store: Store, receiver: Receiver) -> None:
    import asyncio

    from holdfast.worker import Handlers, QueueSettings, Worker

    async def post_async(request: Any) -> Any:
        return await asyncio.to_thread(post, request)

    sink = SlackSink(name="ops", url=Secret(f"{receiver.url}/x"))
    handlers: Handlers = Notices(store, [sink], post_async).handlers()
    worker = Worker(store, handlers, queues=[QueueSettings(QUEUE)])
    worker.start()
    try:
        scene = Scene(store, sink)
        scene.move(DEAD, "", 101)
        (job,) = scene.jobs()
        await asyncio.to_thread(Jobs(store).wait, job["id"], 60)
    finally:
        await asyncio.to_thread(worker.stop)
        await asyncio.to_thread(worker.join, 60)
    assert len(receiver.got) == 1


def test_a_sink_that_nobody_knows_is_said(tmp_path: Path, time: VirtualTime) -> None:
    store = open_sqlite(tmp_path)
    scene = Scene(store, SlackSink(name="gone", url=Secret("http://127.0.0.1:9/")))
    scene.worker = AlertWorker(store, Notices(store, [], post).handlers())
    scene.move(DEAD, "", 101)
    scene.worker.turn()
    (job,) = scene.jobs()
    assert (job["state"], job["error_code"]) == ("failed", SINK_UNKNOWN.code)
    store.close()


def test_a_title_names_the_label_of_its_cause() -> None:
    state = judge(DOWN, 31, QUIET, 1)
    assert notice_of(DOWN, "x", state, version=1).title.endswith("(link: x)")
    assert notice_of(replace(DEAD, severity=Severity.WARNING), "", state, version=1).title.startswith("Warning: ")


def test_scrubbing_takes_out_the_address_and_its_path() -> None:
    hidden = Secret("https://hooks.example.com/services/T0/abcd")
    assert scrubbed(f"POST {hidden.reveal()} failed", [hidden]) == f"POST {MASK} failed"
    assert scrubbed("404 for services/T0/abcd", [hidden]) == f"404 for {MASK}"
    assert scrubbed("nothing to hide", [hidden]) == "nothing to hide"
