"""A worker whose clock is a day off: the database's clock rules leases, so it steals nothing and loses nothing."""

from __future__ import annotations

import sys
from importlib import resources

import pytest

from holdfast.base.ids import id_time_us
from holdfast.store import Store
from holdfast.testing.processes import wait_until
from holdfast.worker import Jobs, NewJob

from .accounts import books, rows
from .fleet import Fleet, Member

LEASE_S = 9.0
"""So long that a machine which stands still for seconds does not let it run out."""
DAY_US = 86_400 * 1_000_000
WITHIN_S = 60.0
LIBRARY = "vendor/libfaketime/src/libfaketime.so.1"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the clock is shifted by a preloaded library")


def shifted(by: str) -> dict[str, str]:
    """What makes a process believe in another time of day; its monotonic clock stays true, as on a real machine."""
    library = resources.files("libfaketime").joinpath(LIBRARY)
    return {"LD_PRELOAD": str(library), "FAKETIME": by, "FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1"}


def wait_for_worker(fleet: Fleet, member: Member) -> str:
    """The id under which a process works, once it does."""
    question = f"SELECT id FROM holdfast_worker WHERE process = {member.pid}"
    wait_until(lambda: bool(rows(fleet.url, question)), within_s=WITHIN_S, what="the worker has come")
    return str(rows(fleet.url, question)[0][0])


def now_us(fleet: Fleet) -> int:
    return int(rows(fleet.url, "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")[0][0])


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("shift", "off_us"), [("+1d", DAY_US), ("-1d", -DAY_US)])
def test_a_worker_whose_clock_is_a_day_off_steals_nothing_and_loses_nothing(
    postgres_fleet: Fleet, shift: str, off_us: int
) -> None:
    fleet = postgres_fleet
    store = Store.open(fleet.url)
    jobs = Jobs(store)
    healthy = fleet.worker(lease_s=LEASE_S, queue="healthy")
    skewed = fleet.worker(environment=shifted(shift), lease_s=LEASE_S, queue="skewed")
    wait_for_worker(fleet, healthy)
    skewed_id = wait_for_worker(fleet, skewed)
    assert id_time_us(skewed_id) - now_us(fleet) == pytest.approx(off_us, abs=3_600 * 1_000_000)
    # They run while leases are renewed and swept for: a thief who reads his own clock would find them.
    payload = {"before_ms": int(LEASE_S * 360)}
    mine = {one.id for one in jobs.enqueue_many([NewJob(kind="plain", queue="healthy", payload=payload)] * 4)}
    theirs = {one.id for one in jobs.enqueue_many([NewJob(kind="plain", queue="skewed", payload=payload)] * 4)}
    wait_until(
        lambda: rows(fleet.url, "SELECT count(*) FROM holdfast_job WHERE state = 'complete'") == [(8,)],
        within_s=WITHIN_S,
        what="all are complete",
    )
    lease_us = rows(fleet.url, f"SELECT lease_until_us FROM holdfast_worker WHERE id = '{skewed_id}'")[0][0] - now_us(
        fleet
    )
    fleet.stop_workers()
    jobs.close()
    store.close()

    kept = books(fleet.url)
    assert 0 < lease_us <= LEASE_S * 1_000_000
    assert kept.complaints() == []
    assert kept.verbs == {"claimed": 8, "finished": 8}
    done_by = dict(rows(fleet.url, "SELECT job_id, process FROM effect"))
    assert {done_by[job_id] for job_id in mine} == {healthy.pid}
    assert {done_by[job_id] for job_id in theirs} == {skewed.pid}


@pytest.mark.timeout(300)
def test_the_jobs_of_a_killed_worker_come_back_in_time_though_the_clock_of_the_other_is_wrong(
    postgres_fleet: Fleet,
) -> None:
    fleet = postgres_fleet
    store = Store.open(fleet.url)
    jobs = Jobs(store)
    skewed = fleet.worker(environment=shifted("-1d"), lease_s=LEASE_S, queue="skewed")
    doomed = fleet.worker(lease_s=4.0, queue="doomed")
    wait_for_worker(fleet, skewed)
    wait_for_worker(fleet, doomed)
    jobs.enqueue_many([NewJob(kind="plain", queue="doomed", payload={"before_ms": 600_000})] * 4)
    held = "SELECT count(*) FROM holdfast_job WHERE state = 'processing'"
    wait_until(lambda: rows(fleet.url, held) == [(4,)], within_s=WITHIN_S, what="it holds four")
    doomed.kill()
    killed_us = now_us(fleet)
    back = "SELECT count(*) FROM holdfast_journal WHERE verb = 'reclaimed'"
    wait_until(lambda: rows(fleet.url, back) == [(4,)], within_s=WITHIN_S, what="four have come back")
    (came_us,) = rows(fleet.url, "SELECT max(at_us) FROM holdfast_journal WHERE verb = 'reclaimed'")[0]
    jobs.close()
    store.close()
    # With room for a busy machine; by its own clock the other would have waited for a day.
    assert came_us - killed_us <= (1.2 * LEASE_S + WITHIN_S) * 1_000_000
    assert rows(fleet.url, "SELECT count(*) FROM holdfast_job WHERE state = 'queued'") == [(4,)]
