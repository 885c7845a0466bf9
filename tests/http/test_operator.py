"""The operator's door."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from holdfast.base import Secret
from holdfast.catalog.dialect import Dialect
from holdfast.http.operator import OperatorOnly

TOKEN = Secret("a token for the operator")
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


async def inside(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        return await send({"type": "reached"})
    await send({"type": "http.response.start", "status": 200, "headers": []})
    return await send({"type": "http.response.body", "body": b"inside"})


async def ask(door: OperatorOnly, path: str = "/", method: str = "GET", **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(door), base_url="http://door") as client:
        return await client.request(method, path, headers=headers)


@pytest.mark.parametrize("given", [f"Bearer {TOKEN.reveal()}", f"bearer  {TOKEN.reveal()} "])
async def test_the_token_lets_in(given: str) -> None:
    assert (await ask(OperatorOnly(inside, TOKEN), authorization=given)).text == "inside"


@pytest.mark.parametrize(
    "given", ["", "Bearer", "Bearer ", "Bearer wrong", TOKEN.reveal(), f"Basic {TOKEN.reveal()}", "Bearer ***"]
)
async def test_nothing_else_lets_in(given: str) -> None:
    answer = await ask(OperatorOnly(inside, TOKEN), authorization=given)
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert answer.json()["error"]["code"] == "UNAUTHORIZED"


@pytest.mark.parametrize("given", ["Bearer ", "Bearer", ""])
async def test_an_empty_token_lets_nobody_in(given: str) -> None:
    assert (await ask(OperatorOnly(inside, Secret("")), authorization=given)).status_code == 401


async def test_a_refusal_belongs_to_the_callers_trace_and_shows_its_id() -> None:
    answer = await ask(OperatorOnly(inside, TOKEN), traceparent=f"00-{TRACE}-00f067aa0ba902b7-01")
    assert answer.json()["error"]["traceId"] == TRACE
    assert answer.headers["x-request-id"].startswith("req_")


async def test_a_refusal_speaks_the_dialect_of_the_door() -> None:
    answer = await ask(OperatorOnly(inside, TOKEN, dialect=Dialect.FULL))
    assert answer.json()["error_code"] == "UNAUTHORIZED"
    assert answer.json()["request_id"] == answer.headers["x-request-id"]


async def test_a_refused_head_request_gets_no_body() -> None:
    answer = await ask(OperatorOnly(inside, TOKEN), method="HEAD")
    assert (answer.status_code, answer.content) == (401, b"")


async def test_what_is_public_needs_no_token() -> None:
    door = OperatorOnly(inside, TOKEN, public=lambda scope: scope["path"] == "/open")
    assert [(await ask(door, path)).status_code for path in ("/open", "/closed")] == [200, 401]


@pytest.mark.parametrize(("kind", "answer"), [("websocket", "websocket.close"), ("lifespan", "reached")])
async def test_web_sockets_are_closed_and_lifespans_pass(kind: str, answer: str) -> None:
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": f"{kind}.connect"}

    async def send(message: Any) -> None:
        sent.append(message["type"])

    await OperatorOnly(inside, TOKEN)({"type": kind, "headers": [], "path": "/"}, receive, send)
    assert sent == [answer]
