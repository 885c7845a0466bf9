"""The network between a worker and PostgreSQL loses replies, breaks connections and falls silent."""

from __future__ import annotations

import random
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from holdfast.base import REAL
from holdfast.store import Store
from holdfast.testing.processes import wait_until
from holdfast.testing.proxy import COMMIT, FaultProxy
from holdfast.worker import Jobs, NewJob

from .accounts import books, rows
from .fleet import Fleet, Member

LEASE_S = 1.5
MUTE_LEASE_S = 5.0
MUTE_WORK_S = 2.2 * MUTE_LEASE_S
"""Longer than the lease, also when this process stands still for as long before it stops the renewals."""
# Transactions, and the claims and settlements that are one statement and commit by themselves.
WRITES = COMMIT + r"|\A(?:UPDATE holdfast_job|WITH done AS)"
WITHIN_S = 90.0
RENEWAL = r"UPDATE holdfast_worker SET seen_us"
UNSETTLED = "SELECT 1 FROM holdfast_job WHERE state IN ('queued', 'processing') LIMIT 1"
HELD = "SELECT count(*) FROM holdfast_job WHERE state = 'processing'"


@pytest.fixture
def proxy(postgres_fleet: Fleet) -> Iterator[FaultProxy]:
    """What stands between a worker and the server."""
    with FaultProxy(urlsplit(postgres_fleet.url).port or 0) as opened:
        yield opened


@pytest.fixture
def jobs(postgres_fleet: Fleet) -> Iterator[Jobs]:
    """Whoever enqueues has a network that works."""
    store = Store.open(postgres_fleet.url)
    opened = Jobs(store)
    yield opened
    opened.close()
    store.close()


def through(proxy: FaultProxy, fleet: Fleet) -> str:
    return f"postgresql://postgres@127.0.0.1:{proxy.port}{urlsplit(fleet.url).path}"


def wait_for_worker(fleet: Fleet, member: Member) -> str:
    """The id under which a process works, once it does."""
    question = f"SELECT id FROM holdfast_worker WHERE process = {member.pid} ORDER BY started_us DESC"
    wait_until(lambda: bool(rows(fleet.url, question)), within_s=WITHIN_S, what="the worker has come")
    return str(rows(fleet.url, question)[0][0])


def wait_settled(fleet: Fleet) -> None:
    wait_until(lambda: not rows(fleet.url, UNSETTLED), within_s=WITHIN_S, what="everything is settled")


@pytest.mark.timeout(400)
def test_lost_replies_to_commits_neither_lose_nor_double_anything(
    postgres_fleet: Fleet, proxy: FaultProxy, jobs: Jobs, chance: random.Random
) -> None:
    fleet = postgres_fleet
    # A long lease: the worker has to find by itself what it claimed without knowing.
    worker = fleet.worker(through(proxy, fleet), lease_s=60, concurrency=6)
    wait_for_worker(fleet, worker)
    kinds = ("once", "plain")
    work = [NewJob(kind=kinds[number % 2], payload={"before_ms": number % 20}) for number in range(300)]
    lost = 0
    for start in range(0, len(work), 20):
        proxy.set(lose_reply=WRITES, times=chance.randint(1, 3))
        jobs.enqueue_many(work[start : start + 20])
        proxy.wait_triggered(within_s=WITHIN_S)
        REAL.sleep(chance.uniform(0.0, 0.1))
        lost += proxy.triggered
    proxy.heal()
    wait_settled(fleet)
    fleet.stop_workers()

    kept = books(fleet.url)
    assert lost >= 15
    assert kept.complaints() == []
    assert [(account.id, account.error_code) for account in kept.in_state("failed")] == []
    assert {a.id: a.effects for a in kept.accounts.values() if a.kind == "once" and a.effects != 1} == {}
    assert [account.id for account in kept.accounts.values() if account.effects < 1] == []
    # The lease never ran out: whatever came back was given back, not taken away.
    assert kept.verbs["reclaimed"] == 0


@pytest.mark.timeout(400)
def test_jobs_whose_claim_was_never_answered_are_given_back_by_the_worker_itself(
    postgres_fleet: Fleet, proxy: FaultProxy, jobs: Jobs
) -> None:
    fleet = postgres_fleet
    worker = fleet.worker(through(proxy, fleet), lease_s=60, concurrency=6)
    worker_id = wait_for_worker(fleet, worker)
    proxy.set(lose_reply=WRITES)
    jobs.enqueue_many([NewJob(kind="plain")] * 6)
    claimed = f"SELECT count(*) FROM holdfast_job_event WHERE verb = 'claimed' AND worker = '{worker_id}'"
    wait_until(lambda: rows(fleet.url, claimed)[0][0] >= 6, within_s=WITHIN_S, what="they are claimed, unanswered")
    proxy.heal()
    wait_settled(fleet)
    fleet.stop_workers()
    kept = books(fleet.url)
    assert kept.complaints() == []
    assert kept.verbs["released"] >= 6
    assert {account.attempt_count for account in kept.accounts.values()} == {1}
    assert {account.effects for account in kept.accounts.values()} == {1}


@pytest.mark.timeout(400)
def test_connections_that_are_reset_again_and_again_cost_time_and_nothing_else(
    postgres_fleet: Fleet, proxy: FaultProxy, jobs: Jobs, chance: random.Random
) -> None:
    fleet = postgres_fleet
    workers = [fleet.worker(through(proxy, fleet), lease_s=4.0, concurrency=6) for _ in range(2)]
    for worker in workers:
        wait_for_worker(fleet, worker)
    kinds = ("once", "plain", "coroutine")
    jobs.enqueue_many([NewJob(kind=kinds[number % 3], payload={"before_ms": 30}) for number in range(300)])
    for _ in range(15):
        proxy.reset_connections()
        REAL.sleep(chance.uniform(0.02, 0.3))
    wait_settled(fleet)
    assert [worker.running for worker in workers] == [True, True]
    fleet.stop_workers()
    kept = books(fleet.url)
    assert kept.complaints() == []
    assert [(account.id, account.error_code) for account in kept.in_state("failed")] == []
    assert {a.id: a.effects for a in kept.accounts.values() if a.kind == "once" and a.effects != 1} == {}
    assert [account.id for account in kept.accounts.values() if account.effects < 1] == []


@pytest.mark.timeout(400)
def test_a_worker_that_cannot_renew_its_lease_stops_by_itself_and_returns_under_a_new_name(
    postgres_fleet: Fleet, proxy: FaultProxy, jobs: Jobs
) -> None:
    fleet = postgres_fleet
    mute = fleet.worker(through(proxy, fleet), lease_s=MUTE_LEASE_S, concurrency=4)
    mute_id = wait_for_worker(fleet, mute)
    long = jobs.enqueue_many([NewJob(kind="plain", payload={"first_ms": int(MUTE_WORK_S * 1_000)})] * 2)
    wait_until(lambda: rows(fleet.url, HELD) == [(2,)], within_s=WITHIN_S, what="it holds them")
    # Everything works but the renewals: only the worker itself can know that it has to stop.
    proxy.set(lose_request=RENEWAL)
    healthy = fleet.worker(lease_s=20, concurrency=8)
    until_us = 0

    def swept_away() -> bool:
        nonlocal until_us
        lease = rows(fleet.url, f"SELECT lease_until_us FROM holdfast_worker WHERE id = '{mute_id}'")
        until_us = lease[0][0] if lease else until_us
        return not lease

    wait_until(swept_away, within_s=WITHIN_S, what="the mute worker is swept away")
    jobs.enqueue_many([NewJob(kind="plain")] * 20)
    wait_settled(fleet)
    ended = f"SELECT count(*) FROM effect WHERE process = {mute.pid}"
    wait_until(lambda: rows(fleet.url, ended) == [(2,)], within_s=WITHIN_S, what="its handlers have ended, too late")
    done_by = dict(rows(fleet.url, "SELECT job_id, process FROM effect ORDER BY attempt"))
    assert {done_by[one.id] for one in long} == {healthy.pid}

    proxy.heal()
    healthy.stop()
    jobs.enqueue_many([NewJob(kind="once")] * 20)
    wait_settled(fleet)
    assert mute.running
    assert wait_for_worker(fleet, mute) != mute_id
    fleet.stop_workers()
    # It may sweep, which the database's clock decides, but no longer claim or settle.
    told = (
        f"SELECT verb FROM holdfast_journal WHERE worker = '{mute_id}' AND at_us > {until_us} AND verb <> 'reclaimed'"
    )
    assert rows(fleet.url, told) == []
    kept = books(fleet.url)
    assert kept.complaints() == []
    assert len(kept.in_state("complete")) == 42


@pytest.mark.timeout(400)
def test_a_worker_that_was_cut_off_for_longer_than_its_lease_settles_nothing_stale(
    postgres_fleet: Fleet, proxy: FaultProxy, jobs: Jobs
) -> None:
    fleet = postgres_fleet
    lost = fleet.worker(through(proxy, fleet), lease_s=LEASE_S, concurrency=4)
    lost_id = wait_for_worker(fleet, lost)
    # The handlers end while nobody can be told; the transactions under way stand still in the middle.
    jobs.enqueue_many([NewJob(kind="once", payload={"before_ms": 300 + 20 * number}) for number in range(40)])
    wait_until(lambda: rows(fleet.url, HELD)[0][0] >= 4, within_s=WITHIN_S, what="it holds some")
    proxy.set(half_open=True)
    healthy = fleet.worker(lease_s=LEASE_S, concurrency=8)
    wait_until(
        lambda: not rows(fleet.url, f"SELECT 1 FROM holdfast_worker WHERE id = '{lost_id}'"),
        within_s=WITHIN_S,
        what="the silent worker is swept away",
    )
    proxy.heal()
    wait_settled(fleet)
    healthy.stop()
    jobs.enqueue_many([NewJob(kind="once")] * 20)
    wait_settled(fleet)
    assert lost.running
    fleet.stop_workers()
    kept = books(fleet.url)
    assert kept.complaints() == []
    assert len(kept.in_state("complete")) == 60
    assert {account.effects for account in kept.accounts.values()} == {1}
