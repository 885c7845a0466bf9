"""How fast workers empty a full queue on PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.jobs_process import Unavailable, crew
from bench.jobs_rows import OURS, RAW, Figures, at_least, in_turns, progress, rate_rows, ratio_row
from bench.jobs_server import Bench
from bench.table import Row

PEERS = ("pgqueuer", "oban", "procrastinate")
CONTENDERS = (RAW, OURS, *PEERS)
QUICK = (RAW, OURS, "pgqueuer")
"""A quick run compares only these after the first drain."""
JOBS = {RAW: 60_000, OURS: 60_000, "pgqueuer": 60_000, "oban": 10_000, "procrastinate": 1_000}
JOBS_QUICK = {RAW: 30_000, OURS: 10_000, "pgqueuer": 10_000, "oban": 1_000, "procrastinate": 200}
ROUNDS = 5
WITHIN_S = 60.0

OF_PGQUEUER_MIN = 1.5
OF_RAW_MIN = 0.5
TWO_PROCESSES_MIN = 30_000
OF_PGQUEUERS_TWO_MIN = TWO_PROCESSES_MIN / 17_300
"""The same for any machine: where the bound was set, PgQueuer's two drained 17,300 to 31,700."""


@dataclass(frozen=True, slots=True)
class Drained:
    """Jobs per second from the first one handled to all of them done, and the CPU time that each one took."""

    rate: float
    worker_us: float
    server_us: float

    def __str__(self) -> str:
        return f"{self.rate:,.0f} jobs/s, CPU {self.worker_us:.0f} µs here, {self.server_us:.0f} µs in the server"


def drain(bench: Bench, contender: str, jobs: int, processes: int) -> Drained:
    """Empty a full queue with this many worker processes."""
    with (
        bench.database(contender, jobs) as address,
        crew(contender, address, processes) as workers,
        bench.asking(address) as connection,
    ):
        database = address.rpartition("/")[2]
        if (found := bench.unfinished(contender, connection)) != jobs:
            raise Unavailable(f"{found} jobs wait, {jobs} were enqueued")
        workers.go()
        workers.begun(within_s=WITHIN_S)
        before_s = workers.cpu_s(), bench.backends_s(database)
        taken_s = workers.drained(jobs, lambda: bench.unfinished(contender, connection), within_s=WITHIN_S)
        after_s = workers.cpu_s(), bench.backends_s(database)
    worker_us, server_us = ((late - early) / jobs * 1e6 for early, late in zip(before_s, after_s, strict=True))
    drained = Drained(jobs / taken_s, worker_us, server_us)
    progress(f"drain, {processes} × {contender}: {drained}")
    return drained


def drain_rows(bench: Bench, quick: bool) -> list[Row]:
    jobs: Mapping[str, int] = JOBS_QUICK if quick else JOBS
    rounds = 1 if quick else ROUNDS
    group = "PostgreSQL: drain, one worker process"
    one, costs = _drained(bench, group, CONTENDERS, jobs, 1, rounds)
    asked = at_least(OF_PGQUEUER_MIN, one.ratio(OURS, "pgqueuer"), "× pgqueuer")
    rows = rate_rows(group, one, "jobs/s", {OURS: asked}, costs)
    rows += ratio_row(group, "holdfast, of the raw limit", OF_RAW_MIN, one.ratio(OURS, RAW), "× raw SQL")

    group = "PostgreSQL: drain, two worker processes"
    names = [name for name in (QUICK if quick else CONTENDERS) if name not in one.missing]
    two, costs = _drained(bench, group, names, jobs, 2, rounds)
    rows += rate_rows(group, two, "jobs/s", {OURS: at_least(TWO_PROCESSES_MIN, two.best.get(OURS), "jobs/s")}, costs)
    of_two = two.ratio(OURS, "pgqueuer")
    rows += ratio_row(group, "holdfast, of PgQueuer's two", OF_PGQUEUERS_TWO_MIN, of_two, "× pgqueuer")
    for name, count in jobs.items():
        if name not in one.missing:
            bench.forget(name, count)
    return rows


def _drained(
    bench: Bench, group: str, names: Sequence[str], jobs: Mapping[str, int], processes: int, rounds: int
) -> tuple[Figures, dict[str, dict[str, float]]]:
    best: dict[str, Drained] = {}

    def measure(name: str) -> float:
        drained = drain(bench, name, jobs[name], processes)
        if name not in best or drained.rate > best[name].rate:
            best[name] = drained
        return drained.rate

    figures = in_turns(names, measure, rounds=rounds, what=group)
    return figures, {name: {"worker µs": one.worker_us, "server µs": one.server_us} for name, one in best.items()}
