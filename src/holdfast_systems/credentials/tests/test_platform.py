"""The platform: events are accepted once, delivered durably, and those that cannot be are kept."""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path

import pytest

from holdfast.base import Secret, bus
from holdfast.catalog.core import NOT_FOUND
from holdfast.delivery import Deliveries
from holdfast.operate.audit_log import entries
from holdfast.store import Store
from holdfast.store.shared_secret import shared_secret
from holdfast.testing.processes import wait_until
from holdfast.worker import Jobs, ledger
from holdfast.worker.settlement import failed
from holdfast_systems.credentials.alerts import Alerts
from holdfast_systems.credentials.main import build

from .live import OPERATOR, PATIENCE_S, SECRET, Live, called, created, ground, running, settings_file, signature
from .receiver import Receiver, Say, receiving

QUICK = "[sender]\ndelays_s = [0.01, 0.01, 0.01, 0.01]\ntimeout_s = {timeout_s}\n{more}"


def quick(folder: Path, *, timeout_s: float = 30.0, more: str = "") -> dict[str, str]:
    return settings_file(folder, QUICK.format(timeout_s=timeout_s, more=more))


@pytest.fixture
def receiver():
    with receiving() as one:
        yield one


@pytest.fixture
def sending(store: Store, tmp_path: Path, receiver: Receiver):
    """The platform with its worker, alone, before somebody else's engine."""
    environment = {
        **quick(tmp_path),
        "HOLDFAST_CREDENTIALS_PARTS": "platform",
        "HOLDFAST_CREDENTIALS_ENGINE_URL": receiver.url,
    }
    with running(store, tmp_path, environment=environment, worker=True) as live:
        yield live


# -- accepting -------------------------------------------------------------------------------------------------------


def test_an_event_without_an_id_gets_one(live: Live) -> None:
    reply = live.ask("POST", "/platform/v1/events", json=created())
    assert reply.status_code == 202
    assert re.fullmatch(r"evt_[0-9a-f]{16}", reply.json()["event_id"])
    assert live.event(reply.json()["event_id"])["payload"]["event_id"] == reply.json()["event_id"]


def test_the_same_event_again_is_the_same_answer_and_another_under_its_id_is_a_conflict(live: Live) -> None:
    event = created("evt_a1b2c3d4e5f6789a")
    first = live.ask("POST", "/platform/v1/events", json=event)
    again = live.ask("POST", "/platform/v1/events", json=dict(reversed(event.items())))
    assert (first.status_code, first.content) == (again.status_code, again.content)
    other = live.ask("POST", "/platform/v1/events", json={**event, "event_type": "por_evidence"})
    assert (other.status_code, other.json()["code"]) == (409, "EVENT_ID_TAKEN")


UNNAMED = [
    ({}, "event_type"),
    ({"event_type": "a b"}, "event_type"),
    ({"event_type": "x", "event_id": "y" * 51}, "event_id"),
    ({"event_type": "x", "event_id": 7}, "event_id"),
]


def test_an_event_that_cannot_be_named_is_refused(live: Live) -> None:
    for body, field in UNNAMED:
        reply = live.ask("POST", "/platform/v1/events", json=body)
        told = reply.json()
        assert (reply.status_code, told["code"], told["details"]["field"]) == (400, "INVALID_PAYLOAD", field)


def test_what_is_too_large_or_no_json_is_refused(live: Live) -> None:
    large = live.ask("POST", "/platform/v1/events", json={"event_type": "x", "pad": "x" * 1_048_576})
    assert (large.status_code, large.json()["code"]) == (413, "EVENT_TOO_LARGE")
    kind = {**OPERATOR, "content-type": "application/json"}
    broken = live.http.post("/platform/v1/events", content=b"{", headers=kind)
    assert (broken.status_code, broken.json()["code"]) == (400, "INVALID_JSON")


CLOSED = [("POST", "/v1/events"), ("GET", "/v1/dead-letters"), ("GET", "/v1/endpoints"), ("POST", "/v1/endpoints")]


def test_nothing_is_open_to_strangers(live: Live) -> None:
    for method, path in CLOSED:
        reply = live.http.request(method, f"/platform{path}", json={})
        assert (reply.status_code, reply.json()["code"]) == (401, "UNAUTHORIZED")
        assert reply.json()["error"] == "You are not signed in."


# -- delivering ------------------------------------------------------------------------------------------------------


def test_both_halves_together_bring_an_event_to_its_effect(store: Store, tmp_path: Path) -> None:
    with running(store, tmp_path, worker=True) as live:
        made = live.ask("POST", "/platform/v1/events", json=created()).json()
        told = live.wait_event(made["event_id"], "delivered")
        (delivery,) = told["deliveries"]
        (attempt,) = delivery["attempts"]
        assert (attempt["attempt"], attempt["outcome"], attempt["error_code"]) == (1, "delivered", None)
        assert attempt["status_code"] == 200
        assert attempt["duration_ms"] > 0
        assert live.member("user123")["reputation"] == 50


def test_an_event_is_signed_over_its_bytes_and_tried_until_it_arrives(sending: Live, receiver: Receiver) -> None:
    receiver.answers += [Say(500), Say(None), Say(429, b"{}", {"Retry-After": "0"}), Say(503)]
    made = sending.ask("POST", "/platform/v1/events", json=created("evt_a1b2c3d4e5f6789a")).json()
    told = sending.wait_event(made["event_id"], "delivered")
    attempts = told["deliveries"][0]["attempts"]
    assert [(one["outcome"], one["status_code"]) for one in attempts] == [
        ("retried", 500), ("retried", None), ("retried", 429), ("retried", 503), ("delivered", 200),
    ]  # fmt: skip
    assert len({body for _, body in receiver.got}) == 1
    for headers, body in receiver.got:
        assert headers["x-gr-signature"] == signature(body)["X-GR-Signature"]
        assert json.loads(body)["event_id"] == "evt_a1b2c3d4e5f6789a"


def test_what_the_receiver_refuses_is_not_tried_again(sending: Live, receiver: Receiver) -> None:
    for place, status in enumerate((400, 401, 403, 404, 413), 1):
        receiver.always = Say(status)
        made = sending.ask("POST", "/platform/v1/events", json=created()).json()
        told = sending.wait_event(made["event_id"], "failed")
        assert [one["status_code"] for one in told["deliveries"][0]["attempts"]] == [status]
        assert len(receiver.got) == place


def test_after_five_attempts_an_event_is_a_dead_letter_with_the_fields_of_the_contract_and_operators_are_told(
    sending: Live, receiver: Receiver
) -> None:
    receiver.always = Say(500, b'{"error":"Internal error"}')
    with bus.heard() as told:
        made = sending.ask("POST", "/platform/v1/events", json=created("evt_a1b2c3d4e5f6789a")).json()
        sending.wait_event(made["event_id"], "failed")
        wait_until(lambda: any(verb == "ops.alerted" for verb, _ in told), within_s=PATIENCE_S, what="the alert")
    assert len(receiver.got) == 5
    page = sending.ask("GET", "/platform/v1/dead-letters").json()
    (letter,) = page["dead_letters"]
    assert page["total"] == 1
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", letter["id"])
    assert (letter["event_id"], letter["event_type"]) == ("evt_a1b2c3d4e5f6789a", "contribution_created")
    assert letter["payload"] == created("evt_a1b2c3d4e5f6789a")
    assert (letter["status_code"], letter["attempts"]) == (500, 5)
    assert "Internal error" in letter["error_message"]
    assert datetime.fromisoformat(letter["last_attempt_at"]) <= datetime.fromisoformat(letter["created_at"])
    (facts,) = [said for verb, said in told if verb == "ops.alerted"]
    assert (facts["message"], facts["event_id"]) == ("Webhook DLQ: contribution_created", "evt_a1b2c3d4e5f6789a")
    (alert,) = sending.ask("GET", "/platform/v1/alerts").json()["alerts"]
    assert (alert["event_id"], alert["error"]) == ("evt_a1b2c3d4e5f6789a", letter["error_message"])


def test_dead_letters_are_reprocessed_ten_at_a_time_the_oldest_first(sending: Live, receiver: Receiver) -> None:
    receiver.always = Say(404)
    for number in range(12):
        sending.ask("POST", "/platform/v1/events", json=created(f"evt_{number:02}"))
        sending.wait_event(f"evt_{number:02}", "failed")
    first = sending.ask("GET", "/platform/v1/dead-letters", params={"count": 8}).json()
    rest = sending.ask("GET", "/platform/v1/dead-letters", params={"count": 8, "after": first["next"]}).json()
    listed = [one["event_id"] for page in (first, rest) for one in page["dead_letters"]]
    assert listed == [f"evt_{number:02}" for number in range(12)]
    receiver.always = Say(200)
    done = sending.ask("POST", "/platform/v1/dead-letters/reprocess").json()
    assert done == {"reprocessed": 10, "event_ids": [f"evt_{number:02}" for number in range(10)], "rejected": []}
    chosen = sending.ask("POST", "/platform/v1/dead-letters/reprocess", json={"event_id": "evt_11"}).json()
    assert chosen == {"reprocessed": 1, "event_ids": ["evt_11"], "rejected": []}
    for number in (*range(10), 11):
        sending.wait_event(f"evt_{number:02}", "delivered")
    assert [one["event_id"] for one in sending.ask("GET", "/platform/v1/dead-letters").json()["dead_letters"]] == [
        "evt_10"
    ]
    unknown = sending.ask("POST", "/platform/v1/dead-letters/reprocess", json={"event_id": "evt_11"})
    assert (unknown.status_code, unknown.json()["code"]) == (404, "DEAD_LETTER_NOT_FOUND")


@pytest.mark.parametrize("end", ["disabled", "removed"])
def test_dead_letters_that_no_endpoint_would_receive_are_rejected_by_name_and_keep_their_cause(
    sending: Live, receiver: Receiver, store: Store, end: str
) -> None:
    receiver.always = Say(404)
    other = sending.ask("POST", "/platform/v1/endpoints", json={"url": receiver.url + "/other"}).json()["endpoint_id"]
    sending.ask("POST", "/platform/v1/events", json=created("evt_1"))
    sending.wait_event("evt_1", "failed")
    wait_until(lambda: _dead(sending) == 2, within_s=PATIENCE_S, what="both dead letters")
    before = sending.ask("GET", "/platform/v1/dead-letters").json()["dead_letters"]
    alerts = sending.ask("GET", "/platform/v1/alerts").json()["alerts"]
    if end == "disabled":
        sending.ask("POST", f"/platform/v1/endpoints/{other}/disable")
    else:
        sending.ask("DELETE", f"/platform/v1/endpoints/{other}")
    code = {"disabled": "ENDPOINT_DISABLED", "removed": "ENDPOINT_REMOVED"}[end]
    named = sending.ask("POST", "/platform/v1/dead-letters/reprocess", json={"endpoint_id": other})
    assert (named.status_code, named.json()["code"]) == (409, code)
    assert other in named.json()["error"]
    receiver.always = Say(200)
    done = sending.ask("POST", "/platform/v1/dead-letters/reprocess", json={"limit": None}).json()
    assert (done["reprocessed"], done["event_ids"]) == (1, ["evt_1"])
    [rejected] = done["rejected"]
    assert (rejected["endpoint_id"], rejected["dead_letters"], rejected["code"]) == (other, 1, code)
    [left] = sending.ask("GET", "/platform/v1/dead-letters").json()["dead_letters"]
    assert left == next(one for one in before if one["endpoint_id"] == other), "why it died stays"
    assert sending.ask("GET", "/platform/v1/alerts").json()["alerts"] == alerts, "nobody is told anew"
    gone = sending.ask("POST", "/platform/v1/dead-letters/discard", json={"endpoint_id": other, "reason": "closed"})
    assert gone.json() == {"discarded": 1, "event_ids": ["evt_1"]}
    assert _dead(sending) == 0
    rows = store.atomic(lambda tx: entries(tx), write=False)
    assert [(row.verb, row.state, row.done) for row in rows][:3] == [
        ("discard", "done", 1), ("reprocess", "done", 1), ("reprocess", "refused", 0),
    ]  # fmt: skip
    assert {(row.actor_kind, row.actor, row.address) for row in rows} == {("api", "operator", "127.0.0.1")}


def test_more_than_a_page_is_reprocessed_at_once(store: Store, tmp_path: Path, receiver: Receiver) -> None:
    environment = {**quick(tmp_path), "HOLDFAST_CREDENTIALS_ENGINE_URL": receiver.url}
    with running(store, tmp_path, environment=environment) as live:
        for number in range(205):
            live.ask("POST", "/platform/v1/events", json=created(f"evt_{number:03}"))
        held = store.atomic(lambda tx: ledger.claim(tx, queue="webhooks", worker="w-1", count=300))
        dead = [failed(job, NOT_FOUND(), None, 5, blamed=False) for job in held]
        store.atomic(lambda tx: ledger.settle(tx, "w-1", (), dead))
        done = live.ask("POST", "/platform/v1/dead-letters/reprocess", json={"limit": 204}).json()
        assert (done["reprocessed"], len(done["event_ids"])) == (204, 204)
        assert live.ask("POST", "/platform/v1/dead-letters/discard", json={}).status_code == 400


def _dead(live: Live) -> int:
    return int(live.ask("GET", "/platform/v1/dead-letters").json()["total"])


def test_operators_are_told_at_their_own_address_once_for_each_time_an_event_is_given_up(
    store: Store, tmp_path: Path, receiver: Receiver
) -> None:
    receiver.always = Say(404)
    with receiving() as ops:
        environment = {
            **quick(tmp_path),
            "HOLDFAST_CREDENTIALS_PARTS": "platform",
            "HOLDFAST_CREDENTIALS_ENGINE_URL": receiver.url,
            "HOLDFAST_CREDENTIALS_OPS_URL": ops.url,
        }
        with running(store, tmp_path, environment=environment, worker=True) as live:
            live.ask("POST", "/platform/v1/events", json=created("evt_1"))
            wait_until(lambda: len(ops.got) == 1, within_s=PATIENCE_S, what="the first alert")
            live.ask("POST", "/platform/v1/dead-letters/reprocess")
            wait_until(lambda: len(ops.got) == 2, within_s=PATIENCE_S, what="the second alert")
    told = [json.loads(body) for _, body in ops.got]
    assert {(one["message"], one["event_id"]) for one in told} == {("Webhook DLQ: contribution_created", "evt_1")}
    assert "404" in told[0]["error"]


def test_what_died_while_nobody_looked_is_told_at_the_next_start_and_once(
    store: Store, tmp_path: Path, receiver: Receiver
) -> None:
    receiver.always = Say(404)
    environment = {**quick(tmp_path), "HOLDFAST_CREDENTIALS_ENGINE_URL": receiver.url}
    with running(store, tmp_path, environment=environment, worker=True) as live:
        live.ask("POST", "/platform/v1/events", json=created("evt_1"))
        live.wait_event("evt_1", "failed")
    # As if the process had died before it could tell.
    store.atomic(lambda tx: tx._execute("DELETE FROM holdfast_credentials_alert", {}))
    jobs = Jobs(store)
    with bus.heard() as told:
        one, other = (Alerts(store, Deliveries(store, jobs)) for _ in range(2))
        assert (one.look() + other.look(), one.look()) == (1, 0)
    jobs.close()
    assert [facts["event_id"] for verb, facts in told if verb == "ops.alerted"] == ["evt_1"]


def test_what_is_not_there_is_not_found(live: Live) -> None:
    for path, code in (("events/evt_none", "EVENT_NOT_FOUND"), ("endpoints/ep_none", "ENDPOINT_NOT_FOUND")):
        reply = live.ask("GET", f"/platform/v1/{path}")
        assert (reply.status_code, reply.json()["code"]) == (404, code)


# -- starting --------------------------------------------------------------------------------------------------------


def test_a_secret_that_nobody_set_is_made_once_kept_and_told_only_then(store: Store, tmp_path: Path) -> None:
    def says() -> list[str]:
        one = ground(store, tmp_path, "http://127.0.0.1:9")
        system = build(type(one)(store=store, folder=tmp_path, address=one.address, token=one.token, environment={}))
        system.stop()
        return [line for line in system.says if "secret" in line]

    (first,), then = says(), says()
    assert re.search(r": [0-9a-f]{64}$", first)
    assert then == []
    assert shared_secret(store, "credentials:gotong_royong").reveal() in first


def test_a_secret_that_was_set_is_never_told(live: Live) -> None:
    assert not any(SECRET in line for line in live.system.says)


def test_a_new_port_and_a_new_secret_change_the_endpoint_and_add_none(store: Store, tmp_path: Path) -> None:
    with called(store, tmp_path):
        pass
    moved = {"HOLDFAST_CREDENTIALS_SECRET": "rotated", "HOLDFAST_CREDENTIALS_ENGINE_URL": "https://engine.example/hook"}
    with called(store, tmp_path, environment=moved) as live:
        (only,) = live.ask("GET", "/platform/v1/endpoints").json()["endpoints"]
        assert (only["url"], only["secrets_in_force"]) == ("https://engine.example/hook", 1)
        jobs = Jobs(store)
        held = Deliveries(store, jobs).endpoints.show(only["endpoint_id"])
        jobs.close()
        assert [one.secret for one in held.secrets] == [Secret("rotated")]


@pytest.mark.parametrize("part", ["platform", "engine"])
def test_each_half_runs_alone(store: Store, tmp_path: Path, part: str) -> None:
    with called(store, tmp_path, environment={"HOLDFAST_CREDENTIALS_PARTS": part}) as live:
        assert list(live.system.parts) == [part]
        assert (live.system.handlers is not None) == (part == "platform")
        assert live.ask("GET", f"/{part}/openapi.json").status_code == 200


def test_nothing_that_is_asked_here_changes_an_endpoint_of_another_tenant(store: Store, tmp_path: Path) -> None:
    with called(store, tmp_path) as live:
        others = Deliveries(store, Jobs(store), tenant="somebody_else").endpoints
        for enabled in (True, False):
            theirs = others.add("http://127.0.0.1:9/theirs").id
            if not enabled:
                others.disable(theirs, reason="theirs to say")
            before, path = others.show(theirs), f"/platform/v1/endpoints/{theirs}"
            asked = [
                live.ask("PATCH", path, json={"event_types": ["contribution_created"]}),
                live.ask("DELETE", path),
                live.ask("POST", f"{path}/enable"),
                live.ask("POST", f"{path}/rotate-secret"),
            ]
            assert [reply.status_code for reply in asked] == [404] * 4, [reply.text for reply in asked]
            assert others.show(theirs) == before
