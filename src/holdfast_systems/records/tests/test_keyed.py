"""Writes under an idempotency key: one effect, one answer, and one code for both kinds of conflict."""

from __future__ import annotations

import threading

import pytest

from holdfast.store import Tx
from holdfast_systems.records import companies

from .live import Live


def test_a_repeat_under_the_same_key_gets_the_same_answer(live: Live) -> None:
    account = live.account()
    body = {"name": "Acme", "website": "https://acme.example"}
    first = account.post("/companies", body, headers={"Idempotency-Key": "one"})
    again = account.post("/companies", body, headers={"Idempotency-Key": "one"})
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.content == first.content
    assert again.headers["idempotent-replayed"] == "true"
    other = account.post("/companies", body, headers={"Idempotency-Key": "two"})
    assert (other.status_code, other.json()["error_code"]) == (409, "DUPLICATE_RECORD")
    stranger = live.account("acct_other").post("/companies", body, headers={"Idempotency-Key": "one"})
    assert stranger.status_code == 201
    assert stranger.json()["company_uid"] != first.json()["company_uid"]


def test_another_payload_under_the_same_key_is_fatal(live: Live) -> None:
    account = live.account()
    account.post("/companies", {"name": "Acme"}, headers={"Idempotency-Key": "one"})
    reply = account.post("/companies", {"name": "Other"}, headers={"Idempotency-Key": "one"})
    assert (reply.status_code, reply.json()["error_code"]) == (409, "IDEMPOTENCY_CONFLICT")
    assert reply.json()["details"] == {"retryable": False, "reason": "payload_differs"}
    assert "retry_after" not in reply.json()


def test_the_same_payload_in_flight_is_worth_coming_back_for(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    account = live.account()
    inside, go_on = threading.Event(), threading.Event()
    create = companies.create

    def slow(tx: Tx, *given: object) -> object:
        inside.set()
        assert go_on.wait(30)
        return create(tx, *given)  # type: ignore[arg-type]

    if live.store.engine == "sqlite":
        pytest.skip("a write that waits holds the only writer, and the key of its twin waits for it")
    monkeypatch.setattr(companies, "create", slow)
    found: list[int] = []
    import httpx

    from .live import Straight

    def first() -> None:
        with httpx.Client(transport=Straight(live.front), base_url=live.url) as http:
            headers = {"Authorization": f"Bearer {account.key}", "Idempotency-Key": "one"}
            found.append(http.post("/records/v1/companies", json={"name": "Acme"}, headers=headers).status_code)

    thread = threading.Thread(target=first)
    thread.start()
    assert inside.wait(30)
    reply = account.post("/companies", {"name": "Acme"}, headers={"Idempotency-Key": "one"})
    go_on.set()
    thread.join(30)
    assert (reply.status_code, reply.json()["error_code"]) == (409, "IDEMPOTENCY_CONFLICT")
    assert reply.json()["details"] == {"retryable": True, "reason": "in_flight"}
    assert reply.json()["retry_after"] >= 1
    assert found == [201]


def test_a_conflict_is_not_kept_for_a_slot_that_becomes_free(live: Live) -> None:
    account = live.account()
    uid = account.company()
    ada, bob = account.person(uid), account.person(uid, "Bob")
    slot = f"SL-{uid}-CEO"
    account.put_slot(slot, ada)
    keyed = {"headers": {"Idempotency-Key": "bob"}, "json": {"person_uid": bob}}
    assert account.ask("PUT", f"/slots/{slot}", **keyed).json()["error_code"] == "SLOT_CONFLICT"
    account.ask("DELETE", f"/slots/{slot}")
    assert account.ask("PUT", f"/slots/{slot}", **keyed).status_code == 200
