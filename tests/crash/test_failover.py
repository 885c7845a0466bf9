"""The primary dies, its synchronous standby takes over: what was acknowledged is there, and the same workers go on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.base import REAL
from holdfast.store import Store
from holdfast.testing.postgres import PostgresServer, multi_host_dsn
from holdfast.testing.processes import wait_until
from holdfast.worker import Jobs, NewJob

from .accounts import books, make_effect_table, rows
from .fleet import Fleet

LEASE_S = 2.0
COUNT = 300
BACKLOG = 1_000
WITHIN_S = 90.0
RATE_OVER = 150
UNSETTLED = "state IN ('queued', 'processing')"


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[PostgresServer, PostgresServer]]:
    """A primary and the standby that every commit waits for."""
    with (
        PostgresServer.start(tmp_path / "primary") as primary,
        primary.standby(tmp_path / "standby", synchronous=True) as standby,
    ):
        yield primary, standby


def finished(url: str) -> int:
    return int(rows(url, "SELECT count(*) FROM holdfast_journal WHERE verb = 'finished'")[0][0])


def rate(url: str) -> float:
    """Jobs finished in a second, measured over the next few hundred, or over those that are left.

    Raises:
        TimeoutError: they stay out, as they do with peers that do not find the new primary.
    """
    before, started_s = finished(url), REAL.monotonic_s()
    (left,) = rows(url, f"SELECT count(*) FROM holdfast_job WHERE {UNSETTLED}")[0]
    over = min(RATE_OVER, left)
    wait_until(lambda: finished(url) >= before + over, within_s=WITHIN_S, what=f"{over} jobs are finished")
    return (finished(url) - before) / (REAL.monotonic_s() - started_s)


def enqueued_late(url: str) -> str:
    store = Store.open(url)
    jobs = Jobs(store)
    try:
        return jobs.enqueue("plain").id
    finally:
        jobs.close()
        store.close()


@pytest.mark.timeout(400)
def test_workers_and_enqueuers_follow_a_failover_and_nothing_acknowledged_is_lost(
    pair: tuple[PostgresServer, PostgresServer], tmp_path: Path
) -> None:
    primary, standby = pair
    primary.create_database("work")
    url = multi_host_dsn(pair, "work")
    store = Store.open(url)
    store.migrate()
    make_effect_table(url)
    # Enough that the workers are never without work: otherwise the rate would be the enqueuer's.
    kinds = ("once", "plain")
    work = [NewJob(kind=kinds[number % 2], payload={"before_ms": 40}) for number in range(BACKLOG)]
    backlog = {one.id for one in Jobs(store).enqueue_many(work)}
    store.close()
    fleet = Fleet(tmp_path, url)
    try:
        workers = [fleet.worker(lease_s=LEASE_S, concurrency=6) for _ in range(2)]
        enqueuer = fleet.enqueuer(count=COUNT, pause_ms=20, kinds=kinds, waits_ms=[0, 5, 30])
        # One that still starts when the primary goes away gives up.
        wait_until(lambda: len(rows(url, "SELECT 1 FROM holdfast_worker")) == 2, within_s=WITHIN_S, what="both")
        wait_until(lambda: finished(url) > 20, within_s=WITHIN_S, what="they work")
        rate_before = rate(url)
        primary.kill()
        standby.promote()
        before, started_s = finished(url), REAL.monotonic_s()
        # One more, should the others have been done while this process stood still.
        late = enqueued_late(url)
        wait_until(lambda: finished(url) > before, within_s=WITHIN_S, what="they work on the new primary")
        first_s = REAL.monotonic_s() - started_s
        rate_after = rate(url)
        sys.stdout.write(
            f"before {rate_before:.0f}/s, first job {first_s:.2f} s after the promotion, then {rate_after:.0f}/s\n"
        )
        enqueuer.wait(WITHIN_S)
        unsettled = f"SELECT 1 FROM holdfast_job WHERE {UNSETTLED} LIMIT 1"
        wait_until(lambda: not rows(url, unsettled), within_s=WITHIN_S, what="everything is settled")
        assert [worker.running for worker in workers] == [True, True]
        fleet.stop_workers()
    finally:
        fleet.close()

    kept = books(url)
    assert kept.complaints() == []
    assert [account.id for account in kept.in_state("failed")] == []
    assert set(fleet.acknowledged_ids()) == set(range(COUNT))
    assert backlog | {late} | set(fleet.acknowledged_ids().values()) <= set(kept.accounts)
    assert {a.id: a.effects for a in kept.accounts.values() if a.kind == "once" and a.effects != 1} == {}
    assert [account.id for account in kept.accounts.values() if account.effects < 1] == []
