"""Verification: a durable queue, a provider with a fallback, results that are remembered."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.base import bus
from holdfast.catalog import Failure
from holdfast.store import Engine, Store, Tx
from holdfast.testing.processes import wait_until
from holdfast.watch.switch import Side, Switch
from holdfast.worker import Jobs
from holdfast_systems.records.faults import RECORDS
from holdfast_systems.records.settings import Settings
from holdfast_systems.records.verdicts import Result, millionverifier_verdict, zerobounce_verdict
from holdfast_systems.records.verification import SWITCH, Verifications

from .live import PATIENCE_S, Live, running

QUICK = {"VERIFICATION_TIMEOUT_S": "2", "VERIFICATION_BUDGET_S": "4"}


@pytest.fixture
def working(store: Store, tmp_path: Path) -> Iterator[Live]:
    with running(store, tmp_path, worker=True, **QUICK) as live:
        yield live


def faults(live: Live, name: str, **wanted: Any) -> None:
    path = f"/standins/{name}/faults"
    reply = live.http.put(path, json=wanted) if wanted else live.http.delete(path)
    reply.raise_for_status()


def test_an_address_is_verified_once_and_remembered(working: Live) -> None:
    account = working.account()
    asked = account.post("/verifications", {"email": "ada@acme.example"})
    assert asked.status_code == 202
    found = account.settled(f"/verifications/{asked.json()['verification_id']}")
    assert (found["status"], found["provider"], found["result"]) == ("complete", "millionverifier", "valid")
    again = account.post("/verifications", {"email": "ada@acme.example"})
    assert (again.status_code, again.json()["cached"]) == (200, True)
    assert again.json()["verification_id"] == asked.json()["verification_id"]
    other = working.account("acct_other").post("/verifications", {"email": "ada@acme.example"})
    assert other.status_code == 202
    assert [one["email"] for one in account.get("/verifications").json()["verifications"]] == ["ada@acme.example"]


def test_a_persons_address_is_verified_and_waited_for(working: Live) -> None:
    account = working.account()
    person = account.person(account.company(), email="invalid@acme.example")
    reply = account.post("/verifications", {"person_uid": person}, headers={"Prefer": "wait=20"})
    assert reply.status_code == 200
    assert (reply.json()["result"], reply.json()["person_uid"]) == ("invalid", person)


def test_when_the_provider_fails_the_fallback_answers(working: Live) -> None:
    account = working.account()
    faults(working, "millionverifier", status=503)
    found = account.post("/verifications", {"email": "a@acme.example"}, headers={"Prefer": "wait=20"}).json()
    assert (found["provider"], found["result"]) == ("zerobounce", "valid")
    faults(working, "millionverifier", hang=True)
    found = account.post("/verifications", {"email": "b@acme.example"}, headers={"Prefer": "wait=20"}).json()
    assert found["provider"] == "zerobounce"


def test_when_both_fail_the_reasons_of_both_are_told(working: Live) -> None:
    account = working.account()
    faults(working, "millionverifier", status=503)
    faults(working, "zerobounce", garbage=True)
    reply = account.post("/verifications", {"email": "a@acme.example"}, headers={"Prefer": "wait=30"})
    assert (reply.status_code, reply.json()["error_code"]) == (503, "VALIDATION_SERVICE_ERROR")
    assert reply.json()["details"] == {
        "provider": "millionverifier",
        "provider_error": "http_503",
        "fallback_available": True,
        "fallback_provider": "zerobounce",
        "fallback_error": "unreadable_answer",
    }
    assert reply.json()["retry_after"] == 300
    (failed,) = account.get("/verifications").json()["verifications"]
    assert (failed["status"], failed["error"]["error_code"]) == ("failed", "VALIDATION_SERVICE_ERROR")
    assert failed["error"]["details"]["fallback_provider"] == "zerobounce"


def test_the_switch_decides_who_is_asked_first(working: Live) -> None:
    account = working.account()
    switch = Switch(working.store)
    switch.flip(SWITCH, Side.FALLBACK, reason="a test")
    # The answer of the switch is remembered for a second.
    asked = [
        account.post("/verifications", {"email": f"p{number}@acme.example"}, headers={"Prefer": "wait=20"}).json()
        for number in range(40)
    ]
    assert asked[-1]["provider"] == "zerobounce"


def test_a_bad_key_is_told_to_operators_once_and_the_fallback_answers(store: Store, tmp_path: Path) -> None:
    with bus.heard() as told, running(store, tmp_path, worker=True, MILLIONVERIFIER_KEY="bad-key") as live:
        account = live.account()
        for number in range(3):
            reply = account.post("/verifications", {"email": f"p{number}@acme.example"}, headers={"Prefer": "wait=20"})
            assert reply.json()["provider"] == "zerobounce"
    alerted = [facts for verb, facts in told if verb == "ops.alerted"]
    assert [(one["provider"], one["error"]) for one in alerted] == [("millionverifier", "bad_key")]


def test_two_who_ask_at_once_do_not_share_the_last_place(store: Store, tmp_path: Path) -> None:
    with running(store, tmp_path, VERIFICATION_QUEUE_MAX="1") as live:
        account = live.account()
        asked, go_on = threading.Event(), threading.Event()
        settings = Settings(verification_queue_max=1)
        verifications = Verifications(store, Jobs(store), settings, RECORDS)

        def slow(tx: Tx) -> None:
            verifications.ask(tx, "acct_slow", email="slow@acme.example", person_uid=None)
            asked.set()
            assert go_on.wait(PATIENCE_S)

        replies: list[Any] = []
        first = threading.Thread(target=lambda: store.atomic(slow))
        second = threading.Thread(
            target=lambda: replies.append(account.post("/verifications", {"email": "quick@acme.example"}))
        )
        first.start()
        assert asked.wait(PATIENCE_S)
        second.start()
        if store.engine is Engine.POSTGRESQL:  # on SQLite the second cannot even begin
            wait_until(lambda: replies or waits_for_a_lock(store), within_s=PATIENCE_S, what="the second has asked")
        go_on.set()
        first.join(PATIENCE_S)
        second.join(PATIENCE_S)
        assert (replies[0].status_code, replies[0].json()["error_code"]) == (429, "VALIDATION_QUEUE_FULL")


def waits_for_a_lock(store: Store) -> bool:
    looked = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    return bool(store.atomic(lambda tx: tx._execute(looked, {}).fetchall(), write=False))


def test_of_many_who_ask_at_once_as_many_get_in_as_there_is_room(store: Store, tmp_path: Path) -> None:
    with running(store, tmp_path, VERIFICATION_QUEUE_MAX="5", QUEUEING_TARGET_S="60") as live:
        account = live.account()

        async def all_at_once() -> list[httpx.Response]:
            headers = {"Authorization": f"Bearer {account.key}"}
            async with httpx.AsyncClient(base_url=live.url, headers=headers, timeout=PATIENCE_S) as http:
                bodies = [{"email": f"p{number}@acme.example"} for number in range(40)]
                return await asyncio.gather(*(http.post("/records/v1/verifications", json=body) for body in bodies))

        replies = asyncio.run(all_at_once())
        assert sorted(reply.status_code for reply in replies) == [202] * 5 + [429] * 35
        assert {reply.json()["error_code"] for reply in replies if reply.status_code == 429} == {
            "VALIDATION_QUEUE_FULL"
        }
        assert len(account.get("/verifications").json()["verifications"]) == 5


def test_a_full_queue_refuses_and_says_when_to_come_back(store: Store, tmp_path: Path) -> None:
    with running(store, tmp_path, VERIFICATION_QUEUE_MAX="2") as live:
        account = live.account()
        for number in range(2):
            assert account.post("/verifications", {"email": f"p{number}@acme.example"}).status_code == 202
        full = account.post("/verifications", {"email": "p2@acme.example"}, headers={"Idempotency-Key": "k"})
        assert (full.status_code, full.json()["error_code"]) == (429, "VALIDATION_QUEUE_FULL")
        assert full.json()["retry_after"] >= 1
        assert full.json()["details"] == {"queued": 2, "queue_max": 2, "retryable": True}
        with live.working():
            account.seen("/verifications", lambda found: all(one["result"] for one in found["verifications"]))
        again = account.post("/verifications", {"email": "p2@acme.example"}, headers={"Idempotency-Key": "k"})
        assert again.status_code == 202


def test_either_an_address_or_a_person_is_verified(solo: Live) -> None:
    account = solo.account()
    for body in ({}, {"email": "nonsense"}, {"email": "a@b.example", "person_uid": "PE-20240101-000001"}, []):
        reply = account.post("/verifications", body)
        assert (reply.status_code, reply.json()["error_code"]) == (400, "VALIDATION_ERROR"), body
    assert account.post("/verifications", {"person_uid": "PE-20240101-000001"}).status_code == 404


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ({"result": "ok"}, Result.VALID),
        ({"result": "catch_all"}, Result.CATCH_ALL),
        ({"result": "disposable"}, Result.DISPOSABLE),
        ({"result": "error", "error": "apikey not found"}, "PROVIDER_REFUSES_US"),
        ({"result": "error", "error": "Insufficient credits"}, "PROVIDER_REFUSES_US"),
        ({"result": "error", "error": "IP address blocked"}, "PROVIDER_REFUSES_US"),
        ({"result": "error", "error": "Internal error"}, "EXTERNAL_SERVICE_ERROR"),
        ({"result": "never heard of"}, "EXTERNAL_SERVICE_ERROR"),
        ({}, "EXTERNAL_SERVICE_ERROR"),
    ],
)
def test_millionverifier_is_read_by_its_body(answer: dict[str, Any], result: str) -> None:
    assert read(millionverifier_verdict, answer) == result


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ({"status": "valid"}, Result.VALID),
        ({"status": "spamtrap"}, Result.RISKY),
        ({"status": "unknown", "sub_status": "timeout_exceeded"}, Result.UNKNOWN),
        ({"error": "Invalid API key or your account ran out of credits"}, "PROVIDER_REFUSES_US"),
        ({"error": "something else"}, "EXTERNAL_SERVICE_ERROR"),
        ({"status": 7}, "EXTERNAL_SERVICE_ERROR"),
    ],
)
def test_zerobounce_is_read_by_its_body(answer: dict[str, Any], result: str) -> None:
    assert read(zerobounce_verdict, answer) == result


def test_some_unknowns_are_worth_another_try() -> None:
    assert zerobounce_verdict({"status": "unknown", "sub_status": "greylisted"}).again
    assert not zerobounce_verdict({"status": "unknown", "sub_status": "mailbox_quota_exceeded"}).again


def read(verdict: Any, answer: dict[str, Any]) -> str:
    try:
        return str(verdict(answer).result)
    except Failure as failure:
        return failure.code
