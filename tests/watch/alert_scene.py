"""What the alert tests share: a process that counts, a receiver on loopback, a sender, and a worker in virtual time."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from holdfast.base import now_us
from holdfast.delivery import Outgoing, Reply
from holdfast.store import Store
from holdfast.testing import VirtualTime
from holdfast.watch.alert_ledger import QUEUE
from holdfast.watch.flush import Flusher
from holdfast.watch.meter import Meter
from holdfast.watch.names import Metric
from holdfast.watch.slices import WIDTHS_S
from holdfast.worker import Handlers, ledger
from holdfast.worker.attempt import attempt

WORKER = "w1"


def open_sqlite(folder: Path) -> Store:
    """A fresh store on SQLite, on the injected clock, for what does not depend on the engine."""
    store = Store.open(f"sqlite:///{folder / 'alerts.db'}", database_clock=False)
    store.migrate()
    return store


def stand_at_a_slice(time: VirtualTime) -> None:
    """Let the time be the beginning of a slice, so that nothing depends on when the test runs.

    It moves by whole 1024ths of a second: sums of those are exact, so two readings are apart by just what was waited.
    """
    widest_us = WIDTHS_S[-1] * 1_000_000
    left_us = widest_us - now_us() % widest_us
    time.advance((left_us * 1_024 // 1_000_000 + 2) / 1_024)


class Process:
    """A process that counts what it is told, and flushes it at once."""

    def __init__(self, store: Store) -> None:
        self.meter = Meter()
        self.flusher = Flusher(store, self.meter)

    def tell(self, verb: str, *, times: int = 1, flush: bool = True, **facts: object) -> None:
        for _ in range(times):
            self.meter.hear(verb, facts)
        if flush:
            self.flush()

    def show(self, metric: Metric, *values: str, value: float) -> None:
        self.meter.set(metric, *values, value=value)
        self.flush()

    def flush(self) -> None:
        assert self.flusher.flush()


@dataclass(frozen=True)
class Got:
    path: str
    headers: dict[str, str]
    body: bytes


class Receiver:
    """A server that answers with the statuses it is given, then with 202, and keeps what it got."""

    def __init__(self) -> None:
        self.got: list[Got] = []
        self.statuses: list[int] = []
        self.answer = b'{"status":"success"}'
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                owner.got.append(Got(self.path, {name.lower(): value for name, value in self.headers.items()}, body))
                self.send_response(owner.statuses.pop(0) if owner.statuses else 202)
                self.send_header("Content-Length", str(len(owner.answer)))
                self.end_headers()
                self.wfile.write(owner.answer)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=lambda: self._server.serve_forever(poll_interval=0.01), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def post(request: Outgoing) -> Reply:
    """A sender that blocks."""
    address = urlsplit(request.url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=request.timeout_s)
    try:
        connection.request("POST", address.path or "/", body=request.body, headers=dict(request.headers))
        answer = connection.getresponse()
        return Reply(answer.status, dict(answer.getheaders()), answer.read(1_000))
    finally:
        connection.close()


class AlertWorker:
    """Claims, attempts and settles the notices in this thread."""

    def __init__(self, store: Store, handlers: Handlers) -> None:
        self._store = store
        self._handlers = handlers

    def claim(self) -> list[Any]:
        def phase(tx: Any) -> list[Any]:
            tx.rows("job.promote", count=1_000)
            return ledger.claim(tx, queue=QUEUE, worker=WORKER, count=1_000)

        return self._store.atomic(phase)

    def settle(self, job: Any) -> None:
        outcome = attempt(self._handlers.get(job.kind), job)
        finished = [outcome] if isinstance(outcome, tuple) else []
        settlements = [] if outcome is None or finished else [outcome]
        self._store.atomic(lambda tx: ledger.settle(tx, WORKER, finished, settlements))

    def turn(self) -> int:
        """Everything that is due now, once; how many attempts were made."""
        jobs = self.claim()
        for job in jobs:
            self.settle(job)
        return len(jobs)

    def run(self, time: VirtualTime, seconds: float, until: Callable[[], bool]) -> None:
        """Until it is so; fails when that takes longer than so much virtual time."""
        for _ in range(int(seconds)):
            self.turn()
            if until():
                return
            time.advance(1)
        raise AssertionError(f"not within {seconds} s")
