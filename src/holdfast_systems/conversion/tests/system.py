"""The system as its users meet it: served over HTTP, with a worker of its own and the real gateway behind it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from reportlab.pdfgen.canvas import Canvas
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.base import REAL, Secret
from holdfast.http.system import Ground, System
from holdfast.store import Store
from holdfast.testing.ports import listening_socket
from holdfast.testing.processes import wait_until
from holdfast.worker import Worker
from holdfast_systems.conversion import build
from holdfast_systems.conversion.settings import PREFIX

PATIENCE_S = 60.0
"""So long anything may take on a busy machine; nothing waits so long when all is well."""
LOOK_S = 0.03
KEEP_ALIVE_S = 600
"""Longer than any client keeps a connection: none is closed in the very moment in which its next request comes."""
QUICK = {"RETRY_DELAYS_S": "0.02,0.04,0.06", "BREAKER_OPEN_S": "0.2", "BREAKER_CALLS_MIN": "1000"}
"""Waits that are over at once, and a breaker that stays out of the way unless a test is about it."""


def pdf(text: str = "A page of text.", *, pages: int = 1) -> bytes:
    """A small PDF; the same text gives the same bytes."""
    file = BytesIO()
    canvas = Canvas(file, invariant=1)
    for number in range(pages):
        canvas.drawString(72, 720, f"{text} {number}")
        canvas.showPage()
    canvas.save()
    return file.getvalue()


def client(address: str, **settings: Any) -> httpx.Client:
    """A client; to load certificates, which nobody here needs, takes longer than most tests."""
    return httpx.Client(base_url=address, timeout=PATIENCE_S, verify=False, **settings)


@dataclass
class Person:
    """Somebody with a browser, and so with a session cookie."""

    http: httpx.Client

    def upload(self, content: bytes, *, name: str = "paper.pdf", mapping: str = "text") -> httpx.Response:
        form = {"mapping": mapping}
        return self.http.post("/api/upload", data=form, files={"file": (name, content, "application/pdf")})

    def uploaded(self, content: bytes | None = None, **said: str) -> str:
        """Upload and get the id."""
        reply = self.upload(pdf() if content is None else content, **said)
        assert reply.status_code == 201, reply.text
        return str(reply.json()["id"])

    def job(self, job_id: str) -> dict[str, Any]:
        reply = self.http.get(f"/api/jobs/{job_id}")
        assert reply.status_code == 200, reply.text
        return dict(reply.json())

    def listing(self) -> dict[str, Any]:
        return dict(self.http.get("/api/jobs").json())

    def download(self, job_id: str) -> httpx.Response:
        return self.http.get(f"/api/jobs/{job_id}/download")

    def retry(self, job_id: str) -> httpx.Response:
        return self.http.post(f"/api/jobs/{job_id}/retry")

    def settled(self, job_id: str) -> dict[str, Any]:
        """The job as soon as it has ended."""
        return self.seen(job_id, lambda job: job["status"] in ("complete", "failed"))

    def seen(self, job_id: str, wanted: Any) -> dict[str, Any]:
        """The job as soon as it is as wanted."""
        found: list[dict[str, Any]] = []

        def look() -> bool:
            found[:] = [self.job(job_id)]
            if wanted(found[0]):
                return True
            REAL.sleep(LOOK_S)
            return False

        try:
            wait_until(look, within_s=PATIENCE_S, what=f"job {job_id} is as wanted")
        except TimeoutError:
            raise AssertionError(found[0]) from None
        return found[0]


@dataclass
class Running:
    """The system, served."""

    system: System
    address: str
    store: Store
    folder: Path
    stack: ExitStack = field(repr=False)

    def person(self) -> Person:
        """Somebody who has just opened the page."""
        http = self.stack.enter_context(client(self.address))
        assert http.get("/").status_code == 200
        return Person(http)

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

    def files(self, folder: str) -> list[Path]:
        """What lies in the artifacts' folder of that name."""
        return sorted(path for path in (self.folder / "artifacts" / folder).glob("**/*") if path.is_file())


def ground(store: Store, folder: Path, address: str, environment: Mapping[str, str]) -> Ground:
    settings = {PREFIX + name: value for name, value in {**QUICK, **environment}.items()}
    return Ground(store=store, folder=folder, address=address, token=Secret("t"), environment=settings, standins=True)


@contextmanager
def served(app: Any) -> Iterator[str]:
    """An ASGI application behind uvicorn; its address."""
    config = uvicorn.Config(
        app,
        log_level="critical",
        access_log=False,
        ws="none",
        proxy_headers=False,  # as `holdfast serve` has it
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    with listening_socket() as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(PATIENCE_S)


@contextmanager
def holding() -> Iterator[tuple[str, threading.Event]]:
    """A gateway that answers nothing until it is let go, then with a small XML; its address, and what lets it go."""
    go_on = threading.Event()

    async def answer(request: Request) -> Response:
        await request.body()
        await asyncio.to_thread(go_on.wait, PATIENCE_S)
        return Response(b"<document/>", media_type="application/xml")

    with served(Starlette(routes=[Route("/convert", answer, methods=["POST"])])) as address:
        try:
            yield address, go_on
        finally:
            go_on.set()


@contextmanager
def running(store: Store, folder: Path, *, address: str = "http://localhost", **environment: str) -> Iterator[Running]:
    """The system on this store, served alone; settings by their names without the prefix."""
    folder.mkdir(exist_ok=True)
    system = build(ground(store, folder, address, environment))
    system.start()
    with ExitStack() as stack:
        stack.callback(system.stop)
        reached = stack.enter_context(served(system.parts[""]))
        yield Running(system, reached, store, folder, stack)
