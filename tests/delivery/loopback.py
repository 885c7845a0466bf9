"""Real receivers on loopback, real senders, and a worker in virtual time."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from holdfast.base import now_us
from holdfast.delivery import Deliveries, Outgoing, Reply
from holdfast.store import Store
from holdfast.testing import VirtualTime
from holdfast.worker import Handlers, ledger
from holdfast.worker.attempt import attempt

WORKER = "w1"
BACKLOG = 128


@dataclass(frozen=True)
class Got:
    """A request that arrived."""

    path: str
    headers: dict[str, str]
    body: bytes
    at_us: int

    @property
    def data(self) -> Any:
        """The payload of the event that it brings, from its envelope."""
        return json.loads(self.body)["data"]


@dataclass(frozen=True)
class Say:
    """An answer to give."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


class Loopback:
    """A server that answers as it is told, path by path, and keeps what it got."""

    def __init__(self) -> None:
        self.got: list[Got] = []
        self.answers: dict[str, deque[Say]] = defaultdict(deque)
        self.always: dict[str, Say] = {}
        self.before: Callable[[Got], None] = lambda got: None
        self.judge: Callable[[Got], Say | None] = lambda got: None
        """What to answer before all else; None leaves it to the others."""
        self.clock: Callable[[], int] = now_us
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=lambda: self._server.serve_forever(poll_interval=0.01), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def at(self, path: str) -> list[Got]:
        with self._lock:
            return [got for got in self.got if got.path == path]

    def take(self, got: Got) -> Say:
        with self._lock:
            self.got.append(got)
        self.before(got)
        said = self.judge(got)
        if said is not None:
            return said
        with self._lock:
            return self.answers[got.path].popleft() if self.answers[got.path] else self.always.get(got.path, Say())

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    # The usual five are soon too few, and whoever finds no place in the line comes back only after a second.
    request_queue_size = BACKLOG
    daemon_threads = True


def _handler(owner: Loopback) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            body = self.rfile.read(length)
            if len(body) < length:
                self.close_connection = True  # its sender was killed in the middle of it: nothing has arrived
                return
            headers = {name.lower(): value for name, value in self.headers.items()}
            say = owner.take(Got(self.path, headers, body, owner.clock()))
            self.send_response(say.status)
            for name, value in {**say.headers, "Content-Length": str(len(say.body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(say.body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    return Handler


def post(request: Outgoing) -> Reply:
    """A sender that blocks."""
    address = urlsplit(request.url)
    secure = {"context": ssl.create_default_context()} if address.scheme == "https" else {}
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    connection = kind(address.hostname or "", address.port, timeout=request.timeout_s, **secure)
    try:
        connection.request("POST", address.path or "/", body=request.body, headers=dict(request.headers))
        answer = connection.getresponse()
        return Reply(answer.status, dict(answer.getheaders()), answer.read(1_000))
    finally:
        connection.close()


class AiohttpPost:
    """A sender on aiohttp; its session lives on the loop that first uses it."""

    def __init__(self, connections: int = 100) -> None:
        self._connections = connections
        self._session: Any = None

    async def __call__(self, request: Outgoing) -> Reply:
        import aiohttp

        if self._session is None:
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=self._connections))
        timeout = aiohttp.ClientTimeout(total=request.timeout_s)
        async with self._session.post(
            request.url, data=request.body, headers=request.headers, timeout=timeout, allow_redirects=False
        ) as answer:
            return Reply(answer.status, answer.headers, await answer.content.read(1_000))

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


@contextmanager
def closed_port() -> Iterator[int]:
    """A port where nobody listens, and which nobody else is given meanwhile."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield int(bound.getsockname()[1])


class VirtualWorker:
    """Claims, attempts and settles in this thread, and lets the virtual time pass in between."""

    def __init__(self, store: Store, deliveries: Deliveries, time: VirtualTime, send: Any = post) -> None:
        self._store = store
        self._handlers: Handlers = deliveries.handlers(send)
        self._queue = deliveries.queue().name
        self._time = time

    def turn(self) -> int:
        """Everything that is due now, once; how many attempts were made."""

        def claim(tx: Any) -> list[Any]:
            tx.rows("job.promote", count=10_000)
            return ledger.claim(tx, queue=self._queue, worker=WORKER, count=10_000)

        jobs = self._store.atomic(claim)
        for job in jobs:
            outcome = attempt(self._handlers.get(job.kind), job)
            finished = [outcome] if isinstance(outcome, tuple) else []
            settlements = [] if outcome is None or finished else [outcome]
            self._store.atomic(lambda tx, done=finished, rest=settlements: ledger.settle(tx, WORKER, done, rest))
        return len(jobs)

    def run(self, seconds: float = 600.0) -> None:
        """Until nothing is left to do, or so much time has passed."""
        until_s = self._time.passed_s + seconds
        while True:
            if self.turn():
                continue
            due = self._store.atomic(lambda tx: tx.row("job.next_due"), write=False)
            if due is None or due[0] is None:
                return
            wait_s = max(due[0], 1) / 1e6
            if self._time.passed_s + wait_s > until_s:
                self._time.advance(until_s - self._time.passed_s)
                return
            self._time.advance(wait_s)
