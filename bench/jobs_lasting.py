"""What does not show in a short run on PostgreSQL: a long history, a long life, an old snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import count
from statistics import median
from time import perf_counter

import psycopg

from bench.jobs_process import Crew, Unavailable, ask, crew, resident_mb
from bench.jobs_rows import LABELS, OURS, RAW, announce, missing_row, progress
from bench.jobs_server import Bench
from bench.table import Asked, Row
from holdfast.store import Store
from holdfast.worker import ledger

HISTORY, HISTORY_QUICK = 1_000_000, 100_000
CLAIMS, CLAIMS_QUICK = 60, 20
CLAIM_SIZE = 100
CLAIM_TIMES_MAX = 1.5

JOBS, JOBS_QUICK = 300_000, 10_000
LIFE, LIFE_QUICK = 1_000_000, 20_000
GROWTH_TIMES_MAX = 1.1
WITHIN_S = 180.0
SHARE = 0.2
"""The beginning and the end of a run, when its rate has fallen."""

FINISHED_JOBS = """
INSERT INTO holdfast_job (id, queue, kind, state, due_us, payload, attempt_count, token, created_us, started_us,
                 last_attempt_us, finished_us)
SELECT '00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'), 'default', 'noop', 'complete', n, '"payload"', 1, 2, n,
       n, n, n
  FROM generate_series(1, %s) AS n
"""
FINISHED_EVENTS = """
INSERT INTO holdfast_journal (at_us, subject, verb, queue, kind, attempt, claimed_us)
SELECT n, '00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'), 'finished', 'default', 'noop', 1, n
  FROM generate_series(1, %s) AS n
"""


def history_rows(bench: Bench, quick: bool) -> list[Row]:
    """The claims of the two databases take turns; nothing is settled, so that only claims are compared."""
    finished, claims = (HISTORY_QUICK, CLAIMS_QUICK) if quick else (HISTORY, CLAIMS)
    group = f"PostgreSQL: one claim of {CLAIM_SIZE} jobs, median"
    with bench.database(OURS) as short, bench.database(OURS) as long:
        with psycopg.connect(long, autocommit=True) as connection:
            connection.execute(FINISHED_JOBS, (finished,))
            connection.execute(FINISHED_EVENTS, (finished,))
            connection.execute("VACUUM (ANALYZE)")
        for address in (short, long):
            ask(OURS, "fill", address, claims * CLAIM_SIZE)
        with _claiming(short) as on_short, _claiming(long) as on_long:
            taken = [(next(on_short), next(on_long)) for _ in range(claims - 1)]
    empty, full = (median(column) for column in zip(*taken, strict=True))
    progress(f"claim: {empty:.2f} ms, beside {finished:,} finished jobs {full:.2f} ms")
    asked = Asked(bound=CLAIM_TIMES_MAX, reached=full / empty, unit="× empty")
    return [
        Row(group=group, name="no finished jobs", figure=empty, unit="ms"),
        Row(group=group, name=f"{finished:,} finished jobs", figure=full, unit="ms", asked=asked),
    ]


def lasting_rows(bench: Bench, quick: bool) -> list[Row]:
    jobs = JOBS_QUICK if quick else JOBS
    rows = []
    group = f"PostgreSQL: {jobs:,} jobs drained while another transaction holds an old snapshot"
    for name in (RAW, OURS):
        try:
            plain, _ = _long_drain(bench, name, jobs, held=False)
            held, _ = _long_drain(bench, name, jobs, held=True)
        except Unavailable as reason:
            announce(f"{group}: {name}: {reason}")
            rows.append(missing_row(group, name, str(reason)))
            continue
        label = LABELS.get(name, name)
        for when, (whole, begin, end) in (("no snapshot", plain), ("old snapshot", held)):
            ratios = {"× no snapshot": whole / plain[0], "end ÷ begin": end / begin}
            rows.append(Row(group=group, name=f"{label}, {when}", figure=whole, unit="jobs/s", ratios=ratios))
        bench.forget(name, jobs)
    return rows


def life_rows(bench: Bench, quick: bool) -> list[Row]:
    jobs = LIFE_QUICK if quick else LIFE
    group = f"PostgreSQL: memory of a worker that runs {jobs:,} jobs"
    try:
        _, (early, late) = _long_drain(bench, OURS, jobs, held=False)
    except Unavailable as reason:
        announce(f"{group}: {reason}")
        return [missing_row(group, OURS, str(reason))]
    bench.forget(OURS, jobs)
    asked = Asked(bound=GROWTH_TIMES_MAX, reached=late / early, unit="× at 10 %")
    return [
        Row(group=group, name="holdfast, after 10 %", figure=early, unit="MB"),
        Row(group=group, name="holdfast, after all", figure=late, unit="MB", asked=asked),
    ]


def _long_drain(
    bench: Bench, contender: str, jobs: int, *, held: bool
) -> tuple[tuple[float, float, float], tuple[float, float]]:
    """The rates of the whole, its beginning and its end; the memory after a tenth and after all."""
    with (
        bench.database(contender, jobs) as address,
        crew(contender, address, 1) as workers,
        bench.asking(address) as connection,
        _old_snapshot(address) if held else nullcontext(),
    ):
        worker = workers.workers[0]
        workers.go()
        give_up = perf_counter() + WITHIN_S
        while worker.handled < jobs * 0.1:
            workers.listen(0.05)
            if perf_counter() > give_up:
                raise Unavailable(f"only {worker.handled} of {jobs} jobs were handled in {WITHIN_S:.0f} s")
        early = resident_mb(worker.process.pid)
        taken_s = workers.drained(jobs, lambda: bench.unfinished(contender, connection), within_s=WITHIN_S)
        late = resident_mb(worker.process.pid)
        rates = (jobs / taken_s, _rate(workers, jobs, 0.0, SHARE), _rate(workers, jobs, 1.0 - SHARE, 1.0))
    progress(f"{jobs:,} jobs, {contender}{', old snapshot' if held else ''}: " + ", ".join(f"{r:,.0f}" for r in rates))
    return rates, (early, late)


def _rate(workers: Crew, jobs: int, since: float, until: float) -> float:
    """Jobs per second between two shares of the run, by what the worker told."""
    told = [point for point in workers.workers[0].told if since * jobs <= point[0] <= until * jobs]
    (first, first_ns), (last, last_ns) = told[0], told[-1]
    return (last - first) / (last_ns - first_ns) * 1e9


@contextmanager
def _old_snapshot(address: str) -> Iterator[None]:
    with psycopg.connect(address) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT count(*) FROM pg_class")
        yield
        connection.rollback()


@contextmanager
def _claiming(address: str) -> Iterator[Iterator[float]]:
    """Each step claims a batch and is the milliseconds that it took."""
    store = Store.open(address)
    worker = "bench-worker"
    store.single("worker.register", id=worker, host="bench", process=0, queues="default", lease_us=600_000_000)

    def claim() -> float:
        started = perf_counter()
        jobs = store.atomic(lambda tx: ledger.claim(tx, queue="default", worker=worker, count=CLAIM_SIZE))
        taken_s = perf_counter() - started
        if len(jobs) != CLAIM_SIZE:
            raise AssertionError(f"a claim of {CLAIM_SIZE} got {len(jobs)}")
        return taken_s * 1_000

    try:
        claim()  # statements are prepared at their first uses
        yield (claim() for _ in count())
    finally:
        store.close()
