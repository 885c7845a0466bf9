"""The webhook over real HTTP: the answers of the contract, and one effect for each event."""

from __future__ import annotations

import itertools
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from holdfast.base import bus, now_us, utc_text
from holdfast.catalog import COMMIT_UNKNOWN, Fault
from holdfast.catalog.core import DATABASE_CONNECTION_ERROR, TRANSACTION_ROLLED_BACK
from holdfast.store import Store
from holdfast_systems.credentials.engine import answerable

from .live import ALICE, OPERATOR, WEBHOOK, Live, about, called, created, evidence, settings_file, signature, vouch

DAY_US = 86_400_000_000


def answer(reply: httpx.Response) -> tuple[int, dict]:
    return reply.status_code, reply.json()


# -- the examples of the contract ------------------------------------------------------------------------------------


def test_a_missing_field_is_answered_as_the_contract_shows(server: Live) -> None:
    request = {
        "event_type": "contribution_created",
        "actor": {"user_id": "user123"},
        "subject": {"contribution_type": "task_completion", "title": "Test"},
    }
    reply = server.send(request)
    assert reply.headers["content-type"] == "application/json"
    assert reply.text == (
        '{"error":"Missing required field: actor.username","code":"INVALID_PAYLOAD",'
        '"details":{"field":"actor.username","reason":"required"}}'
    )
    assert reply.status_code == 400


def test_a_wrong_signature_is_answered_as_the_contract_shows(live: Live) -> None:
    reply = live.send(created(), secret="another")
    assert answer(reply) == (401, {"error": "Signature verification failed", "code": "UNAUTHORIZED"})


def test_old_evidence_is_answered_as_the_contract_shows_under_the_code_of_its_table(live: Live) -> None:
    request = {
        "event_type": "por_evidence",
        "actor": ALICE,
        "subject": {"contribution_id": "contrib_abc", "evidence_type": "photo_with_timestamp", "evidence_data": {}},
        "proof": {"timestamp": utc_text(now_us() - 40 * DAY_US - 1_000_000), "media_hash": "abc123"},
    }
    expected = {"field": "proof.timestamp", "reason": "exceeds_max_age", "max_age_days": 30, "actual_age_days": 40}
    told = {"error": "Timestamp is too old: 40 days", "code": "INVALID_TIMESTAMP", "details": expected}
    assert answer(live.send(request)) == (400, told)


def test_too_many_requests_are_answered_as_the_contract_shows(store: Store, tmp_path: Path) -> None:
    limited = settings_file(tmp_path, "[platforms.gotong_royong]\nlimit = 3\n")
    with called(store, tmp_path, environment=limited) as live:
        replies = [live.send(created(f"evt_{number}")) for number in range(4)]
    assert [reply.status_code for reply in replies] == [200, 200, 200, 429]
    refused = replies[-1]
    wait_s = refused.json()["details"]["retry_after_seconds"]
    assert 50 < wait_s <= 60
    assert refused.headers["retry-after"] == str(wait_s)
    details = {"retry_after_seconds": wait_s, "limit": 3, "window_seconds": 60}
    assert refused.json() == {"error": "Rate limit exceeded", "code": "RATE_LIMIT_EXCEEDED", "details": details}


# -- the tables of codes ---------------------------------------------------------------------------------------------

BODY = json.dumps(created("evt_table")).encode()
REFUSALS = {
    "no signature": (BODY, {}, 401, "UNAUTHORIZED"),
    "another scheme": (BODY, {"X-GR-Signature": "md5=00"}, 401, "INVALID_SIGNATURE_FORMAT"),
    "a signature of another body": (BODY, signature(b"{}"), 401, "UNAUTHORIZED"),
    "no JSON": (b"{", signature(b"{"), 400, "INVALID_JSON"),
    "no object": (b"[]", signature(b"[]"), 400, "INVALID_PAYLOAD"),
    "an unknown type": (b'{"event_type":"x"}', signature(b'{"event_type":"x"}'), 400, "INVALID_EVENT_TYPE"),
}


def test_each_refusal_has_the_code_and_status_of_its_table(live: Live) -> None:
    told = {}
    for case, (body, headers, *_) in REFUSALS.items():
        reply = live.http.post(WEBHOOK, content=body, headers=headers)
        told[case] = (reply.status_code, reply.json()["code"])
    assert told == {case: (status, code) for case, (_, _, status, code) in REFUSALS.items()}


def test_an_unknown_platform_is_not_found(live: Live) -> None:
    reply = live.http.post("/engine/v1/platforms/nobody/webhook", content=BODY, headers=signature(BODY))
    assert (reply.status_code, reply.json()["code"]) == (404, "NOT_FOUND")


def test_another_method_is_refused(live: Live) -> None:
    assert (live.http.get(WEBHOOK).status_code, live.http.get(WEBHOOK).json()["code"]) == (405, "METHOD_NOT_ALLOWED")


def test_a_body_over_a_megabyte_is_cut_off_while_it_streams(server: Live) -> None:
    sent = 0

    def pieces():
        nonlocal sent
        for _ in range(64):
            sent += 65_536
            yield b"x" * 65_536

    try:
        reply = server.http.post(WEBHOOK, content=pieces(), headers=signature(b""))
    except (httpx.WriteError, httpx.ReadError):
        assert sent < 64 * 65_536  # the engine hung up in the middle
        return
    told = {"error": "Payload exceeds 1MB", "code": "PAYLOAD_TOO_LARGE", "details": {"bytes_max": 1_048_576}}
    assert answer(reply) == (413, told)


def test_a_body_that_announces_too_much_is_refused_unread(live: Live) -> None:
    reply = live.send(b" " * 1_048_577)
    assert (reply.status_code, reply.json()["code"]) == (413, "PAYLOAD_TOO_LARGE")
    assert live.send(b" " * 1_048_576).json()["code"] == "INVALID_JSON"


def test_only_the_networks_of_a_platform_may_send(store: Store, tmp_path: Path) -> None:
    text = '[platforms.gotong_royong]\nnetworks = ["203.0.113.0/24"]\n[platforms.other]\nsecrets = ["x"]\n'
    with called(store, tmp_path, environment=settings_file(tmp_path, text)) as live:
        assert answer(live.send(created()))[1]["error"] == "IP not whitelisted"
        assert (live.send(created()).status_code, live.send(created()).json()["code"]) == (403, "FORBIDDEN")
        body = json.dumps(created("evt_other")).encode()
        other = live.http.post("/engine/v1/platforms/other/webhook", content=body, headers=signature(body, "x"))
        assert other.status_code == 200


def test_every_secret_in_rotation_is_accepted(store: Store, tmp_path: Path) -> None:
    text = '[platforms.gotong_royong]\nsecrets = ["new", "old"]\n'
    with called(store, tmp_path, environment=settings_file(tmp_path, text)) as live:
        codes = [live.send(created(f"evt_{secret}"), secret=secret).status_code for secret in ("new", "old", "older")]
    assert codes == [200, 200, 401]


def test_during_maintenance_senders_are_asked_to_come_back(store: Store, tmp_path: Path) -> None:
    with called(store, tmp_path, environment={"HOLDFAST_CREDENTIALS_MAINTENANCE": "1"}) as live:
        reply = live.send(created())
    assert answer(reply) == (503, {"error": "Temporary maintenance", "code": "SERVICE_UNAVAILABLE"})
    assert reply.headers["retry-after"] == "60"


def test_an_error_that_nobody_expected_is_told_without_its_text_and_sending_again_works(
    store: Store, tmp_path: Path
) -> None:
    with called(store, tmp_path, environment={"HOLDFAST_CREDENTIALS_PARTS": "engine"}) as live:
        store.atomic(lambda tx: tx._execute("ALTER TABLE holdfast_credentials_processed_event RENAME TO hidden", {}))
        broken = live.send(created("evt_1"))
        store.atomic(lambda tx: tx._execute("ALTER TABLE hidden RENAME TO holdfast_credentials_processed_event", {}))
        assert answer(broken) == (500, {"error": "Unexpected server error", "code": "INTERNAL_ERROR"})
        assert live.send(created("evt_1")).status_code == 200


@pytest.mark.parametrize("fault", [DATABASE_CONNECTION_ERROR, TRANSACTION_ROLLED_BACK, COMMIT_UNKNOWN])
def test_without_its_database_the_engine_asks_to_come_back_in_a_code_of_the_contract(fault: Fault) -> None:
    told = answerable(fault())
    assert (told.code, told.status, told.retry_after_s) == ("SERVICE_UNAVAILABLE", 503, 5.0)


# -- once, in any order ----------------------------------------------------------------------------------------------


def test_a_repeat_gets_the_first_result_and_changes_nothing(live: Live) -> None:
    first, second = live.send(created("evt_1")), live.send(created("evt_1"))
    assert (first.status_code, second.status_code) == (200, 200)
    assert first.content == second.content
    assert "idempotent-replayed" not in first.headers
    assert second.headers["idempotent-replayed"] == "true"
    assert (live.member("user123")["contribution_count"], live.member("user123")["reputation"]) == (1, 50)


def test_a_hundred_parallel_repeats_have_one_effect_and_one_answer(server: Live) -> None:
    body = json.dumps(created("evt_1")).encode()

    def send(_: int) -> httpx.Response:
        return server.http.post(WEBHOOK, content=body, headers=signature(body))

    with ThreadPoolExecutor(25) as threads:
        replies = list(threads.map(send, range(100)))
    assert {reply.status_code for reply in replies} == {200}
    assert len({reply.content for reply in replies}) == 1
    assert sum("idempotent-replayed" not in reply.headers for reply in replies) == 1
    assert server.member("user123")["reputation"] == 50


def test_a_repeat_of_evidence_that_has_grown_too_old_gets_its_first_result(live: Live) -> None:
    first = live.send(evidence("evt_1", "c1"))
    old = evidence("evt_1", "c1", age_s=31 * 86_400)
    assert (first.status_code, live.send(old).status_code) == (202, 200)
    assert live.send({**old, "event_id": "evt_2"}).json()["code"] == "INVALID_TIMESTAMP"


def test_an_event_without_an_id_is_known_by_what_it_says(live: Live) -> None:
    first, second = live.send(created()), live.send(json.dumps(created(), indent=2).encode())
    assert first.content == second.content
    assert live.member("user123")["contribution_count"] == 1


def test_evidence_before_its_contribution_is_parked_and_counts_when_that_comes(live: Live) -> None:
    parked = live.send(evidence("evt_1", "c1"))
    assert (parked.status_code, parked.json()["status"]) == (202, "parked")
    assert live.ask("GET", "/engine/v1/platforms/gotong_royong/users/user123").status_code == 404
    assert live.ask("GET", "/engine/v1/platforms").json()["platforms"][0]["parked"] == 1
    arrived = live.send(created("evt_2", "c1"))
    assert (arrived.json()["reputation_delta"], arrived.json()["released"]) == (60, 1)
    shown = live.ask("GET", "/engine/v1/platforms/gotong_royong/contributions/c1").json()
    assert shown["statements"][0]["applied_at"] is not None
    assert live.ask("GET", "/engine/v1/platforms").json()["platforms"][0]["parked"] == 0


def test_every_order_of_the_same_events_comes_to_the_same(store: Store, tmp_path: Path) -> None:
    def events(owner: str) -> list[dict]:
        mine = f"c_{owner}"
        return [
            created(f"evt_{owner}_1", mine, user=owner),
            evidence(f"evt_{owner}_2", mine),
            about("contribution_verified", f"evt_{owner}_3", mine),
            vouch(f"evt_{owner}_4", owner, "strong"),
        ]

    orders = list(itertools.permutations(range(4)))
    with called(store, tmp_path) as live:
        for place, order in enumerate(orders):
            made = events(f"u{place}")
            for number in (*order, *order):  # everything comes twice
                assert live.send(made[number]).status_code in {200, 202}
        standings = {
            json.dumps({name: value for name, value in live.member(f"u{place}").items() if name.endswith("_count")})
            + str(live.member(f"u{place}")["reputation"])
            for place in range(len(orders))
        }
    assert len(standings) == 1
    assert standings.pop().endswith(str(50 + 10 + 25 + 15))


def test_a_rejected_contribution_is_worth_nothing_whenever_that_is_heard(live: Live) -> None:
    for owner, order in (("early", (0, 1, 2)), ("late", (2, 1, 0))):
        made = [
            created(f"evt_{owner}_1", f"c_{owner}", user=owner),
            evidence(f"evt_{owner}_2", f"c_{owner}"),
            about("contribution_rejected", f"evt_{owner}_3", f"c_{owner}"),
        ]
        for number in order:
            live.send(made[number])
        found = live.member(owner)
        assert (found["contribution_count"], found["rejected_count"], found["reputation"]) == (1, 1, 0)


def test_a_contribution_that_is_told_twice_under_different_ids_counts_once(live: Live) -> None:
    live.send(created("evt_1", "c1"))
    assert live.send(created("evt_2", "c1")).json()["status"] == "known"
    assert live.member("user123")["contribution_count"] == 1


# -- who may read ----------------------------------------------------------------------------------------------------


def test_reading_takes_the_operators_token(live: Live) -> None:
    for path in ("/v1/platforms", "/v1/platforms/gotong_royong/users", "/openapi.json"):
        assert live.http.get(f"/engine{path}").status_code == 401
        assert live.http.get(f"/engine{path}", headers=OPERATOR).status_code == 200


def test_people_are_listed_by_reputation_page_by_page(live: Live) -> None:
    for place, weight in enumerate(("light", "strong", "moderate")):
        live.send(vouch(f"evt_{place}", f"user_{weight}", weight))
    page = live.ask("GET", "/engine/v1/platforms/gotong_royong/users", params={"count": 2}).json()
    assert [one["user_id"] for one in page["users"]] == ["user_strong", "user_moderate"]
    rest = live.ask("GET", "/engine/v1/platforms/gotong_royong/users", params={"count": 2, **page["next"]}).json()
    assert [one["user_id"] for one in rest["users"]] == ["user_light"]
    assert rest["next"] is None


def test_every_webhook_is_told_on_the_bus_once_and_by_its_id_where_it_is_genuine(live: Live) -> None:
    with bus.heard() as told:
        live.send(created("evt_1"))
        live.send(created("evt_1"))
        live.send(created("evt_2"), secret="wrong")
        live.send({**created("evt_3"), "actor": {}})
        live.send(b"{")
    facts = [said for verb, said in told if verb == "webhook.received"]
    assert [(one["event_id"], one["code"]) for one in facts] == [
        ("evt_1", None),
        ("evt_1", None),
        (None, "UNAUTHORIZED"),
        ("evt_3", "INVALID_PAYLOAD"),
        (None, "INVALID_JSON"),
    ]
    assert {one["source"] for one in facts} == {"gotong_royong"}
