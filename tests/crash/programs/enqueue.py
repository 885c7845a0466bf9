"""An enqueuer process for the crash tests: numbers 0 to COUNT, one job each, acknowledged in a file.

    python enqueue.py URL ACKNOWLEDGED '{"count": 600, "pause_ms": 5, "kinds": ["once", "plain"]}'

A line is written when `enqueue` has returned and not before. A successor goes on after the last line; every number
that is divisible by three has a dedupe key, so that doing it twice makes one job.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from holdfast.base import REAL
from holdfast.catalog import Failure
from holdfast.store import Store
from holdfast.worker import Jobs

AGAIN_S = 0.05


def key_of(number: int) -> str | None:
    return f"number-{number}" if number % 3 == 0 else None


def enqueue_one(jobs: Jobs, number: int, settings: dict[str, Any]) -> str:
    """Ask until there is an answer; how often it was refused is told on standard error."""
    kinds = settings["kinds"]
    waits = settings.get("waits_ms", [0, 5, 20])
    payload = {"n": number, "before_ms": waits[number % len(waits)], "after_ms": waits[number // 2 % len(waits)]}
    while True:
        try:
            return jobs.enqueue(kinds[number % len(kinds)], payload, dedupe_key=key_of(number)).id
        except Failure as failure:
            sys.stderr.write(f"refused {failure.code}: {failure.technical}\n")
            REAL.sleep(AGAIN_S)


def main(url: str, acknowledged: Path, settings: dict[str, Any]) -> None:
    """Enqueue what is missing."""
    store = Store.open(url)
    jobs = Jobs(store)
    known = acknowledged.read_text().splitlines() if acknowledged.exists() else []
    first = int(known[-1].split()[0]) + 1 if known else 0
    file = os.open(acknowledged, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in range(first, settings["count"]):
        job_id = enqueue_one(jobs, number, settings)
        os.write(file, f"{number} {job_id}\n".encode())
        if settings.get("pause_ms") and number % 10 == 9:
            REAL.sleep(10 * settings["pause_ms"] / 1_000)
    jobs.close()
    store.close()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3]))
