"""Requests with an idempotency key beside the same requests without one: one server process, 32 clients at once."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from operator import truediv
from pathlib import Path
from secrets import token_hex
from statistics import median
from time import perf_counter, sleep
from typing import Any

import uvloop

from bench.edge_program import BARE, MODEL, ROW
from bench.jobs_process import ROOT, Unavailable
from bench.jobs_rows import announce, missing_row
from bench.jobs_server import bench_server
from bench.steal import rounds
from bench.table import Asked, Row

CLIENTS = 32
ROUNDS, ROUNDS_MAX, ROUNDS_QUICK = 20, 40, 4
ROUND_S, WARM_S = 0.5, 0.5
OF_PLAIN_MIN = 0.6
UP_S_MAX = 30.0
BODY = b'{"n":12}'
CREATED = b"HTTP/1.1 201 "
END_OF_REPLY = b'{"made":12}'
ENDPOINTS = {
    BARE: " that is a bare function of Starlette",
    MODEL: " of FastAPI with a model",
    ROW: " of FastAPI that also inserts a row",
}


def keyed_rows(folder: Path, quick: bool) -> list[Row]:
    """Keyed and plain requests take turns, and each round has its own ratio; of these the median counts.

    On a machine with two processors the system sometimes has clients and server work side by side, and sometimes on the
    same one: then the best round of one would be compared with the best of the other under other circumstances.
    """
    rows = _rows("SQLite", f"sqlite:///{folder / 'keyed.db'}", quick)
    try:
        with bench_server(folder) as bench, bench.database("holdfast") as address:
            rows += _rows("PostgreSQL", address, quick)
    except Unavailable as reason:
        announce(f"{_group('PostgreSQL')}: {reason}")
        rows.append(missing_row(_group("PostgreSQL"), "holdfast", str(reason)))
    return rows


def _group(engine: str, says: str = "") -> str:
    return f"{engine}: {CLIENTS} clients of one endpoint{says}, requests per second"


def _rows(engine: str, url: str, quick: bool) -> list[Row]:
    rows = []
    with _served(url) as port:
        for path, says in ENDPOINTS.items():
            uvloop.run(_rate(port, path, keyed=True, seconds=WARM_S))
            plain: list[float] = []
            keyed: list[float] = []
            for _ in range(ROUNDS_QUICK) if quick else rounds(ROUNDS, ROUNDS_MAX):
                plain.append(uvloop.run(_rate(port, path, keyed=False, seconds=ROUND_S)))
                keyed.append(uvloop.run(_rate(port, path, keyed=True, seconds=ROUND_S)))
            rows += _pair(_group(engine, says), plain, keyed)
    return rows


def _pair(group: str, plain: list[float], keyed: list[float]) -> list[Row]:
    share = median(map(truediv, keyed, plain))
    asked = Asked(bound=OF_PLAIN_MIN, reached=share, unit="× without a key", at_most=False)
    return [
        Row(group=group, name="without a key", figure=median(plain), unit="1/s"),
        Row(
            group=group,
            name="each with a new idempotency key",
            figure=median(keyed),
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
    """Requests per second. The clients are as light as can be: they share the machine with the server."""
    head = f"POST {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: {len(BODY)}\r\n"
    plain = f"{head}\r\n".encode() + BODY
    prefix, suffix = f"{head}idempotency-key: {token_hex(8)}-".encode(), b"\r\n\r\n" + BODY
    numbers = count()
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()
    answered, working = 0, CLIENTS

    class Client(asyncio.Protocol):
        def connection_made(self, transport: Any) -> None:
            self._transport = transport
            self._send()

        def data_received(self, data: bytes) -> None:
            nonlocal answered
            self._reply += data
            if not self._reply.startswith(CREATED):
                over.set_exception(AssertionError(f"a client was answered {self._reply[:60]!r}"))
            elif self._reply.endswith(END_OF_REPLY):
                answered += 1
                self._send()

        def _send(self) -> None:
            nonlocal working
            self._reply = b""
            if perf_counter() < until_s:
                self._transport.write(b"%s%d%s" % (prefix, next(numbers), suffix) if keyed else plain)
                return
            self._transport.close()
            working -= 1
            if not working:
                over.set_result(None)

    began_s = perf_counter()
    until_s = began_s + seconds
    for _ in range(CLIENTS):
        await loop.create_connection(Client, "127.0.0.1", port)
    await over
    return answered / (perf_counter() - began_s)
