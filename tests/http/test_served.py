"""Every request that passes the edge is told on the bus, with its route and never with its path."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from holdfast.base import bus
from holdfast.catalog import CORE
from holdfast.http import Edge

TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def shop() -> FastAPI:
    app = FastAPI()

    @app.get("/orders/{number}")
    async def order(number: int) -> dict[str, int]:
        if number == 0:
            raise CORE["NOT_FOUND"]()
        return {"number": number}

    return app


async def served(app: Any, path: str, **headers: str) -> dict[str, Any]:
    transport = httpx.ASGITransport(app)
    with bus.heard() as told:
        async with httpx.AsyncClient(transport=transport, base_url="http://shop.test") as client:
            await client.get(path, headers=headers)
    # Only these: what other tests left behind may tell of itself.
    (facts,) = [facts for verb, facts in told if verb == "request.served"]
    return dict(facts)


async def test_a_good_request_is_told_with_its_route_and_its_time() -> None:
    facts = await served(Edge(shop()), "/orders/7", traceparent=TRACEPARENT)
    assert (facts["method"], facts["endpoint"], facts["status"]) == ("GET", "/orders/{number}", 200)
    assert (facts["code"], facts["parent"]) == (None, TRACEPARENT)
    assert 0 <= facts["duration_s"] < 60


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [("/orders/0", 404, "NOT_FOUND"), ("/orders/x", 400, "VALIDATION_ERROR"), ("/nowhere", 404, "NOT_FOUND")],
)
async def test_a_failed_request_is_told_with_its_code(path: str, status: int, code: str) -> None:
    facts = await served(Edge(shop()), path)
    assert (facts["status"], facts["code"]) == (status, code)
    assert path not in str(facts["endpoint"])


async def test_a_request_through_two_edges_is_told_once() -> None:
    assert (await served(Edge(Edge(shop())), "/orders/7"))["status"] == 200


async def test_a_route_below_a_mount_is_told_whole() -> None:
    def hello(request: object) -> PlainTextResponse:
        return PlainTextResponse("hello")

    app = Starlette(routes=[Mount("/inner", routes=[Route("/hello/{name}", hello)])])
    assert (await served(Edge(app), "/inner/hello/ada"))["endpoint"] == "/inner/hello/{name}"


async def test_an_application_without_routes_is_told_without_one() -> None:
    async def bare(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    facts = await served(Edge(bare), "/a/b/c")
    assert (facts["endpoint"], facts["status"]) == ("", 204)
