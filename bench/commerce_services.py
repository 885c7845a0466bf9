"""Five services as processes of their own, and the time of one run through them beside the runtime alone."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from statistics import quantiles
from time import perf_counter
from typing import Any

import aiohttp
import httpx

from bench.commerce_ledger import AMOUNT, BUDGET, Filled
from holdfast.testing.ports import free_port
from holdfast.testing.processes import wait_until

PARTS = ("provisioner", "control-plane", "gateway", "runner", "connectors")
PREFIX = "HOLDFAST_COMMERCE_"
TOKEN = "the token of this measurement"
READY_S = 120.0
WARM = 20
MANY = 1_000_000
LIMITS = ("requestsPerMinute", "concurrentRuns", "toolCallsPerMinute", "sessionsPerMinute", "chatsPerMinute")

_NUMBERS = count(1)


def added_ms(folder: Path, requests: int) -> tuple[list[float], list[float]]:
    """Percentiles (1 to 99) of a direct call of the runtime, and of a run through the gateway."""
    with _served(folder) as urls, httpx.Client(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60) as client:
        instance = _bought(client, urls)
        direct_url = f"{urls['runner']}/standins/langflow/api/v1/run/assistant?stream=false"
        run_url = f"{urls['gateway']}/v1/instances/{instance}/runs"

        def direct() -> None:
            number = next(_NUMBERS)
            body = {"input_value": "hello", "input_type": "chat", "output_type": "chat", "session_id": f"s{number}"}
            reply = client.post(direct_url, json=body, headers={"x-api-key": "stand-in"})
            assert reply.status_code == 200, reply.text

        def through() -> None:
            body = {"input": "hello", "clientRunId": f"c{next(_NUMBERS)}", "userId": "bench"}
            reply = client.post(run_url, json=body)
            assert reply.status_code == 200, reply.text

        for _ in range(WARM):
            direct()
            through()
        took: dict[Any, list[float]] = {direct: [], through: []}
        for _ in range(requests):
            # In turns, so that a busy moment hits both alike.
            for ask, times in took.items():
                begun_s = perf_counter()
                ask()
                times.append((perf_counter() - begun_s) * 1_000)
    return quantiles(took[direct], n=100), quantiles(took[through], n=100)


def pairs_over_http(database: str, folder: Path, place: Filled, *, clients: int, seconds: float, windows: int) -> float:
    """The best number of pairs of authorize and settle in a second, asked of one control plane process."""
    with _served(folder, parts=("control-plane",), database=database) as urls:
        return max(
            asyncio.run(_window(f"{urls['control-plane']}/billing", place, clients=clients, seconds=seconds))
            for _ in range(windows)
        )


async def _window(url: str, place: Filled, *, clients: int, seconds: float) -> float:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=clients), headers=headers) as session:
        until_s, done = perf_counter() + seconds, 0

        async def ask(path: str, body: dict[str, Any]) -> Any:
            async with session.post(f"{url}/{path}", json=body) as reply:
                assert reply.status == 200, await reply.text()
                return await reply.json()

        async def client(number: int) -> None:
            nonlocal done
            while perf_counter() < until_s:
                run = next(_NUMBERS)
                instance = place.instances[(run * 7 + number) % len(place.instances)]
                asked = {"instanceId": instance, "requestedBudget": BUDGET, "runId": f"http-{run}"}
                held = await ask("authorize", asked)
                await ask("settle", {"reservationId": held["reservationId"], "amount": AMOUNT})
                done += 1

        begun_s = perf_counter()
        await asyncio.gather(*(client(number) for number in range(clients)))
        return done / (perf_counter() - begun_s)


def _bought(client: httpx.Client, urls: dict[str, str]) -> str:
    plane = urls["control-plane"]
    plan = {"kind": "agent", "title": "Bench", "credits": MANY, "offering": "assistant"}
    reply = client.put(f"{plane}/plans/bench", json={**plan, "limits": dict.fromkeys(LIMITS, MANY)})
    assert reply.status_code == 200, reply.text
    line = {"orderId": "O1", "lineId": "L1", "productSku": "bench", "quantity": 1, "user": {"id": "u1"}}
    key = {"Idempotency-Key": "saleor:O1:L1"}
    reply = client.post(f"{plane}/integrations/saleor/order-paid", json=line, headers=key)
    assert reply.status_code == 200, reply.text
    return str(reply.json()["instanceId"])


@contextmanager
def _served(folder: Path, *, parts: Sequence[str] = PARTS, database: str = "") -> Iterator[dict[str, str]]:
    ports = {part: free_port() for part in parts}
    urls = {part: f"http://127.0.0.1:{port}" for part, port in ports.items()}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    places = {f"{PREFIX}{part.replace('-', '_').upper()}_URL": url for part, url in urls.items()}
    own = {"HOLDFAST_TOKEN": TOKEN, f"{PREFIX}SERVICE_TOKEN": "the token of the services"}
    environment = {**kept, **places, **own, "HOLDFAST_DATABASE": database or f"sqlite:///{folder}/services.db"}
    processes = []
    try:
        for part, port in ports.items():
            command = [sys.executable, "-m", "holdfast.cli", "serve", "commerce", "--part", part, "--standins"]
            words = [*command, "--port", str(port), "--data", str(folder / part)]
            processes.append(subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL))
        for url in urls.values():
            wait_until(lambda url=url: _healthy(url), within_s=READY_S, what=f"{url} serves")
        yield urls
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5) as reply:
            return bool(json.loads(reply.read()))
    except OSError:
        return False
