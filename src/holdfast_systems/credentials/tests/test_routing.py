"""Where events go: nowhere is said aloud, and a process that starts elsewhere takes the others along."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from holdfast.base import Secret
from holdfast.delivery import BodyHmac, Endpoints
from holdfast.store import Store
from holdfast.testing.processes import wait_until
from holdfast.worker import Worker
from holdfast_systems.credentials.alerts import OPS_TENANT
from holdfast_systems.credentials.main import build
from holdfast_systems.credentials.platform import SCHEME

from .live import LEASE_S, OPERATOR, PATIENCE_S, SECRET, Live, called, created, ground, running
from .receiver import Say, receiving

ELSEWHERE = "http://127.0.0.1:9"


def test_an_event_that_goes_nowhere_is_accepted_as_such_and_the_system_calls_itself_degraded(live: Live) -> None:
    (home,) = live.ask("GET", "/platform/v1/endpoints").json()["endpoints"]
    place = f"/platform/v1/endpoints/{home['endpoint_id']}"
    assert live.system.checks["endpoints"].probe()
    live.ask("POST", f"{place}/disable")
    assert not live.system.checks["endpoints"].probe()
    first, again = (live.ask("POST", "/platform/v1/events", json=created("evt_1")) for _ in range(2))
    assert (first.status_code, first.json()["status"]) == (202, "unrouted")
    assert first.content == again.content
    live.ask("POST", f"{place}/enable")
    told = [live.ask("POST", "/platform/v1/events", json=created(name)).json() for name in ("evt_1", "evt_2")]
    assert [one["status"] for one in told] == ["unrouted", "accepted"]


def test_a_worker_brings_events_to_the_engine_of_another_process(store: Store, tmp_path: Path) -> None:
    first = build(ground(store, tmp_path, ELSEWHERE))
    first.start()
    assert first.handlers is not None
    with running(store, tmp_path) as second:  # its start decides where the engine is
        crew = Worker(store, first.handlers, lease_s=LEASE_S)
        crew.start()
        try:
            second.ask("POST", "/platform/v1/events", json=created("evt_1"))
            second.ask("POST", "/platform/v1/events", json=created("evt_2"))
            for event_id in ("evt_1", "evt_2"):
                assert len(second.wait_event(event_id, "delivered")["deliveries"][0]["attempts"]) == 1
        finally:
            crew.stop()
            crew.join()
            first.stop()


def test_a_process_that_only_works_moves_no_endpoint(store: Store, tmp_path: Path) -> None:
    with running(store, tmp_path) as live:
        before = live.ask("GET", "/platform/v1/endpoints").json()
        environment = {"HOLDFAST_CREDENTIALS_OPS_URL": "https://ops.example/new"}
        works = build(replace(ground(store, tmp_path, ELSEWHERE, environment), serves=False))
        works.start()
        works.stop()
        assert live.ask("GET", "/platform/v1/endpoints").json() == before
        assert Endpoints(store, {}).list(tenant=OPS_TENANT) == []


def test_an_address_that_is_not_the_engine_s_is_still_refused(store: Store, tmp_path: Path) -> None:
    with receiving() as inner, running(store, tmp_path, worker=True) as live:
        made = live.ask("POST", "/platform/v1/endpoints", json={"url": "https://hooks.example/in"}).json()
        # As if its name led inside, which the door cannot see.
        Endpoints(store, {SCHEME: BodyHmac()}).update(made["endpoint_id"], url=inner.url)
        live.ask("POST", "/platform/v1/events", json=created("evt_1"))
        told = live.wait_event("evt_1", "failed")
    found = {one["endpoint_id"]: one for one in told["deliveries"]}[made["endpoint_id"]]
    assert (found["error_code"], inner.got) == ("ADDRESS_REFUSED", [])


def test_operators_are_told_at_their_new_address_alone(store: Store, tmp_path: Path) -> None:
    def told_at(url: str) -> list[tuple[str, bool]]:
        with called(store, tmp_path, environment={"HOLDFAST_CREDENTIALS_OPS_URL": url}):
            return [(one.url, one.enabled) for one in Endpoints(store, {}).list(tenant=OPS_TENANT)]

    old, new = "https://ops.example/old", "https://ops.example/new"
    assert told_at(old) == told_at(old) == [(old, True)]
    assert sorted(told_at(new)) == [(new, True), (old, False)]


def test_after_any_number_of_new_secrets_the_next_start_signs_with_the_one_of_the_settings(
    store: Store, tmp_path: Path
) -> None:
    with called(store, tmp_path) as live:
        (home,) = live.ask("GET", "/platform/v1/endpoints").json()["endpoints"]
        place = f"/platform/v1/endpoints/{home['endpoint_id']}"
        made = {live.ask("POST", f"{place}/rotate-secret").json()["secret"] for _ in range(17)}
        assert len(made) == 17
        assert live.ask("GET", place).json()["secrets_in_force"] == 1
    with called(store, tmp_path):
        held = Endpoints(store, {}).show(home["endpoint_id"])
    assert [one.secret for one in held.secrets] == [Secret(SECRET)]


def test_a_platform_alone_says_where_its_events_go(store: Store, tmp_path: Path) -> None:
    with receiving() as engine:
        engine.always = Say(200, b"OK")
        environment = {"HOLDFAST_CREDENTIALS_PARTS": "platform", "HOLDFAST_CREDENTIALS_ENGINE_URL": engine.url}
        with running(store, tmp_path, environment=environment, worker=True) as live:
            assert f"Events go to: {engine.url}" in live.system.says
            live.ask("POST", "/platform/v1/events", json=created("evt_1"))
            wait_until(lambda: engine.got, within_s=PATIENCE_S, what="the event")
    assert json.loads(engine.got[0][1])["event_id"] == "evt_1"


def test_a_body_that_does_not_say_it_is_json_is_refused_as_such(live: Live) -> None:
    body = json.dumps(created("evt_1"))
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        reply = live.http.post("/platform/v1/events", content=body, headers={**OPERATOR, "content-type": kind})
        assert (reply.status_code, reply.json()["code"]) == (415, "UNSUPPORTED_MEDIA_TYPE")
        assert reply.json()["details"] == {"supported": ["application/json"]}
    kind = "application/json; charset=utf-8"
    taken = live.http.post("/platform/v1/events", content=body, headers={**OPERATOR, "content-type": kind})
    assert taken.status_code == 202


def test_what_is_almost_a_request_is_refused_on_both_engines(live: Live) -> None:
    refused = [
        ("endpoints", {"url": "https://hooks.example/", "secret": "a\0b"}, "secret"),
        ("dead-letters/reprocess", {"limit": True}, "limit"),
        ("dead-letters/reprocess", {"limit": "3"}, "limit"),
        ("dead-letters/reprocess", {"event_id": "\0"}, "event_id"),
    ]
    for path, asked, field in refused:
        reply = live.ask("POST", f"/platform/v1/{path}", json=asked)
        told = reply.json()
        assert (reply.status_code, told["code"], told["details"]["field"]) == (400, "INVALID_PAYLOAD", field)
