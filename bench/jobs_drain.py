"""How fast workers empty a full queue on PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping

from bench.jobs_process import crew
from bench.jobs_rows import OURS, RAW, at_least, in_turns, progress, rate_rows, ratio_row
from bench.jobs_server import Bench
from bench.table import Row

PEERS = ("pgqueuer", "oban", "procrastinate")
CONTENDERS = (RAW, OURS, *PEERS)
JOBS = {RAW: 60_000, OURS: 60_000, "pgqueuer": 60_000, "oban": 10_000, "procrastinate": 2_000}
JOBS_QUICK = {RAW: 10_000, OURS: 10_000, "pgqueuer": 10_000, "oban": 1_500, "procrastinate": 300}
ROUNDS = 3
WITHIN_S = 60.0

OF_PGQUEUER_MIN = 1.5
OF_RAW_MIN = 0.5
TWO_PROCESSES_MIN = 30_000


def drain(bench: Bench, contender: str, jobs: int, processes: int) -> float:
    """Jobs per second, from the first one handled to all of them done."""
    with (
        bench.database(contender, jobs) as address,
        crew(contender, address, processes) as workers,
        bench.asking(address) as connection,
    ):
        if (found := bench.unfinished(contender, connection)) != jobs:
            raise AssertionError(f"{contender}: {found} jobs wait, {jobs} were enqueued")
        workers.go()
        taken_s = workers.drained(jobs, lambda: bench.unfinished(contender, connection), within_s=WITHIN_S)
    progress(f"drain, {processes} × {contender}: {jobs / taken_s:,.0f} jobs/s")
    return jobs / taken_s


def drain_rows(bench: Bench, quick: bool) -> list[Row]:
    jobs: Mapping[str, int] = JOBS_QUICK if quick else JOBS
    rounds = 1 if quick else ROUNDS
    group = "PostgreSQL: drain, one worker process"
    one = in_turns(CONTENDERS, lambda name: drain(bench, name, jobs[name], 1), rounds=rounds, what=group)
    asked = at_least(OF_PGQUEUER_MIN, one.ratio(OURS, "pgqueuer"), "× pgqueuer")
    rows = rate_rows(group, one, "jobs/s", {OURS: asked})
    rows += ratio_row(group, "holdfast, of the raw limit", OF_RAW_MIN, one.ratio(OURS, RAW), "× raw SQL")

    group = "PostgreSQL: drain, two worker processes"
    names = [name for name in CONTENDERS if name not in one.missing and not (quick and name in PEERS[1:])]
    two = in_turns(names, lambda name: drain(bench, name, jobs[name], 2), rounds=rounds, what=group)
    rows += rate_rows(group, two, "jobs/s", {OURS: at_least(TWO_PROCESSES_MIN, two.best.get(OURS), "jobs/s")})
    rows += ratio_row(group, "holdfast, of PgQueuer's two", 1.0, two.ratio(OURS, "pgqueuer"), "× pgqueuer")
    for name, count in jobs.items():
        if name not in one.missing:
            bench.forget(name, count)
    return rows
