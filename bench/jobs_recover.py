"""A worker that is killed on PostgreSQL: how soon an idle one runs its jobs again, each queue with its defaults."""

from __future__ import annotations

from statistics import quantiles

from bench.jobs_process import Unavailable, ask
from bench.jobs_rows import LABELS, OURS, announce, missing_row, progress
from bench.jobs_server import Bench
from bench.table import Asked, Row

CONTENDERS = (OURS, "pgqueuer")
JOBS = 10
AGAIN_S_MAX = 12.0
"""1.2 leases of ten seconds."""
GROUP = f"PostgreSQL: {JOBS} jobs of a worker that is killed, until an idle one runs them again"


def recover_rows(bench: Bench, quick: bool) -> list[Row]:
    """One kill each; a quick run leaves the peer out, which waits half a minute."""
    rows: list[Row] = []
    for name in CONTENDERS[:1] if quick else CONTENDERS:
        try:
            rows += _rows(name, _again_s(bench, name))
        except Unavailable as reason:
            announce(f"{GROUP}: {name}: {reason}")
            rows.append(missing_row(GROUP, name, str(reason)))
    return rows


def _again_s(bench: Bench, name: str) -> list[float]:
    with bench.database(name) as address:
        taken: list[float] = ask(name, "recover", address, JOBS)
    if len(taken) < 2:
        raise Unavailable("the worker that was killed held no jobs")
    progress(f"run again, {name}: {min(taken):.1f} to {max(taken):.1f} s")
    return taken


def _rows(name: str, taken: list[float]) -> list[Row]:
    cuts = quantiles(taken, n=100, method="inclusive")
    return [
        Row(
            group=GROUP,
            name=f"{LABELS.get(name, name)}, {label}",
            figure=reached,
            unit="s",
            asked=Asked(bound=AGAIN_S_MAX, reached=reached, unit="s") if name == OURS else None,
        )
        for label, reached in (("p50", cuts[49]), ("p99", cuts[98]))
    ]
