"""What one account has, for the table of who may ask for what."""

from __future__ import annotations

from typing import Any

import httpx


async def scene(client: httpx.AsyncClient, operator: dict[str, str]) -> dict[str, Any]:
    """Records of one account, the key of another, and a key of the first that may do nothing that is asked for."""

    async def key(account_id: str, *scopes: str) -> dict[str, str]:
        asked = {"account_id": account_id, "scopes": scopes}
        made = await client.post("/records/v1/admin/keys", json=asked, headers=operator)
        assert made.status_code == 201, made.text
        return {"Authorization": f"Bearer {made.json()['api_key']}"}

    owner = await key("acct_first", "read", "write", "verify", "import")
    operated = {**operator, "X-Account-Id": "acct_first"}

    async def ask(method: str, path: str, body: Any = None, **given: Any) -> dict[str, Any]:
        made = await client.request(method, f"/records/v1{path}", json=body, headers=owner, **given)
        assert made.status_code < 300, made.text
        return dict(made.json())

    company = (await ask("POST", "/companies", {"name": "Acme"}))["company_uid"]
    await ask("PATCH", f"/companies/{company}", {"website": f"https://{company.lower()}.example"})
    human = {"company_uid": company, "full_name": "Ada Lovelace", "email": "ada@acme.example"}
    people = [(await ask("POST", "/people", human))["person_uid"] for _ in range(2)]
    slot = f"SL-{company}-CEO"
    await ask("PUT", f"/slots/{slot}", {"person_uid": people[0]})
    review = await ask("PUT", f"/slots/{slot}", {"person_uid": people[1], "on_conflict": "manual_review"})
    row = b'{"type": "company", "name": "Imported"}\n'
    ndjson = {**owner, "Content-Type": "application/x-ndjson"}
    imported = await client.post("/records/v1/imports", content=row, headers=ndjson)
    assert imported.status_code == 202, imported.text
    issued = await client.post(
        "/records/v1/admin/keys", json={"account_id": "acct_first", "scopes": ["read"]}, headers=operated
    )
    return {
        "params": {
            "company_uid": company,
            "person_uid": people[0],
            "slot_uid": slot,
            "review_id": review["review_id"],
            "import_id": imported.json()["import_id"],
            "verification_id": (await ask("POST", "/verifications", {"email": "ada@acme.example"}))["verification_id"],
            "enrichment_id": (await ask("POST", "/enrichments", {"company_uid": company}))["enrichment_id"],
            "key_id": issued.json()["key_id"],
            "account_id": "acct_first",
        },
        "bodies": {
            "PATCH /v1/companies/{company_uid}": {"name": "Mine now"},
            "PATCH /v1/people/{person_uid}": {"full_name": "Mine now"},
            "PUT /v1/slots/{slot_uid}": {"person_uid": people[0]},
        },
        "owner": owner,
        "other": await key("acct_second", "read", "write", "verify", "import"),
        # Reading is asked with a key that may only verify; everything else with one that may only read.
        "lower": {"GET": await key("acct_first", "verify"), "": await key("acct_first", "read")},
    }
