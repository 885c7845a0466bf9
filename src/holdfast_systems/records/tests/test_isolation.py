"""Accounts are isolated: the ids of others answer exactly as ids that nobody has, on every route."""

from __future__ import annotations

import re
from typing import Any

from .live import Account, Live

UNKNOWN_ID = "01980000-0000-7000-8000-000000000000"


def asked(account: Account, method: str, path: str, body: Any) -> tuple[int, dict[str, Any]]:
    """The answer without what differs between any two requests."""
    reply = account.ask(method, path, **({} if body is None else {"json": body}))
    told = reply.json()
    for name in ("request_id", "timestamp"):
        told.pop(name, None)
    return reply.status_code, told


def test_other_accounts_ids_answer_as_unknown_ids(live: Live) -> None:
    owner, other = live.account("acct_owner"), live.account("acct_other")
    company = owner.company(website="https://acme.example")
    ada, bob = owner.person(company), owner.person(company, "Bob")
    slot = f"SL-{company}-CEO"
    owner.put_slot(slot, ada)
    review = owner.put_slot(slot, bob, on_conflict="manual_review").json()["review_id"]
    verification = owner.post("/verifications", {"person_uid": ada}).json()["verification_id"]
    enrichment = owner.post("/enrichments", {"company_uid": company}).json()["enrichment_id"]
    own_company = other.company("Mine")
    own_person = other.person(own_company)
    own_slot = f"SL-{own_company}-CEO"
    nobody, no_company = "PE-20200101-000001", "CO-20200101-000001"
    new_person = {"full_name": "C", "email": "c@acme.example"}
    tried = [
        ("GET", "/companies/{}", None, company, no_company),
        ("PATCH", "/companies/{}", {"name": "Stolen"}, company, no_company),
        ("DELETE", "/companies/{}", None, company, no_company),
        ("GET", "/people/{}", None, ada, nobody),
        ("PATCH", "/people/{}", {"full_name": "Stolen"}, ada, nobody),
        ("DELETE", "/people/{}", None, ada, nobody),
        ("PUT", "/slots/SL-{}-CEO", {"person_uid": own_person}, company, no_company),
        ("DELETE", "/slots/SL-{}-CEO", None, company, no_company),
        ("POST", "/reviews/{}/approve", None, review, UNKNOWN_ID),
        ("POST", "/reviews/{}/reject", None, review, UNKNOWN_ID),
        ("POST", "/people", {"company_uid": "{}", **new_person}, company, no_company),
        ("PATCH", f"/people/{own_person}", {"company_uid": "{}"}, company, no_company),
        ("PUT", f"/slots/{own_slot}", {"person_uid": "{}"}, ada, nobody),
        ("GET", "/people?company_uid={}", None, company, no_company),
        ("POST", "/verifications", {"person_uid": "{}"}, ada, nobody),
        ("GET", "/verifications/{}", None, verification, UNKNOWN_ID),
        ("POST", "/enrichments", {"company_uid": "{}"}, company, no_company),
        ("GET", "/enrichments/{}", None, enrichment, UNKNOWN_ID),
    ]
    codes: set[str] = set()
    for method, path, body, foreign, unknown in tried:
        answers = []
        for uid in (foreign, unknown):
            given = None if body is None else {name: value.replace("{}", uid) for name, value in body.items()}
            status, told = asked(other, method, path.replace("{}", uid), given)
            answers.append((status, str(told).replace(uid, "ID")))
        assert answers[0] == answers[1], (method, path)
        assert answers[0][0] in (200, 404), (method, path)
        codes |= set(re.findall("[A-Z]+_NOT_FOUND", answers[0][1]))
    assert codes >= {"REVIEW_NOT_FOUND", "VERIFICATION_NOT_FOUND", "ENRICHMENT_NOT_FOUND", "SLOT_NOT_FOUND"}
    assert other.get("/reviews").json()["reviews"] == []
    assert [one["company_uid"] for one in other.get("/companies").json()["companies"]] == [own_company]
    assert owner.get(f"/companies/{company}").json()["slots"][0]["person_uid"] == ada
    assert owner.get(f"/people/{ada}").json()["full_name"] == "Ada Lovelace"
