"""Somebody's upload, for the table of who may ask for what."""

from __future__ import annotations

from typing import Any

import httpx

from .system import pdf


async def scene(client: httpx.AsyncClient, operator: dict[str, str]) -> dict[str, Any]:
    """An upload of one session, and the cookie of another."""
    made = await client.post("/conversion/api/upload", files={"file": ("a.pdf", pdf(), "application/pdf")})
    assert made.status_code == 201, made.text
    owner = made.headers["set-cookie"].partition(";")[0]
    client.cookies.clear()
    other = (await client.get("/conversion/")).headers["set-cookie"].partition(";")[0]
    client.cookies.clear()
    return {"params": {"job_id": made.json()["id"]}, "owner": {"Cookie": owner}, "other": {"Cookie": other}}
