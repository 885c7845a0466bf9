"""Slots: assigned, freed, fought over, and decided by a person."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx

from holdfast.store import Store

from .live import Account, Live, running

RACERS = 200


def scene(account: Account, people: int = 2) -> tuple[str, list[str]]:
    uid = account.company()
    return f"SL-{uid}-CEO", [account.person(uid, f"Person {number}") for number in range(people)]


def test_a_free_slot_is_assigned_and_freed(live: Live) -> None:
    account = live.account()
    slot, (ada, _) = scene(account)
    assigned = account.put_slot(slot, ada)
    assert assigned.status_code == 200
    assert (assigned.json()["status"], assigned.json()["previous_occupant"]) == ("assigned", None)
    assert account.put_slot(slot, ada).json()["status"] == "unchanged"
    freed = account.ask("DELETE", f"/slots/{slot}").json()
    assert (freed["status"], freed["previous_occupant"]) == ("free", ada)
    assert account.ask("DELETE", f"/slots/{slot}").json()["previous_occupant"] is None


def test_a_conflict_says_who_sits_there_and_the_ways_out(live: Live) -> None:
    account = live.account()
    slot, (ada, bob) = scene(account)
    account.put_slot(slot, ada)
    refused = account.put_slot(slot, bob)
    assert (refused.status_code, refused.json()["error_code"]) == (409, "SLOT_CONFLICT")
    assert refused.json()["details"] == {
        "slot_uid": slot,
        "current_occupant": ada,
        "resolution_options": ["force_reassign", "assign_to_different_slot", "manual_review"],
    }
    forced = account.put_slot(slot, bob, on_conflict="force_reassign")
    assert (forced.json()["status"], forced.json()["previous_occupant"]) == ("reassigned", ada)


def test_a_review_stands_in_the_list_until_a_person_decides(live: Live) -> None:
    account = live.account()
    slot, (ada, bob) = scene(account)
    account.put_slot(slot, ada)
    asked = account.put_slot(slot, bob, on_conflict="manual_review")
    assert (asked.status_code, asked.json()["status"]) == (202, "pending_review")
    review = asked.json()["review_id"]
    listed = account.get("/reviews?status=open").json()["reviews"]
    assert [(one["review_id"], one["current_occupant"], one["person_uid"]) for one in listed] == [(review, ada, bob)]
    approved = account.post(f"/reviews/{review}/approve")
    assert (approved.status_code, approved.json()["status"]) == (200, "approved")
    assert account.get(f"/companies/{slot[3:-4]}").json()["slots"][0]["person_uid"] == bob
    again = account.post(f"/reviews/{review}/reject")
    assert (again.status_code, again.json()["details"]["rule"]) == (422, "review_decided")
    second = account.put_slot(slot, ada, on_conflict="manual_review").json()["review_id"]
    assert account.post(f"/reviews/{second}/reject").json()["status"] == "rejected"
    assert account.get(f"/companies/{slot[3:-4]}").json()["slots"][0]["person_uid"] == bob
    assert account.get("/reviews?status=open").json()["reviews"] == []


def test_a_person_of_another_company_does_not_get_the_slot(live: Live) -> None:
    account = live.account()
    slot, _ = scene(account, people=0)
    stranger = account.person(account.company("Other"))
    refused = account.put_slot(slot, stranger)
    assert (refused.status_code, refused.json()["details"]["rule"]) == (422, "person_of_another_company")
    missing = account.put_slot(slot, "PE-20240101-000001")
    assert (missing.status_code, missing.json()["error_code"]) == (404, "PERSON_NOT_FOUND")
    for unknown in ("SL-CO-20240101-000001-CEO", "SL-nonsense", f"{slot[:-3]}CTO"):
        reply = account.put_slot(unknown, stranger)
        assert (reply.status_code, reply.json()["error_code"]) == (404, "SLOT_NOT_FOUND")


def test_of_two_hundred_racers_one_gets_the_slot(store: Store, tmp_path: Path) -> None:
    with running(store, tmp_path, QUEUEING_TARGET_S="60") as live:
        account = live.account()
        slot, people = scene(account, people=RACERS)

        async def race() -> list[httpx.Response]:
            headers = {"Authorization": f"Bearer {account.key}"}
            limits = httpx.Limits(max_connections=RACERS)
            async with httpx.AsyncClient(base_url=live.url, headers=headers, timeout=60, limits=limits) as http:
                path = f"/records/v1/slots/{slot}"
                return await asyncio.gather(*(http.put(path, json={"person_uid": one}) for one in people))

        replies = asyncio.run(race())
        won = [reply.json()["person_uid"] for reply in replies if reply.status_code == 200]
        lost = [reply.json() for reply in replies if reply.status_code == 409]
        assert len(won) == 1
        assert len(lost) == RACERS - 1
        assert {one["error_code"] for one in lost} == {"SLOT_CONFLICT"}
        assert {one["details"]["current_occupant"] for one in lost} == set(won)
        assert account.get(f"/companies/{slot[3:-4]}").json()["slots"][0]["person_uid"] == won[0]
