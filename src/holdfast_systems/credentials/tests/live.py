"""The system as it runs: both halves on a real server on loopback, with or without a worker."""

from __future__ import annotations

import asyncio
import hmac
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from holdfast.base import Secret, now_us, utc_text
from holdfast.http.front import Front, Mount
from holdfast.http.system import Ground, System
from holdfast.store import Store
from holdfast.testing.ports import listening_socket
from holdfast.testing.processes import wait_until
from holdfast.worker import Worker
from holdfast_systems.credentials.main import build

PATIENCE_S = 60.0
"""So long anything may take on a busy machine; nothing waits so long when all is well."""
KEEP_ALIVE_S = 600
"""Longer than any client keeps a connection: none is closed in the very moment in which its next request comes."""
LEASE_S = 10.0
SECRET = "a shared secret"
TOKEN = "the operator's token"
OPERATOR = {"Authorization": f"Bearer {TOKEN}"}
WEBHOOK = "/engine/v1/platforms/gotong_royong/webhook"
HASH = "a1" * 32
ALICE = {"user_id": "user123", "username": "alice"}


def signature(body: bytes, secret: str = SECRET) -> dict[str, str]:
    """The header, made without a line of ours."""
    return {"X-GR-Signature": "sha256=" + hmac.new(secret.encode(), body, "sha256").hexdigest()}


def created(event_id: str | None = None, contribution_id: str | None = None, user: str = "user123") -> dict[str, Any]:
    about = {} if contribution_id is None else {"contribution_id": contribution_id}
    return {
        **({} if event_id is None else {"event_id": event_id}),
        "event_type": "contribution_created",
        "actor": {"user_id": user, "username": user},
        "subject": {"contribution_type": "task_completion", "title": "Test", **about},
    }


def about(event_type: str, event_id: str, contribution_id: str) -> dict[str, Any]:
    return {
        "event_id": event_id,
        "event_type": event_type,
        "actor": {"user_id": "reviewer", "username": "rita"},
        "subject": {"contribution_id": contribution_id},
    }


def evidence(event_id: str, contribution_id: str, *, age_s: float = 60.0, **proof: Any) -> dict[str, Any]:
    """Photo evidence that is good, unless the proof says otherwise."""
    return {
        "event_id": event_id,
        "event_type": "por_evidence",
        "actor": ALICE,
        "subject": {"contribution_id": contribution_id, "evidence_type": "photo_with_timestamp", "evidence_data": {}},
        "proof": {"timestamp": utc_text(now_us() - int(age_s * 1e6)), "media_hash": HASH, **proof},
    }


def vouch(event_id: str, vouchee: str, weight: str) -> dict[str, Any]:
    return {
        "event_id": event_id,
        "event_type": "vouch_submitted",
        "actor": ALICE,
        "subject": {"vouchee_id": vouchee, "weight_hint": weight},
    }


def ground(store: Store, folder: Path, address: str, environment: Mapping[str, str] | None = None) -> Ground:
    settings = {"HOLDFAST_CREDENTIALS_SECRET": SECRET, **(environment or {})}
    return Ground(store=store, folder=folder, address=address, token=Secret(TOKEN), environment=settings)


@contextmanager
def served(app: Any, listener: Any) -> Iterator[None]:
    """The application on uvicorn, in a thread."""
    config = uvicorn.Config(
        app,
        log_level="error",
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: server.run(sockets=[listener]), daemon=True)
    thread.start()
    wait_until(lambda: server.started, within_s=PATIENCE_S, what="the server listens")
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)
        listener.close()


@dataclass
class Live:
    """A running system, and a client to talk to it."""

    system: System
    store: Store
    url: str
    http: httpx.Client

    def send(self, document: Any, *, secret: str = SECRET, **headers: str) -> httpx.Response:
        """Send an event to the engine as a platform does."""
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        return self.http.post(WEBHOOK, content=body, headers={**signature(body, secret), **headers})

    def ask(self, method: str, path: str, *, headers: Mapping[str, str] | None = None, **given: Any) -> httpx.Response:
        return self.http.request(method, path, headers={**OPERATOR, **(headers or {})}, **given)

    def member(self, user_id: str) -> dict[str, Any]:
        return dict(self.ask("GET", f"/engine/v1/platforms/gotong_royong/users/{user_id}").json())

    def event(self, event_id: str) -> dict[str, Any]:
        return dict(self.ask("GET", f"/platform/v1/events/{event_id}").json())

    def wait_event(self, event_id: str, status: str) -> dict[str, Any]:
        wait_until(
            lambda: self.event(event_id)["status"] == status, within_s=PATIENCE_S, what=f"{event_id} is {status}"
        )
        return self.event(event_id)


@contextmanager
def running(
    store: Store,
    folder: Path,
    *,
    environment: Mapping[str, str] | None = None,
    worker: bool = False,
    around: Callable[[str, Any], Any] = lambda name, app: app,
) -> Iterator[Live]:
    """The system on a free port; `around` may put something before a part."""
    listener = listening_socket()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    system = build(ground(store, folder, url, environment))
    front = Front([Mount(path=f"/{name}", app=around(name, app)) for name, app in system.parts.items()])
    crew = Worker(store, system.handlers, lease_s=LEASE_S) if worker and system.handlers is not None else None
    with served(front, listener), httpx.Client(base_url=url, timeout=PATIENCE_S) as client:
        system.start()
        if crew is not None:
            crew.start()
        try:
            yield Live(system, store, url, client)
        finally:
            if crew is not None:
                crew.stop()
                crew.join()
            system.stop()


@contextmanager
def called(store: Store, folder: Path, *, environment: Mapping[str, str] | None = None) -> Iterator[Live]:
    """The same without a server: the applications are called by the client itself, which takes a tenth of the time."""
    url = "http://127.0.0.1:9"
    system = build(ground(store, folder, url, environment))
    front = Front([Mount(path=f"/{name}", app=app) for name, app in system.parts.items()])
    with httpx.Client(transport=Straight(front), base_url=url) as client:
        system.start()
        try:
            yield Live(system, store, url, client)
        finally:
            system.stop()


class Straight(httpx.BaseTransport):
    """Calls an application on an event loop of its own."""

    def __init__(self, app: Any) -> None:
        self._transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=("127.0.0.1", 50_000))
        self._runner = asyncio.Runner()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        whole = httpx.Request(request.method, request.url, headers=request.headers, content=request.read())
        if "transfer-encoding" in request.headers:
            whole.headers.pop("content-length", None)  # a body in chunks does not say its length
        return self._runner.run(self._answered(whole))

    async def _answered(self, request: httpx.Request) -> httpx.Response:
        reply = await self._transport.handle_async_request(request)
        return httpx.Response(reply.status_code, headers=reply.headers, content=await reply.aread())

    def close(self) -> None:
        self._runner.close()


def settings_file(folder: Path, text: str) -> dict[str, str]:
    """The environment that names a settings file with this text."""
    path = folder / "credentials.toml"
    path.write_text(text)
    return {"HOLDFAST_CREDENTIALS_SETTINGS": str(path)}
