"""How fast jobs are enqueued on PostgreSQL: one at a time, by many callers at once, and in bulk."""

from __future__ import annotations

from bench.jobs_drain import CONTENDERS, QUICK
from bench.jobs_process import ask
from bench.jobs_rows import OURS, RAW, Figures, at_least, in_turns, progress, rate_rows
from bench.jobs_server import Bench
from bench.table import Row

CALLERS = 100
ROUNDS = 5
SECONDS, SECONDS_QUICK = 1.5, 0.5
"""Time for which each contender enqueues in each round."""
OF_COMMIT_MIN = 0.75
TOGETHER_MIN = 30_000
OF_PGQUEUER_BULK_MIN = 2.0


def enqueue_rows(bench: Bench, quick: bool) -> list[Row]:
    singly = _measured(bench, "singly", quick)
    rows = rate_rows(
        "PostgreSQL: enqueue, one at a time",
        singly,
        "jobs/s",
        {OURS: at_least(OF_COMMIT_MIN, singly.ratio(OURS, RAW), "× raw SQL")},
    )
    together = _measured(bench, "together", quick, CALLERS)
    rows += rate_rows(
        f"PostgreSQL: enqueue, {CALLERS} callers at once (raw SQL: 10 connections)",
        together,
        "jobs/s",
        {OURS: at_least(TOGETHER_MIN, together.best.get(OURS), "jobs/s")},
    )
    bulk = _measured(bench, "bulk", quick)
    rows += rate_rows(
        "PostgreSQL: enqueue, 1,000 in a call",
        bulk,
        "jobs/s",
        {OURS: at_least(OF_PGQUEUER_BULK_MIN, bulk.ratio(OURS, "pgqueuer"), "× pgqueuer")},
    )
    return rows


def _measured(bench: Bench, command: str, quick: bool, *numbers: int) -> Figures:
    milliseconds = int(1_000 * (SECONDS_QUICK if quick else SECONDS))

    def measure(name: str) -> float:
        with bench.database(name) as address:
            rate = float(ask(name, command, address, milliseconds, *numbers))
        progress(f"enqueue {command}, {name}: {rate:,.0f} jobs/s")
        return rate

    return in_turns(QUICK if quick else CONTENDERS, measure, rounds=1 if quick else ROUNDS, what=f"enqueue {command}")
