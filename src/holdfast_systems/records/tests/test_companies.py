"""Companies and people: created, shown, listed, changed and removed over HTTP, on each engine."""

from __future__ import annotations

import re

from .live import Live

COMPANY = re.compile(r"CO-\d{8}-\d{6}\Z")
PERSON = re.compile(r"PE-\d{8}-\d{6}\Z")


def test_a_company_is_created_with_its_three_slots(live: Live) -> None:
    account = live.account()
    reply = account.post("/companies", {"name": "Acme", "website": "https://acme.example", "industry": "Tools"})
    body = reply.json()
    assert reply.status_code == 201
    assert body.keys() == {"company_uid", "status", "slots_created", "created_at", "request_id"}
    assert COMPANY.match(body["company_uid"])
    assert (body["status"], body["slots_created"]) == ("created", 3)
    assert body["request_id"] == reply.headers["x-request-id"]
    shown = account.get(f"/companies/{body['company_uid']}").json()
    assert [slot["slot_uid"] for slot in shown["slots"]] == [
        f"SL-{body['company_uid']}-{role}" for role in ("CEO", "CFO", "HR")
    ]
    assert (shown["name"], shown["website"], shown["industry"]) == ("Acme", "https://acme.example", "Tools")


def test_one_website_belongs_to_one_company_of_an_account(live: Live) -> None:
    account = live.account()
    uid = account.company(website="https://acme.example/")
    reply = account.post("/companies", {"name": "Other", "website": "http://ACME.example"})
    assert reply.status_code == 409
    body = reply.json()
    assert body["error_code"] == "DUPLICATE_RECORD"
    assert body["details"] == {"field": "website", "value": "http://ACME.example", "existing": uid}
    assert live.account("acct_other").company(website="https://acme.example") != uid


def test_a_change_keeps_what_it_does_not_name(live: Live) -> None:
    account = live.account()
    uid = account.company(website="https://acme.example", industry="Tools")
    changed = account.ask("PATCH", f"/companies/{uid}", json={"name": "Acme & Sons", "industry": None})
    assert changed.status_code == 200
    body = changed.json()
    assert (body["name"], body["website"], body["industry"]) == ("Acme & Sons", "https://acme.example", None)
    other = account.company("Other", website="https://other.example")
    taken = account.ask("PATCH", f"/companies/{other}", json={"website": "https://acme.example"})
    assert (taken.status_code, taken.json()["error_code"]) == (409, "DUPLICATE_RECORD")
    assert account.ask("PATCH", f"/companies/{uid}", json={"website": "https://acme.example/"}).status_code == 200


def test_a_company_with_people_cannot_be_removed(live: Live) -> None:
    account = live.account()
    uid = account.company()
    person = account.person(uid)
    refused = account.ask("DELETE", f"/companies/{uid}")
    assert (refused.status_code, refused.json()["error_code"]) == (422, "BUSINESS_RULE_VIOLATION")
    assert refused.json()["details"]["rule"] == "company_has_people"
    assert account.ask("DELETE", f"/people/{person}").status_code == 200
    removed = account.ask("DELETE", f"/companies/{uid}")
    assert (removed.status_code, removed.json()["status"]) == (200, "deleted")
    gone = account.get(f"/companies/{uid}")
    assert (gone.status_code, gone.json()["error_code"]) == (404, "COMPANY_NOT_FOUND")


def test_a_list_goes_on_where_its_cursor_says(live: Live) -> None:
    account = live.account()
    uids = [account.company(f"Company {number}") for number in range(5)]
    first = account.get("/companies?limit=2").json()
    second = account.get("/companies", params={"limit": 2, "cursor": first["next_cursor"]}).json()
    third = account.get("/companies", params={"limit": 2, "cursor": second["next_cursor"]}).json()
    pages = [*first["companies"], *second["companies"], *third["companies"]]
    assert [one["company_uid"] for one in pages] == uids
    assert third["next_cursor"] is None
    assert [one["name"] for one in account.get("/companies?q=COMPANY 3").json()["companies"]] == ["Company 3"]
    assert account.get("/companies", params={"q": "%"}).json()["companies"] == []


def test_a_cursor_that_was_changed_or_taken_elsewhere_is_refused(live: Live) -> None:
    account, other = live.account(), live.account("acct_other")
    for number in range(3):
        account.company(f"Company {number}")
    cursor = account.get("/companies?limit=1").json()["next_cursor"]
    body, _, mark = cursor.partition(".")
    tampered = f"{body[:-2]}{'AA' if body[-2:] != 'AA' else 'BB'}.{mark}"
    for asked, path in ((account, "/companies"), (account, "/companies?q=Company"), (other, "/companies")):
        for given in (
            tampered,
            f"{cursor}x",
            "nonsense",
            *([] if (asked, path) == (account, "/companies") else [cursor]),
        ):
            reply = asked.get(path, params={"cursor": given} | ({"q": "Company"} if "q=" in path else {}))
            assert (reply.status_code, reply.json()["error_code"]) == (400, "VALIDATION_ERROR"), given
            assert reply.json()["details"]["errors"][0]["field"] == "cursor"


def test_people_belong_to_a_company(live: Live) -> None:
    account = live.account()
    uid = account.company()
    reply = account.post(
        "/people", {"company_uid": uid, "full_name": "Ada", "email": "ada@acme.example", "role": "Boss"}
    )
    assert reply.status_code == 201
    assert PERSON.match(reply.json()["person_uid"])
    person = reply.json()["person_uid"]
    shown = account.get(f"/people/{person}").json()
    assert (shown["company_uid"], shown["full_name"], shown["email"], shown["role"]) == (
        uid,
        "Ada",
        "ada@acme.example",
        "Boss",
    )
    assert account.ask("PATCH", f"/people/{person}", json={"role": None}).json()["role"] is None
    assert [one["person_uid"] for one in account.get(f"/people?company_uid={uid}").json()["people"]] == [person]
    unknown = account.post("/people", {"company_uid": "CO-20240828-999999", "full_name": "B", "email": "b@c.example"})
    assert unknown.status_code == 404
    assert unknown.json()["details"] == {
        "company_uid": "CO-20240828-999999",
        "suggestion": "Verify company_uid or create company first",
    }


def test_a_person_who_sits_in_a_slot_stays_with_the_company_and_leaves_the_slot_when_removed(live: Live) -> None:
    account = live.account()
    uid, other = account.company(), account.company("Other")
    person = account.person(uid)
    slot = f"SL-{uid}-CEO"
    assert account.put_slot(slot, person).status_code == 200
    moved = account.ask("PATCH", f"/people/{person}", json={"company_uid": other})
    assert (moved.status_code, moved.json()["details"]["rule"]) == (422, "person_in_slot")
    assert account.ask("DELETE", f"/people/{person}").json()["slots_freed"] == ["CEO"]
    assert account.get(f"/companies/{uid}").json()["slots"][0]["person_uid"] is None


def test_all_bad_fields_are_told_at_once(live: Live) -> None:
    account = live.account()
    reply = account.post("/companies", {"name": "", "website": "not-a-url", "colour": "red"})
    body = reply.json()
    assert (reply.status_code, body["error_code"]) == (400, "VALIDATION_ERROR")
    assert body["details"]["total_errors"] == 3
    assert [(one["field"], one["value"], one["constraint"]) for one in body["details"]["errors"]] == [
        ("name", "", "required"),
        ("website", "not-a-url", "format"),
        ("colour", "red", "unknown_field"),
    ]
    assert all(one["message"] for one in body["details"]["errors"])
    people = account.post("/people", {"company_uid": "INVALID-123", "full_name": "A", "email": "invalid-email"}).json()
    assert [(one["field"], one["constraint"]) for one in people["details"]["errors"]] == [
        ("company_uid", "pattern"),
        ("email", "format"),
    ]
    assert people["details"]["errors"][0]["message"] == "Must match pattern: CO-YYYYMMDD-######"
