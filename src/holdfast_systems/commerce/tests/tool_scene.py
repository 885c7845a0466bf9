"""The connectors alone, with everything that they call on loopback: a control plane that a test fills, and a tool."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from holdfast.base import Secret
from holdfast.http.front import Front, Mount
from holdfast.store import Store
from holdfast.testing import Faulty
from holdfast.testing.ports import listening_socket
from holdfast_systems.commerce.main import build
from holdfast_systems.commerce.standins.json_service import Answer, Asked, JsonService
from holdfast_systems.commerce.standins.vault import VaultStandIn

from .live import PATIENCE_S, SERVICE, Live, front_of, ground, on_server, urls_of

CANARY = "canary-Zq7+/x9$secret"
"""The secret of the tools of a scene; it has characters that encodings change."""
TENANT, OTHER = "u1", "u2"
INSTANCE, FOREIGN = "inst_one", "inst_two"
PER_MINUTE = 1_000
READ, NOTE, ORDER = "weather.read", "crm.note", "crm.order"


@dataclass
class Plane:
    """A control plane that knows what the test tells it."""

    instances: dict[str, dict[str, Any]] = field(default_factory=dict)
    allowed: dict[str, list[str]] = field(default_factory=dict)
    bindings: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)

    def app(self) -> Faulty:
        one = r"/instances/([^/]+)"
        return Faulty(
            JsonService(
                [
                    ("GET", one, lambda asked: _found(self.instances.get(asked.parts[0]))),
                    ("GET", f"{one}/allowlist", self._allowlist),
                    ("GET", f"{one}/bindings/([^/]+)", lambda asked: _found(self.bindings.get(asked.parts))),
                ]
            )
        )

    def _allowlist(self, asked: Asked) -> Answer:
        tools = self.allowed.get(asked.parts[0])
        return _found(None if tools is None else {"tools": tools, "origins": []})


def _found(body: Any) -> Answer:
    return (404, {"error": {"code": "NOT_FOUND"}}) if body is None else (200, body)


@dataclass
class Upstream:
    """A tool's service: it remembers what it was sent and answers what it is told to."""

    calls: list[Asked] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    echo: bool = False

    def answer(self, asked: Asked) -> Answer:
        self.calls.append(asked)
        if self.answers:
            return self.answers.pop(0)
        return 200, {"sent": dict(asked.headers), "arguments": asked.json} if self.echo else {"fine": True}

    @property
    def keys(self) -> list[str | None]:
        return [one.headers.get("idempotency-key") for one in self.calls]


@dataclass
class Scene(Live):
    """The connectors with their world."""

    plane: Plane = field(default_factory=Plane)
    vault: VaultStandIn = field(default_factory=VaultStandIn)
    tool: Upstream = field(default_factory=Upstream)
    plane_faults: Any = None
    vault_faults: Any = None
    tool_faults: Any = None
    tool_url: str = ""

    def define(self, name: str, **said: Any) -> None:
        """Create a tool and let both instances use it, with a binding for the first."""
        made = self.put("connectors", f"/v1/tools/{name}", {"kind": "read", "url": self.tool_url, **said})
        assert made.status_code == 200, made.text
        for instance in (INSTANCE, FOREIGN):
            self.plane.allowed.setdefault(instance, []).append(name)
            self.plane.bindings[instance, name] = {"status": "active", "fields": {}, "secretPath": "tools/key"}

    def call(self, tool: str, instance: str = INSTANCE, **given: Any) -> httpx.Response:
        """Call a tool as the runtime does."""
        body = {"arguments": given.pop("arguments", {"city": "Oslo"}), **given.pop("body", {})}
        return self.post("connectors", f"/v1/instances/{instance}/tools/{tool}", body, token=SERVICE, **given)


@contextmanager
def tool_scene(store: Store, folder: Path, **settings: str) -> Iterator[Scene]:
    """The connectors, served; the rest of the world beside them on the same server."""
    listener, world = listening_socket(), listening_socket()
    url, outside = (f"http://127.0.0.1:{one.getsockname()[1]}" for one in (listener, world))
    plane, vault, tool = Plane(), VaultStandIn(token=Secret("a vault token")), Upstream()
    vault.keep("secret", "tools/key", {"token": Secret(CANARY)})
    apps = {
        "/plane": plane.app(),
        "/vault": vault.app(),
        "/tool": Faulty(JsonService([("POST", "/act", tool.answer)])),
    }
    for instance, tenant in ((INSTANCE, TENANT), (FOREIGN, OTHER)):
        limits = {"toolCallsPerMinute": PER_MINUTE}
        plane.instances[instance] = {"instanceId": instance, "tenant": tenant, "status": "active", "limits": limits}
        plane.allowed[instance] = []
    given = {
        "control_plane_url": f"{outside}/plane",
        "vault_url": f"{outside}/vault",
        "vault_token": "a vault token",
        "instance_cache_s": "0.000001",
        **settings,
    }
    with ExitStack() as stack:
        stack.enter_context(on_server(Front([Mount(path=path, app=app) for path, app in apps.items()]), world))
        system = build(ground(store, folder, url, standins=True, parts=["connectors"], settings=given))
        stack.enter_context(on_server(front_of(system), listener))
        client = stack.enter_context(httpx.Client(timeout=PATIENCE_S))
        system.start()
        stack.callback(system.stop)
        yield Scene(
            http=client,
            urls=urls_of(url),
            url=url,
            system=system,
            store=store,
            plane=plane,
            vault=vault,
            tool=tool,
            plane_faults=apps["/plane"].faults,
            vault_faults=apps["/vault"].faults,
            tool_faults=apps["/tool"].faults,
            tool_url=f"{outside}/tool/act",
        )


def error_of(reply: httpx.Response) -> dict[str, Any]:
    """The error of a reply, in its canonical shape."""
    assert set(reply.json()) == {"error"}, reply.text
    error = dict(reply.json()["error"])
    assert {"code", "message", "traceId"} <= set(error), reply.text
    return error


def text_of(value: Any) -> str:
    return json.dumps(value)


def demo_tools(scene: Scene) -> None:
    """The three tools of the first start, at the service of this scene."""
    scene.define(READ, kind="read", secretField="token")
    scene.define(NOTE, kind="write")
    scene.define(ORDER, kind="write", takesKey=True)


def attempts(scene: Scene) -> int:
    """How often the tool's service was called, faults included."""
    return len(scene.tool.calls) + int(scene.tool_faults.met)
