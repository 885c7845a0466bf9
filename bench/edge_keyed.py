"""Requests with an idempotency key beside the same requests without one: one server process, 32 clients at once."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, sleep

from bench.edge_program import BARE, MODEL, ROW
from bench.jobs_process import ROOT, Unavailable
from bench.jobs_rows import announce, missing_row
from bench.jobs_server import bench_server
from bench.table import Asked, Row
from holdfast.base import new_id

CLIENTS = 32
ROUNDS, ROUNDS_QUICK = 5, 2
ROUND_S, WARM_S = 2.0, 0.5
OF_PLAIN_MIN = 0.6
UP_S_MAX = 30.0
BODY = b'{"n":12}'
ENDPOINTS = {
    BARE: " that is a bare function of Starlette",
    MODEL: " of FastAPI with a model",
    ROW: " of FastAPI that also inserts a row",
}


def keyed_rows(folder: Path, quick: bool) -> list[Row]:
    """Keyed and plain requests take turns; of each, the best round counts."""
    rounds = ROUNDS_QUICK if quick else ROUNDS
    rows = _rows("SQLite", f"sqlite:///{folder / 'keyed.db'}", rounds)
    try:
        with bench_server(folder) as bench, bench.database("holdfast") as address:
            rows += _rows("PostgreSQL", address, rounds)
    except Unavailable as reason:
        announce(f"{_group('PostgreSQL')}: {reason}")
        rows.append(missing_row(_group("PostgreSQL"), "holdfast", str(reason)))
    return rows


def _group(engine: str, says: str = "") -> str:
    return f"{engine}: {CLIENTS} clients of one endpoint{says}, requests per second"


def _rows(engine: str, url: str, rounds: int) -> list[Row]:
    rows = []
    with _served(url) as port:
        asyncio.run(_rate(port, MODEL, keyed=True, seconds=WARM_S))
        for path, says in ENDPOINTS.items():
            best = {False: 0.0, True: 0.0}
            for _ in range(rounds):
                for keyed in best:
                    best[keyed] = max(best[keyed], asyncio.run(_rate(port, path, keyed=keyed, seconds=ROUND_S)))
            rows += _pair(_group(engine, says), best)
    return rows


def _pair(group: str, best: dict[bool, float]) -> list[Row]:
    share = best[True] / best[False]
    asked = Asked(bound=OF_PLAIN_MIN, reached=share, unit="× without a key", at_most=False)
    return [
        Row(group=group, name="without a key", figure=best[False], unit="1/s"),
        Row(
            group=group,
            name="each with a new idempotency key",
            figure=best[True],
            unit="1/s",
            ratios={"× without a key": share},
            asked=asked,
        ),
    ]


@contextmanager
def _served(url: str) -> Iterator[int]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-m", "bench.edge_program", url, str(port)], cwd=ROOT)
    try:
        until_s = perf_counter() + UP_S_MAX
        while not _answers(port):
            if process.poll() is not None or perf_counter() > until_s:
                raise Unavailable("the server did not come up")
            sleep(0.1)
        yield port
    finally:
        process.kill()
        process.wait()


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


async def _rate(port: int, path: str, *, keyed: bool, seconds: float) -> float:
    began_s = perf_counter()
    counts = await asyncio.gather(*(_client(port, path, keyed, began_s + seconds) for _ in range(CLIENTS)))
    return sum(counts) / (perf_counter() - began_s)


async def _client(port: int, path: str, keyed: bool, until_s: float) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: {len(BODY)}\r\n"
    count = 0
    while perf_counter() < until_s:
        key = f"idempotency-key: {new_id()}\r\n" if keyed else ""
        writer.write(f"{head}{key}\r\n".encode() + BODY)
        reply = (await reader.readuntil(b"\r\n\r\n")).lower()
        if not reply.startswith(b"http/1.1 201 "):
            raise AssertionError(f"a client was answered {reply[:60]!r}")
        await reader.readexactly(int(reply.partition(b"content-length: ")[2].partition(b"\r\n")[0]))
        count += 1
    writer.close()
    return count
