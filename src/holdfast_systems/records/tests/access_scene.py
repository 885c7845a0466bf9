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

    async def post(path: str, body: Any) -> dict[str, Any]:
        made = await client.post(f"/records/v1{path}", json=body, headers=owner)
        assert made.status_code < 300, made.text
        return dict(made.json())

    company = (await post("/companies", {"name": "Acme"}))["company_uid"]
    human = {"company_uid": company, "full_name": "Ada Lovelace", "email": "ada@acme.example"}
    person = (await post("/people", human))["person_uid"]
    return {
        "params": {"company_uid": company, "person_uid": person},
        "bodies": {
            "PATCH /v1/companies/{company_uid}": {"name": "Mine now"},
            "PATCH /v1/people/{person_uid}": {"full_name": "Mine now"},
            "PUT /v1/slots/{slot_uid}": {"person_uid": person},
        },
        "owner": owner,
        "other": await key("acct_second", "read", "write", "verify", "import"),
        # Reading is asked with a key that may only verify; everything else with one that may only read.
        "lower": {"GET": await key("acct_first", "verify"), "": await key("acct_first", "read")},
    }
