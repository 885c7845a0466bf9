"""PostgreSQL goes away under running workers, in order and by kill -9, and comes back; they carry on by themselves."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.base import REAL
from holdfast.store import Store
from holdfast.testing.postgres import PostgresServer
from holdfast.testing.processes import wait_until
from holdfast.worker import Jobs

from .accounts import books, make_effect_table, rows
from .fleet import Fleet

LEASE_S = 2.0
COUNT = 200
WITHIN_S = 90.0
ENDINGS: dict[str, Callable[[PostgresServer], None]] = {
    "stopped": PostgresServer.stop,
    "killed": PostgresServer.kill,
}


def finished(url: str) -> int:
    return int(rows(url, "SELECT count(*) FROM holdfast_journal WHERE verb = 'finished'")[0][0])


def enqueue_late(url: str) -> None:
    store = Store.open(url)
    jobs = Jobs(store)
    jobs.enqueue("plain")
    jobs.close()
    store.close()


@pytest.mark.timeout(400)
def test_workers_outlive_a_server_that_stops_and_one_that_is_killed(tmp_path: Path) -> None:
    with PostgresServer.start(tmp_path / "server") as server:
        url = server.create_database("work")
        store = Store.open(url)
        store.migrate()
        store.close()
        make_effect_table(url)
        fleet = Fleet(tmp_path, url)
        try:
            workers = [fleet.worker(lease_s=LEASE_S, concurrency=6) for _ in range(2)]
            enqueuer = fleet.enqueuer(count=COUNT, pause_ms=12, kinds=["once", "plain"], waits_ms=[0, 5, 50])
            # One that still starts when the server goes away gives up.
            wait_until(lambda: len(rows(url, "SELECT 1 FROM holdfast_worker")) == 2, within_s=WITHIN_S, what="both")
            wait_until(lambda: finished(url) > 10, within_s=WITHIN_S, what="they work")
            for name, end in ENDINGS.items():
                end(server)
                REAL.sleep(0.5)
                server.restart()
                before = finished(url)
                started_s = REAL.monotonic_s()
                # One more, should the others have been done while this process stood still.
                enqueue_late(url)
                wait_until(lambda: finished(url) > before, within_s=WITHIN_S, what=f"they work after it was {name}")  # noqa: B023
                sys.stdout.write(
                    f"{name}: first job finished {REAL.monotonic_s() - started_s:.2f} s after the server was back\n"
                )
            enqueuer.wait(WITHIN_S)
            unsettled = "SELECT 1 FROM holdfast_job WHERE state IN ('queued', 'processing') LIMIT 1"
            wait_until(lambda: not rows(url, unsettled), within_s=WITHIN_S, what="everything is settled")
            assert [worker.running for worker in workers] == [True, True]
            fleet.stop_workers()
        finally:
            fleet.close()
        kept = books(url)

    assert kept.complaints() == []
    assert [account.id for account in kept.in_state("failed")] == []
    assert set(fleet.acknowledged_ids()) == set(range(COUNT))
    assert set(fleet.acknowledged_ids().values()) <= set(kept.accounts)
    assert {a.id: a.effects for a in kept.accounts.values() if a.kind == "once" and a.effects != 1} == {}
    assert [account.id for account in kept.accounts.values() if account.effects < 1] == []
