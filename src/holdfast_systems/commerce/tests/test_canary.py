"""A secret is searched for in every log, event, trace, metric, response, file and table, after all has happened."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.base import Secret, bus
from holdfast.http.front import Front, Mount
from holdfast.store import Store
from holdfast.testing.ports import listening_socket
from holdfast_systems.commerce.standins.json_service import JsonService
from holdfast_systems.commerce.standins.mcp_tools import McpTools, RemoteTool
from holdfast_systems.commerce.standins.ragflow import RagflowStandIn
from holdfast_systems.commerce.standins.vault import VaultStandIn

from .canary import Canary, watched
from .knowledge_scene import QUICK, ingest, instance_of, upload, wait_status
from .live import SERVICE, SERVICE_TOKEN, TOKEN, apart, on_server, running
from .shop import PLANE
from .tool_scene import CANARY, INSTANCE, NOTE, READ, Scene, Upstream, demo_tools, tool_scene
from .widget import buy

VAULT_TOKEN = "a vault token"
RAG_KEY = "canary-rag-key-81f3"
SECRETS = (CANARY, VAULT_TOKEN, SERVICE_TOKEN, TOKEN)


def test_the_search_finds_what_is_there(store: Store, database_url: str, tmp_path: Path) -> None:
    """Or the other tests here could not fail."""
    with watched(store, database_url) as canary, tool_scene(store, tmp_path / "commerce") as scene:
        canary.listen_to(scene.http)
        canary.search_in(tmp_path / "files")
        (tmp_path / "files").mkdir()
        (tmp_path / "files" / "a.bin").write_bytes(b"\x00" + CANARY.encode())
        logging.getLogger("anything").debug("the key is %s", CANARY)
        bus.tell("something", key=CANARY)
        with canary.provider.get_tracer("t").start_as_current_span("work", attributes={"key": CANARY}):
            pass
        scene.define("a.tool", description=CANARY)
        found = canary.found(CANARY)
        expected = ("log", "events", "traces", "responses", "table holdfast_commerce_tool", "file ")
        assert [one for one in expected if not any(place.startswith(one) for place in found)] == []
        assert canary.found("nobody has written this") == []


def everything(scene: Scene, echoing: str) -> None:
    """Every way a call with a secret can end."""
    assert scene.call(READ).json()["result"]["sent"]["authorization"] == "Bearer ***"
    for answer in ((400, {"echo": CANARY}), (401, {"echo": CANARY}), (500, {"echo": CANARY}), (302, {"to": CANARY})):
        scene.tool.answers = [answer]
        assert scene.call(READ).status_code >= 400
    for fault in ({"reset": True}, {"garbage": True}, {"status": 503}):
        scene.tool_faults.switch(**fault)
        assert scene.call(READ).status_code >= 400
        scene.tool_faults.clear()
        scene.vault_faults.switch(**fault)
        assert scene.call(READ).status_code == 503
        scene.vault_faults.clear()
    scene.define("slow.read", secretField="token", timeoutS=0.1)
    scene.tool_faults.switch(hang=True)
    assert scene.call("slow.read").status_code == 504
    scene.tool_faults.clear()
    for field in ("token", "none"):
        scene.define("far.read", transport="mcp", remoteName="act", url=echoing, secretField=field)
        scene.call("far.read")
    scene.define("gone.read", url="http://127.0.0.1:9/", secretField="token")
    assert scene.call("gone.read").status_code == 503
    scene.define("gone.far", transport="mcp", remoteName="act", url="http://127.0.0.1:9/", secretField="token")
    assert scene.call("gone.far").status_code == 503
    assert scene.call(NOTE).status_code == 200
    assert scene.get("connectors", f"/v1/instances/{INSTANCE}/tools").status_code == 200


class Echoing:
    """An MCP server whose tool answers with everything that it was sent, and that fails with it every other time."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        tool = RemoteTool(name="act", description="", call=self._act)
        self.app = McpTools([tool], otherwise=JsonService([]))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.seen = [value.decode("latin-1") for _, value in scope["headers"]]
        await self.app(scope, receive, send)

    def _act(self, _: Any, __: str) -> dict[str, Any]:
        return {"headers": list(self.seen)}


def traced(canary: Canary, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the MCP package's own spans be seen too."""
    monkeypatch.setattr("mcp.shared._otel._tracer", canary.provider.get_tracer("mcp"))


def test_a_canary_secret_of_a_tool_is_found_nowhere(
    store: Store, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        canary = stack.enter_context(watched(store, database_url))
        traced(canary, monkeypatch)
        echoing, listener = Echoing(), listening_socket()
        stack.enter_context(on_server(echoing, listener))
        scene = stack.enter_context(tool_scene(store, tmp_path / "commerce"))
        demo_tools(scene)
        canary.listen_to(scene.http)
        canary.search_in(tmp_path / "commerce")
        scene.tool.echo = True
        everything(scene, f"http://127.0.0.1:{listener.getsockname()[1]}/mcp")
        assert any(CANARY in one for one in echoing.seen)  # it was really sent
        assert canary.found(*SECRETS) == []
        seen = canary.places()
        assert "connectors" in seen["traces"]
        assert all(seen[place] for place in ("log", "structured log", "events", "responses", "metrics"))


def test_a_canary_secret_of_the_knowledge_base_is_found_nowhere(
    store: Store, database_url: str, tmp_path: Path, s3_url: str
) -> None:
    standin, listener = RagflowStandIn(key=Secret(RAG_KEY)), listening_socket()
    app, url = standin.app(), f"http://127.0.0.1:{listener.getsockname()[1]}"
    settings = {**QUICK, "ragflow_url": url, "ragflow_key": RAG_KEY, "artifacts": s3_url}
    s3_secret = s3_url.partition("@")[0].rpartition(":")[2]
    with watched(store, database_url) as canary, on_server(app, listener):
        with running(store, tmp_path / "commerce", **settings) as live:
            canary.listen_to(live.http)
            canary.search_in(tmp_path / "commerce")
            instance = instance_of(live)
            for fault in ({"status": 503, "times": 5}, {"garbage": True, "times": 2}, {"reset": True, "times": 2}):
                upload_id = upload(live, instance)
                app.faults.switch(**fault)
                live.post(PLANE, f"/instances/{instance}/retrieval", {"question": "Where?"})
                wait_status(live, ingest(live, instance, upload_id).json()["ingestionId"], "COMPLETED")
        assert len(standin.documents()) == 3
        assert canary.found(RAG_KEY, s3_secret, SERVICE_TOKEN, TOKEN) == []


@pytest.mark.timeout(300)
def test_in_five_processes_a_canary_secret_is_in_no_log_table_file_or_answer(
    database_url: str, store: Store, tmp_path: Path
) -> None:
    vault, tool, world = VaultStandIn(token=Secret(VAULT_TOKEN)), Upstream(echo=True), listening_socket()
    vault.keep("secret", "offerings/assistant/weather.read", {"token": Secret(CANARY)})
    outside = f"http://127.0.0.1:{world.getsockname()[1]}"
    apps = {"/vault": vault.app(), "/weather": JsonService([("POST", "/v1/current", tool.answer)])}
    settings = {"vault_url": f"{outside}/vault", "vault_token": VAULT_TOKEN, "weather_url": f"{outside}/weather"}
    canary = Canary(store, database_url)
    with (
        on_server(Front([Mount(path=path, app=app) for path, app in apps.items()]), world),
        apart(database_url, tmp_path / "apart", **settings) as live,
    ):
        canary.listen_to(live.http)
        bought = buy(live)
        path = f"/v1/instances/{bought.instance_id}/tools/weather.read"
        for answer in (None, (401, {"echo": CANARY}), (503, {"echo": CANARY})):
            tool.answers = [] if answer is None else [answer] * 3
            live.post("connectors", path, {"arguments": {"city": "Oslo"}}, token=SERVICE)
        tool.answers = []
        ran = bought.widget().run("c1", '/tool weather.read {"city": "Oslo"}')
        assert ran.status_code == 200, ran.text
        assert tool.calls[-1].bearer == CANARY
        apps["/vault"].faults.switch(status=503)
        assert isinstance(bought.widget().run("c2", '/tool weather.read {"city": "Oslo"}'), httpx.Response)
        canary.search_in(tmp_path / "apart")
    assert canary.found(CANARY, VAULT_TOKEN, SERVICE_TOKEN) == []
