"""An idle worker on PostgreSQL: how soon it begins a job, and what it costs while there is none."""

from __future__ import annotations

from contextlib import ExitStack
from math import inf
from statistics import quantiles
from typing import NamedTuple

from bench.jobs_drain import CONTENDERS, QUICK
from bench.jobs_process import Unavailable, ask, cpu_s, crew, wait_s
from bench.jobs_rows import LABELS, OURS, announce, missing_row, progress
from bench.jobs_server import Bench
from bench.table import Asked, Row

ROUNDS = 3
SAMPLES, SAMPLES_QUICK = 200, 50
P50_MS_MAX, P99_MS_MAX = 2.5, 8.0
OF_PGQUEUER_MAX = P50_MS_MAX / 2.9
"""The same for any machine: where the bound was set, PgQueuer needed 2.2 to 2.9 ms."""
SETTLE_S, WATCH_S, WATCH_S_QUICK = 2.0, 5.0, 4.0
IDLE_PERCENT_MAX = 1.0


class Taken(NamedTuple):
    """Milliseconds until a job was begun."""

    p50: float
    p99: float


NEVER = Taken(inf, inf)


def pickup_rows(bench: Bench, quick: bool) -> list[Row]:
    """Those who are compared take turns; of each, the round with the lowest median counts."""
    group = "PostgreSQL: pick-up by an idle worker, from the call of enqueue to the handler"
    best: dict[str, Taken] = {}
    missing: dict[str, str] = {}
    names = QUICK if quick else CONTENDERS
    for name in [name for _ in range(1 if quick else ROUNDS) for name in names]:
        if name in missing:
            continue
        try:
            best[name] = min(_picked_up(bench, name, quick), best.get(name, NEVER))
        except Unavailable as reason:
            announce(f"{group}: {name}: {reason}")
            missing[name] = str(reason)
    rows = [row for name, taken in best.items() if name not in missing for row in _pickup_rows(group, name, taken)]
    rows += [missing_row(group, name, reason) for name, reason in missing.items()]
    if best.keys() - missing.keys() >= {OURS, "pgqueuer"}:
        times = best[OURS].p50 / best["pgqueuer"].p50
        asked = Asked(bound=OF_PGQUEUER_MAX, reached=times, unit="× pgqueuer")
        rows.append(Row(group=group, name="holdfast, p50 of PgQueuer's", figure=times, unit="× pgqueuer", asked=asked))
    return rows


def _picked_up(bench: Bench, name: str, quick: bool) -> Taken:
    with bench.database(name) as address:
        samples = sorted(ask(name, "pickup", address, SAMPLES_QUICK if quick else SAMPLES))
    cuts = quantiles(samples, n=100, method="inclusive")
    progress(f"pick-up, {name}: {cuts[49]:.2f} ms, 99 % within {cuts[98]:.2f} ms")
    return Taken(cuts[49], cuts[98])


def _pickup_rows(group: str, name: str, taken: Taken) -> list[Row]:
    bounds = {"p50": P50_MS_MAX, "p99": P99_MS_MAX}
    return [
        Row(
            group=group,
            name=f"{LABELS.get(name, name)}, {label}",
            figure=reached,
            unit="ms",
            asked=Asked(bound=bounds[label], reached=reached, unit="ms") if name == OURS else None,
        )
        for label, reached in taken._asdict().items()
    ]


def idle_rows(bench: Bench, quick: bool) -> list[Row]:
    """All workers idle beside each other; the connections that a worker keeps busy on the server count too. Of several
    windows the quietest counts, each on its own: what somebody else on the machine does only adds."""
    watch_s = WATCH_S_QUICK if quick else WATCH_S
    group = f"PostgreSQL: an idle worker, percent of a core over {watch_s:.0f} s"
    rows: list[Row] = []
    with ExitStack() as ends:
        watched: dict[str, tuple[int, str]] = {}
        for name in (QUICK if quick else CONTENDERS)[1:]:
            try:
                address = ends.enter_context(bench.database(name))
                workers = ends.enter_context(crew(name, address, 1))
                workers.go()
            except Unavailable as reason:
                announce(f"{group}: {name}: {reason}")
                rows.append(missing_row(group, name, str(reason)))
                continue
            watched[name] = (workers.workers[0].process.pid, address.rpartition("/")[2])
        wait_s(SETTLE_S)
        spent = [_watched(bench, watched, watch_s) for _ in range(1 if quick else ROUNDS)]
        for name in watched:
            process, whole = (min(window[name][part] for window in spent) for part in (0, 1))
            asked = Asked(bound=IDLE_PERCENT_MAX, reached=whole, unit="%") if name == OURS else None
            label = LABELS.get(name, name)
            rows.append(Row(group=group, name=f"{label}, process", figure=process, unit="%"))
            rows.append(Row(group=group, name=f"{label}, and its connections", figure=whole, unit="%", asked=asked))
    return rows


def _watched(bench: Bench, watched: dict[str, tuple[int, str]], watch_s: float) -> dict[str, tuple[float, float]]:
    """CPU use of each over `watch_s` seconds, in percent of a core: the process alone, and with its connections."""
    before = {name: _used_s(bench, *where) for name, where in watched.items()}
    wait_s(watch_s)
    used = {}
    for name, where in watched.items():
        process, backends = (
            100 * (now - then) / watch_s for now, then in zip(_used_s(bench, *where), before[name], strict=True)
        )
        used[name] = (process, process + backends)
    return used


def _used_s(bench: Bench, process: int, database: str) -> tuple[float, float]:
    return cpu_s(process), bench.backends_s(database)
