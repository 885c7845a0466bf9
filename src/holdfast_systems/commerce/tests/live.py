"""The system as its users meet it: called without a server, served on loopback, or as five processes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from holdfast.base import Secret
from holdfast.http.front import Front, Mount
from holdfast.http.system import Ground, System
from holdfast.store import Store
from holdfast.testing.ports import free_port, listening_socket
from holdfast.testing.processes import wait_until
from holdfast.worker import Worker
from holdfast_systems.commerce.main import PARTS, build
from holdfast_systems.commerce.settings import PREFIX

PATIENCE_S = 100.0
"""How long anything may take on a busy machine; nothing waits so long when all is well."""
KEEP_ALIVE_S = 600
TOKEN = "the operator's token"
SERVICE_TOKEN = "the token of the services"
OPERATOR = {"Authorization": f"Bearer {TOKEN}"}
SERVICE = {"Authorization": f"Bearer {SERVICE_TOKEN}"}
COMMERCE = "/commerce"


@dataclass
class Live:
    """A running system, and a client to talk to it."""

    http: httpx.Client
    urls: Mapping[str, str]
    """Where each part stands."""
    url: str = ""
    """Where the site stands, with the stand-ins; empty where the parts are apart."""
    system: System | None = None
    store: Store | None = None
    processes: Mapping[str, Process] = field(default_factory=dict)

    def ask(
        self, method: str, part: str, path: str, *, token: Mapping[str, str] | None = None, **given: Any
    ) -> httpx.Response:
        """Ask a part, with the operator's token unless another is given."""
        headers = {**(OPERATOR if token is None else token), **given.pop("headers", {})}
        return self.http.request(method, f"{self.urls[part]}{path}", headers=headers, **given)

    def get(self, part: str, path: str, **given: Any) -> httpx.Response:
        return self.ask("GET", part, path, **given)

    def post(self, part: str, path: str, body: Any = None, *, key: str | None = None, **given: Any) -> httpx.Response:
        headers = {**({} if key is None else {"Idempotency-Key": key}), **given.pop("headers", {})}
        return self.ask("POST", part, path, json=body, headers=headers, **given)

    def put(self, part: str, path: str, body: Any = None, **given: Any) -> httpx.Response:
        return self.ask("PUT", part, path, json=body, **given)

    def fault(self, standin: str, **switched: Any) -> None:
        """Switch faults of a stand-in on; without any, off."""
        url = f"{self.standin(standin)}/faults"
        reply = self.http.put(url, json=switched) if switched else self.http.delete(url)
        assert reply.is_success, reply.text

    def standin(self, name: str) -> str:
        owners = {"saleor": "provisioner", "langflow": "runner", "ragflow": "control-plane"}
        part = owners.get(name, "connectors")
        return f"{self.processes[part].url if self.processes else self.url}/standins/{name}"


def ground(
    store: Store,
    folder: Path,
    address: str,
    *,
    standins: bool = False,
    parts: Sequence[str] | None = None,
    settings: Mapping[str, str] | None = None,
) -> Ground:
    folder.mkdir(parents=True, exist_ok=True)
    given = {"service_token": SERVICE_TOKEN, **(settings or {})}
    return Ground(
        store=store,
        folder=folder,
        address=f"{address}{COMMERCE}",
        token=Secret(TOKEN),
        environment={PREFIX + name.upper(): value for name, value in given.items()},
        standins=standins,
        parts=None if parts is None else frozenset(parts),
    )


def front_of(system: System) -> Front:
    """The parts at their paths, with the stand-ins at theirs."""
    mounts = [Mount(path=f"{COMMERCE}/{name}", app=app) for name, app in system.parts.items() if name]
    return Front([*mounts, *(Mount(path=f"/standins/{name}", app=app) for name, app in system.standins.items())])


def urls_of(address: str) -> dict[str, str]:
    return {name: f"{address}{COMMERCE}/{name}" for name in PARTS}


@contextmanager
def called(
    store: Store, folder: Path, *, standins: bool = False, parts: Sequence[str] | None = None, **settings: str
) -> Iterator[Live]:
    """The system without a server: the client calls the applications itself, which takes a tenth of the time."""
    url = "http://127.0.0.1:9"
    system = build(ground(store, folder, url, standins=standins, parts=parts, settings=settings))
    with httpx.Client(transport=Straight(front_of(system)), base_url=url) as client:
        system.start()
        try:
            yield Live(http=client, urls=urls_of(url), url=url, system=system, store=store)
        finally:
            system.stop()


@contextmanager
def running(
    store: Store, folder: Path, *, standins: bool = True, worker: bool = True, **settings: str
) -> Iterator[Live]:
    """All services on one free port."""
    listener = listening_socket()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    system = build(ground(store, folder, url, standins=standins, settings=settings))
    with ExitStack() as stack:
        stack.enter_context(on_server(front_of(system), listener))
        client = stack.enter_context(httpx.Client(timeout=PATIENCE_S))
        system.start()
        stack.callback(system.stop)
        if worker and system.handlers is not None:
            stack.enter_context(working(store, system))
        yield Live(http=client, urls=urls_of(url), url=url, system=system, store=store)
        system.closing()


@contextmanager
def working(store: Store, system: System) -> Iterator[Worker]:
    """A worker in this process, for the length of the block."""
    assert system.handlers is not None
    worker = Worker(store, system.handlers, lease_s=10.0, grace_s=10.0)
    worker.start()
    try:
        yield worker
    finally:
        worker.stop()
        assert worker.join(PATIENCE_S)


@contextmanager
def on_server(app: Any, listener: Any) -> Iterator[None]:
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
        # In the context of the caller, who may have replaced the clock.
        return self._runner.run(self._answered(whole), context=copy_context())

    async def _answered(self, request: httpx.Request) -> httpx.Response:
        reply = await self._transport.handle_async_request(request)
        return httpx.Response(reply.status_code, headers=reply.headers, content=await reply.aread())

    def close(self) -> None:
        self._runner.close()


class Process:
    """One part as `holdfast serve commerce --part NAME`, at one address through all its lives."""

    def __init__(self, part: str, database: str, folder: Path, port: int, environment: Mapping[str, str]) -> None:
        self.part = part
        self.url = f"http://127.0.0.1:{port}"
        self._command = [
            *(sys.executable, "-m", "holdfast.cli", "serve", "commerce", "--part", part),
            *("--port", str(port), "--data", str(folder / part), "--standins"),
        ]
        self._environment = {**environment, "HOLDFAST_DATABASE": database}
        self._log = folder / f"{part}.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(self._command, env=self._environment, stdout=log, stderr=log)

    def wait_ready(self, http: httpx.Client) -> None:
        def ready() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, self._log.read_text()
            try:
                return http.get(f"{self.url}/health").status_code < 500
            except httpx.TransportError:
                return False

        wait_until(ready, within_s=PATIENCE_S, what=f"{self.part} serves")

    def kill(self) -> None:
        """End it at once, as a crash would."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def log(self) -> str:
        return self._log.read_text()


@contextmanager
def apart(
    database: str,
    folder: Path,
    *,
    parts: Sequence[str] = PARTS,
    ports: Mapping[str, int] | None = None,
    databases: Mapping[str, str] | None = None,
    **settings: str,
) -> Iterator[Live]:
    """The services as processes of their own, each with its stand-ins and its worker.

    Args:
        databases: those of parts that have one of their own.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ports = {part: free_port() for part in parts} if ports is None else ports
    urls = {part: f"http://127.0.0.1:{port}" for part, port in ports.items()}
    own = {"service_token": SERVICE_TOKEN, **{_setting(part): url for part, url in urls.items()}}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    given = {PREFIX + name.upper(): value for name, value in {**own, **settings}.items()}
    environment = {**kept, "HOLDFAST_TOKEN": TOKEN, **given}
    own_databases = databases or {}
    made = {part: Process(part, own_databases.get(part, database), folder, ports[part], environment) for part in parts}
    with ExitStack() as stack:
        client = stack.enter_context(httpx.Client(timeout=PATIENCE_S))
        _all(made, Process.start)
        for process in made.values():
            stack.callback(process.kill)
        _all(made, lambda process: process.wait_ready(client))
        yield Live(http=client, urls=urls, processes=made)


def _all(made: Mapping[str, Process], act: Callable[[Process], None]) -> None:
    for process in made.values():
        act(process)


def _setting(part: str) -> str:
    return f"{part.replace('-', '_')}_url"
