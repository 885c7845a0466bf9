"""Tools over MCP: servers that the connectors call, and the endpoint at which runtimes find an instance's tools."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from holdfast.base import Secret
from holdfast.http.asgi import Reply, give
from holdfast.store import Store
from holdfast.testing.ports import listening_socket
from holdfast_systems.commerce.standins.json_service import JsonService
from holdfast_systems.commerce.standins.mcp_tools import McpTools, RemoteTool
from holdfast_systems.commerce.standins.vault import DEMO_SECRET

from .live import SERVICE, SERVICE_TOKEN, on_server
from .tool_scene import CANARY, FOREIGN, INSTANCE, OTHER, Scene, attempts, demo_tools, error_of, tool_scene

FORECAST, NOTE, ORDER = "weather.forecast", "crm.remark", "crm.purchase"


@pytest.fixture
def scene(store: Store, tmp_path: Path) -> Iterator[Scene]:
    with tool_scene(store, tmp_path / "commerce") as scene:
        demo_tools(scene)
        weather, crm = (f"{scene.url}/standins/{name}/mcp" for name in ("weather", "crm"))
        scene.define(FORECAST, transport="mcp", remoteName="current", url=weather, secretField="token")
        scene.define(NOTE, kind="write", transport="mcp", remoteName="add_note", url=crm)
        scene.define(ORDER, kind="write", takesKey=True, transport="mcp", remoteName="place_order", url=crm)
        scene.vault.keep("secret", "tools/key", {"token": DEMO_SECRET})
        yield scene


def notes(scene: Scene) -> list[Any]:
    return list(scene.http.get(f"{scene.url}/standins/crm/v1/notes").json()["notes"])


def orders(scene: Scene) -> list[Any]:
    return list(scene.http.get(f"{scene.url}/standins/crm/v1/orders").json()["orders"])


def test_a_tool_of_an_mcp_server_is_called_with_its_secret(scene: Scene) -> None:
    told = scene.call(FORECAST, arguments={"city": "Oslo"})
    assert told.status_code == 200, told.text
    assert told.json()["result"]["city"] == "Oslo"
    scene.vault.keep("secret", "tools/key", {"token": Secret(CANARY)})
    refused = scene.call(FORECAST)
    assert error_of(refused)["details"]["reason"] == "credentials_refused"
    assert CANARY not in refused.text


class Flaky:
    """Answers the next calls of tools with these statuses, each after the work was done or instead of it."""

    def __init__(self, app: Any, *statuses: int) -> None:
        self.app = app
        self.statuses = list(statuses)
        self.calls = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)

        async def whole() -> Any:
            return {"type": "http.request", "body": body}

        if b'"tools/call"' not in body:
            return await self.app(scope, whole, send)
        self.calls += 1
        if not self.statuses:
            return await self.app(scope, whole, send)
        reply = Reply(body=b"{}", content_type="application/json", status=self.statuses.pop(0))
        return await give(reply, send, head=False)


@contextmanager
def flaky(*statuses: int) -> Iterator[tuple[Flaky, str, list[str]]]:
    """An MCP server whose tool `act` notes the key of each call that reaches it."""
    keys: list[str] = []

    def act(_: Any, key: str) -> dict[str, Any]:
        keys.append(key)
        return {"done": len(keys)}

    missing = JsonService([])
    app = Flaky(McpTools([RemoteTool(name="act", description="", call=act)], otherwise=missing), *statuses)
    listener = listening_socket()
    with on_server(app, listener):
        yield app, f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", keys


@pytest.mark.parametrize("status", [502, 503, 504])
def test_an_mcp_read_is_retried_and_a_write_is_not(scene: Scene, status: int) -> None:
    with flaky(status, status) as (server, url, keys):
        scene.define("far.look", transport="mcp", remoteName="act", url=url)
        assert scene.call("far.look").json()["result"] == {"done": 1}
        assert server.calls == 3
        scene.define("far.act", kind="write", transport="mcp", remoteName="act", url=url)
        server.statuses = [status]
        failed = scene.call("far.act", body={"idempotencyKey": "k1"})
        assert (failed.status_code, error_of(failed)["code"]) == (503, "TOOL_UNAVAILABLE")
        assert error_of(failed)["details"]["outcome"] == ("not_run" if status == 503 else "unknown")
        assert (server.calls, len(keys)) == (4, 1)


def test_an_mcp_write_that_takes_a_key_is_retried_with_it(scene: Scene) -> None:
    with flaky(503, 504) as (server, url, keys):
        scene.define("far.act", kind="write", takesKey=True, transport="mcp", remoteName="act", url=url)
        assert scene.call("far.act", body={"idempotencyKey": "k1"}).status_code == 200
        assert (server.calls, keys) == (3, [f"{INSTANCE}:far.act:k1"])


def test_the_stand_in_knows_a_repeated_order_by_its_key(scene: Scene) -> None:
    for key in ("k1", "k1", "k2"):
        assert scene.call(ORDER, arguments={"item": "book"}, body={"idempotencyKey": key}).status_code == 200
    assert len(orders(scene)) == 2
    assert scene.call(NOTE, arguments={"text": "x"}).status_code == 200
    assert len(notes(scene)) == 1


@pytest.mark.parametrize("fault", [{"reset": True}, {"garbage": True}, {"status": 500}])
def test_an_mcp_server_that_fails_is_told_in_our_words(scene: Scene, fault: dict[str, object]) -> None:
    scene.fault("crm", **fault)
    failed = scene.call(NOTE, arguments={"text": "x"})
    assert failed.status_code in (422, 502, 503), failed.text
    scene.fault("crm")
    assert notes(scene) == []


def test_an_mcp_server_that_hangs_is_a_504(scene: Scene) -> None:
    address = f"{scene.url}/standins/crm/mcp"
    scene.define("crm.slow", kind="write", transport="mcp", remoteName="add_note", url=address, timeoutS=0.3)
    scene.fault("crm", hang=True)
    assert error_of(scene.call("crm.slow"))["code"] == "TOOL_TIMEOUT"


def test_an_mcp_server_that_is_gone_has_not_run_the_tool(scene: Scene) -> None:
    gone = "http://127.0.0.1:9/mcp"
    scene.define("crm.gone", kind="write", transport="mcp", remoteName="add_note", url=gone)
    details = error_of(scene.call("crm.gone"))["details"]
    assert (details["reason"], details["outcome"]) == ("connection_refused", "not_run")


def test_a_tool_that_the_server_does_not_have_is_refused(scene: Scene) -> None:
    scene.define("crm.none", transport="mcp", remoteName="none", url=f"{scene.url}/standins/crm/mcp")
    assert error_of(scene.call("crm.none"))["code"] == "TOOL_REFUSED"


def connected(scene: Scene, http: httpx2.AsyncClient, instance: str = INSTANCE, mode: str = "auto") -> Client:
    url = f"{scene.urls['connectors']}/v1/instances/{instance}/mcp"
    return Client(streamable_http_client(url, http_client=http), mode=mode)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_runtime_finds_and_calls_an_instances_tools_over_mcp(scene: Scene, mode: str) -> None:
    scene.plane.bindings[INSTANCE, "crm.note"]["status"] = "disabled"
    async with httpx2.AsyncClient(headers=SERVICE) as http, connected(scene, http, mode=mode) as client:
        listed = {tool.name for tool in (await client.list_tools()).tools}
        assert listed == {"weather.read", "crm.order", FORECAST, NOTE, ORDER}
        told = await client.call_tool("crm.order", {"item": "book"}, meta={"idempotencyKey": "k1"})
        assert (told.is_error, told.structured_content) == (False, {"fine": True})
        assert scene.tool.keys == [f"{INSTANCE}:crm.order:k1"]
        refused = await client.call_tool("crm.note", {"text": "x"})
        assert refused.is_error
        assert refused.structured_content is not None
        assert refused.structured_content["error"]["code"] == "TOOL_NOT_ALLOWED"
    assert attempts(scene) == 1


async def test_over_mcp_another_tenants_instance_does_not_exist(scene: Scene) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    accept = {"Accept": "application/json, text/event-stream"}
    async with httpx2.AsyncClient(headers=accept) as http:
        url = f"{scene.urls['connectors']}/v1/instances/{{}}/mcp"
        own = {**SERVICE, "X-Tenant": OTHER}
        assert (await http.post(url.format(FOREIGN), json=body, headers=own)).status_code == 200
        for instance in (INSTANCE, "inst_none"):
            reply = await http.post(url.format(instance), json=body, headers=own)
            assert (reply.status_code, reply.json()["error"]["code"]) == (404, "INSTANCE_NOT_FOUND")
        bad = {"Authorization": f"Bearer {SERVICE_TOKEN}x"}
        assert (await http.post(url.format(INSTANCE), json=body, headers=bad)).status_code == 401
