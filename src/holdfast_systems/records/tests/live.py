"""The system as its users meet it: called without a server, or served on loopback with a worker."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from holdfast.base import Secret
from holdfast.http.front import Front, Mount
from holdfast.http.system import Ground, System
from holdfast.store import Store
from holdfast.testing.ports import listening_socket
from holdfast.testing.processes import wait_until
from holdfast.worker import Worker
from holdfast_systems.records.main import build
from holdfast_systems.records.settings import PREFIX

PATIENCE_S = 60.0
"""So long anything may take on a busy machine; nothing waits so long when all is well."""
KEEP_ALIVE_S = 600
TOKEN = "the operator's token"
OPERATOR = {"Authorization": f"Bearer {TOKEN}"}
ALL = ["read", "write", "verify", "import"]


@dataclass
class Account:
    """Somebody with an API key."""

    http: httpx.Client
    key: str
    key_id: str
    account_id: str

    def ask(self, method: str, path: str, **given: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.key}", **given.pop("headers", {})}
        return self.http.request(method, f"/records/v1{path}", headers=headers, **given)

    def get(self, path: str, **given: Any) -> httpx.Response:
        return self.ask("GET", path, **given)

    def post(self, path: str, body: Any = None, **given: Any) -> httpx.Response:
        return self.ask("POST", path, json=body, **given)

    def company(self, name: str = "Acme", **more: Any) -> str:
        """The uid of a new company."""
        reply = self.post("/companies", {"name": name, **more})
        assert reply.status_code == 201, reply.text
        return str(reply.json()["company_uid"])

    def person(self, company_uid: str, name: str = "Ada Lovelace", **more: Any) -> str:
        """The uid of a new person."""
        body = {"company_uid": company_uid, "full_name": name, "email": "ada@acme.example", **more}
        reply = self.post("/people", body)
        assert reply.status_code == 201, reply.text
        return str(reply.json()["person_uid"])

    def put_slot(self, slot_uid: str, person_uid: str, **more: Any) -> httpx.Response:
        return self.ask("PUT", f"/slots/{slot_uid}", json={"person_uid": person_uid, **more})

    def seen(self, path: str, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """What stands there as soon as it is as wanted."""
        found: list[dict[str, Any]] = []

        def look() -> bool:
            found[:] = [self.get(path).json()]
            return wanted(found[0])

        try:
            wait_until(look, within_s=PATIENCE_S, what=f"{path} is as wanted")
        except TimeoutError:
            raise AssertionError(found[0]) from None
        return found[0]

    def settled(self, path: str) -> dict[str, Any]:
        """The same as soon as it has ended."""
        return self.seen(path, lambda found: found["status"] in ("complete", "failed"))


@dataclass
class Live:
    """The system, and a client to talk to it."""

    system: System
    store: Store
    url: str
    http: httpx.Client
    front: Any
    folder: Path
    accounts: dict[str, Account] = field(default_factory=dict)

    def operate(self, method: str, path: str, **given: Any) -> httpx.Response:
        return self.http.request(method, f"/records/v1/admin{path}", headers=OPERATOR, **given)

    def account(self, account_id: str = "acct_acme", scopes: list[str] | None = None, **more: Any) -> Account:
        """An account with a new key."""
        body = {"account_id": account_id, "scopes": scopes or ALL, **more}
        reply = self.operate("POST", "/keys", json=body)
        assert reply.status_code == 201, reply.text
        made = reply.json()
        return Account(self.http, made["api_key"], made["key_id"], account_id)

    @contextmanager
    def working(self, **settings: Any) -> Iterator[Worker]:
        """A worker in this process, for the length of the block."""
        assert self.system.handlers is not None
        worker = Worker(self.store, self.system.handlers, **{"lease_s": 10.0, "grace_s": 10.0, **settings})
        worker.start()
        try:
            yield worker
        finally:
            worker.stop()
            assert worker.join(PATIENCE_S)


def ground(store: Store, folder: Path, address: str, *, standins: bool, settings: dict[str, str]) -> Ground:
    folder.mkdir(parents=True, exist_ok=True)
    return Ground(
        store=store,
        folder=folder,
        address=f"{address}/records",
        token=Secret(TOKEN),
        environment={PREFIX + name: value for name, value in settings.items()},
        standins=standins,
    )


def front_of(system: System) -> Front:
    """The system at its path, with its stand-ins at theirs."""
    mounts = [Mount(path="/records", app=system.parts[""])]
    return Front([*mounts, *(Mount(path=f"/standins/{name}", app=app) for name, app in system.standins.items())])


@contextmanager
def called(store: Store, folder: Path, *, standins: bool = False, **settings: str) -> Iterator[Live]:
    """The system without a server: the application is called by the client itself, which takes a tenth of the time."""
    url = "http://127.0.0.1:9"
    system = build(ground(store, folder, url, standins=standins, settings=settings))
    front = front_of(system)
    with httpx.Client(transport=Straight(front), base_url=url) as client:
        system.start()
        try:
            yield Live(system, store, url, client, front, folder)
        finally:
            system.stop()


@contextmanager
def running(
    store: Store, folder: Path, *, standins: bool = True, worker: bool = False, **settings: str
) -> Iterator[Live]:
    """The system on a free port."""
    listener = listening_socket()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    system = build(ground(store, folder, url, standins=standins, settings=settings))
    front = front_of(system)
    with served(front, listener), httpx.Client(base_url=url, timeout=PATIENCE_S) as client:
        system.start()
        live = Live(system, store, url, client, front, folder)
        try:
            if worker:
                with live.working():
                    yield live
            else:
                yield live
        finally:
            system.stop()


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
        timeout_graceful_shutdown=1,
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


class Straight(httpx.BaseTransport):
    """Calls an application on an event loop of its own."""

    def __init__(self, app: Any) -> None:
        self._transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=("127.0.0.1", 50_000))
        self._runner = asyncio.Runner()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        whole = httpx.Request(request.method, request.url, headers=request.headers, content=request.read())
        return self._runner.run(self._answered(whole))

    async def _answered(self, request: httpx.Request) -> httpx.Response:
        reply = await self._transport.handle_async_request(request)
        return httpx.Response(reply.status_code, headers=reply.headers, content=await reply.aread())

    def close(self) -> None:
        self._runner.close()


def lines(*rows: Any) -> bytes:
    """Rows as NDJSON."""
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)
