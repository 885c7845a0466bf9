"""Leases: kept while a worker lives, taken over soon after it died, and never held against the innocent."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from holdfast.base import REAL, World, replaced
from holdfast.catalog import Failure
from holdfast.catalog.core import CONSTRAINT_VIOLATED, DATABASE_CONNECTION_ERROR
from holdfast.policy import Retry
from holdfast.store import Store
from holdfast.testing import VirtualTime, instant
from holdfast.testing.postgres import PostgresAddress
from holdfast.testing.processes import wait_until
from holdfast.testing.proxy import COMMIT, FaultProxy
from holdfast.worker import Handlers, Job, Jobs, NewJob, Queues, QueueSettings, Worker, ledger
from holdfast.worker import heart as heart_module
from holdfast.worker.settlement import JOB_RETRY
from holdfast.worker.worker import LEASE_S

PATIENCE_S = 30.0
SHORTENED = "UPDATE holdfast_worker SET lease_until_us = lease_until_us - 40000000"
Work = Callable[..., Worker]


@pytest.fixture
def beating_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of beats in a lease: each is seen at once, and no busy machine misses all of them."""
    monkeypatch.setattr(heart_module, "BEATS_PER_LEASE", 600)


def workers(store: Store) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in store.atomic(lambda tx: tx.records("worker.list"), write=False)}


def register(store: Store, worker: str, lease_s: float) -> None:
    """A worker that will never be heard of again."""
    store.single("worker.register", id=worker, host="h", process=1, queues="default", lease_us=int(lease_s * 1_000_000))


def claim(store: Store, worker: str, lane: str = "ready", count: int = 100) -> list[Job]:
    return store.atomic(lambda tx: ledger.claim(tx, queue="default", worker=worker, count=count, lane=lane))


def ended(jobs: Jobs, job_id: str) -> dict[str, Any]:
    wait_until(lambda: jobs.show(job_id)["state"] in {"complete", "failed"}, within_s=PATIENCE_S, what="the job's end")
    return jobs.show(job_id)


def verbs_of(jobs: Jobs, job_id: str) -> list[str]:
    return [event["verb"] for event in jobs.history(job_id)]


# -- a worker that lives -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("beating_often")
def test_a_heartbeat_keeps_the_lease_of_a_long_job(store: Store, jobs: Jobs, handlers: Handlers, work: Work) -> None:
    go_on = threading.Event()

    @handlers.handle("k")
    def long(job: Job) -> str:
        assert go_on.wait(PATIENCE_S)
        return "done"

    worker, other = work(lease_s=60.0), work(lease_s=60.0)
    made = jobs.enqueue("k")
    wait_until(lambda: jobs.show(made.id)["state"] == "processing", within_s=PATIENCE_S, what="it runs")
    for _ in range(2):
        # Nearly over, as it is when most of the lease has passed.
        store.atomic(lambda tx: tx._execute(SHORTENED, {}))
        nearly = {name: row["lease_until_us"] for name, row in workers(store).items()}
        wait_until(
            lambda: all(row["lease_until_us"] > nearly[name] + 1_000_000 for name, row in workers(store).items()),  # noqa: B023
            within_s=PATIENCE_S,
            what="both leases are renewed",
        )
    assert set(workers(store)) == {worker.id, other.id}
    go_on.set()
    assert jobs.wait(made.id, PATIENCE_S) == "done"
    assert verbs_of(jobs, made.id) == ["enqueued", "claimed", "finished"]


def test_worker_ids_are_never_used_twice(store: Store, handlers: Handlers) -> None:
    seen = set()
    for _ in range(3):
        worker = Worker(store, handlers, queues=[QueueSettings()])
        worker.start()
        seen.add(worker.id)
        worker.stop()
        assert worker.join(PATIENCE_S)
    assert len(seen) == 3


# -- a worker that died --------------------------------------------------------------------------------------------


def test_a_dead_workers_jobs_are_back_after_its_lease_and_not_before(
    store: Store, jobs: Jobs, handlers: Handlers, work: Work
) -> None:
    attempts: list[int] = []

    @handlers.handle("k")
    def counted(job: Job) -> None:
        attempts.append(job.attempt_count)

    made = jobs.enqueue_many([NewJob(kind="k") for _ in range(3)])
    register(store, "dead", 0.3)
    assert len(claim(store, "dead")) == 3
    ends_us = workers(store)["dead"]["lease_until_us"]
    work()
    for one in made:
        jobs.wait(one.id, PATIENCE_S)
        history = jobs.history(one.id)
        assert [event["verb"] for event in history] == ["enqueued", "claimed", "reclaimed", "claimed", "finished"]
        reclaimed = history[2]
        assert reclaimed["code"] == "WORKER_LOST"
        assert "dead" in reclaimed["reason"]
        assert reclaimed["at_us"] >= ends_us
    assert attempts == [2, 2, 2], "the count goes on"
    assert "dead" not in workers(store)


@pytest.mark.parametrize("lease_s", [1.0, 3.0, LEASE_S, 600.0])
def test_workers_look_for_the_dead_ten_times_in_a_lease_so_that_jobs_are_back_within_a_fifth_of_it(
    handlers: Handlers, monkeypatch: pytest.MonkeyPatch, lease_s: float
) -> None:
    heart = Worker(Store.open("sqlite://"), handlers, lease_s=lease_s)._heart
    monkeypatch.setattr(heart, "_sweep_once", lambda: float("inf"))  # nothing is due
    rests: list[float] = []

    class Nudge(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            rests.append(timeout or float("inf"))
            heart._stopping.set()
            return True

    heart._nudge = Nudge()
    heart._sweep()
    assert len(rests) == 1
    assert rests[0] <= 0.1 * lease_s


def test_by_default_that_is_within_fifteen_seconds() -> None:
    assert 1.2 * LEASE_S <= 15


def test_what_is_held_by_nobody_known_is_taken_back_too(
    store: Store, jobs: Jobs, handlers: Handlers, work: Work
) -> None:
    """Such as the last claim of a worker that was swept away in that very moment."""
    handlers.handle("k")(lambda job: "done")
    made = jobs.enqueue("k")
    assert len(claim(store, "never registered")) == 1
    work(lease_s=LEASE_S)
    assert jobs.wait(made.id, PATIENCE_S) == "done"
    assert "reclaimed" in verbs_of(jobs, made.id)


def test_a_worker_that_leaves_stays_registered_while_it_holds_a_job(store: Store, jobs: Jobs) -> None:
    register(store, "leaving", 60)
    jobs.enqueue("k")
    (job,) = claim(store, "leaving")
    store.single("worker.leave", id="leaving")
    assert "leaving" in workers(store)
    store.atomic(lambda tx: ledger.settle(tx, "leaving", [(job, None, 1)]))
    store.single("worker.leave", id="leaving")
    assert workers(store) == {}


# -- a lease that was lost -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("beating_often")
def test_a_worker_that_lost_its_lease_settles_nothing_and_takes_a_new_name(
    store: Store, jobs: Jobs, handlers: Handlers, work: Work
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    @handlers.handle("k")
    def slow(job: Job) -> str:
        if job.attempt_count == 1:
            begun.set()
            assert go_on.wait(PATIENCE_S)
            return "zombie"
        return "second"

    worker = work()
    old = worker.id
    made = jobs.enqueue("k")
    assert begun.wait(PATIENCE_S)
    Queues(store).pause("default", "until the worker has noticed: else it may claim once more under its old name")
    store.atomic(lambda tx: ledger.reclaim(tx, old, "sweeper", lambda _: JOB_RETRY))
    wait_until(lambda: worker.id != old, within_s=PATIENCE_S, what="it has a new name")
    Queues(store).resume("default")
    assert jobs.wait(made.id, PATIENCE_S) == "second"
    go_on.set()
    handlers.handle("after")(lambda job: None)
    jobs.wait(jobs.enqueue("after").id, PATIENCE_S)
    assert jobs.wait(made.id, 0) == "second"
    assert verbs_of(jobs, made.id) == ["enqueued", "claimed", "reclaimed", "claimed", "finished"]
    assert old not in workers(store)


def test_a_worker_that_cannot_renew_stops_by_itself_and_others_do_the_work(
    jobs: Jobs, handlers: Handlers, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    @handlers.handle("k")
    def noting(job: Job) -> None:
        seen.append(job.worker)

    def unheard() -> None:
        raise DATABASE_CONNECTION_ERROR()

    cut_off = work()
    may_write, refused = cut_off._pump._may_write, threading.Event()
    monkeypatch.setattr(cut_off._pump, "_may_write", lambda: may_write() or refused.set())
    monkeypatch.setattr(cut_off._heart, "_renew", unheard)
    cut_off._heart._renewed_s = float("-inf")  # every beat since long ago has failed
    assert refused.wait(PATIENCE_S)
    with cut_off._pump._fetching:  # the claim that was under way is over
        made = [jobs.enqueue("k") for _ in range(5)]
    healthy = work()
    for one in made:
        jobs.wait(one.id, PATIENCE_S)
    assert set(seen) == {healthy.id}


# -- a job that kills its worker -----------------------------------------------------------------------------------


@pytest.fixture
def time() -> Iterator[VirtualTime]:
    with instant() as passing:
        yield passing


class Deaths:
    """Workers that die with what they hold, one after another."""

    def __init__(self, store: Store, time: VirtualTime, rule: Retry = JOB_RETRY) -> None:
        self._store = store
        self._time = time
        self._rule = rule
        self._count = 0

    def with_jobs(self, lane: str, count: int = 100) -> list[str]:
        """What one worker held when it died; it is taken back when its lease is over."""
        self._count += 1
        name = f"mortal-{self._count}"
        register(self._store, name, 10)
        held = [job.kind for job in claim(self._store, name, lane, count)]
        self._time.advance(11)
        self._store.atomic(self._sweep)
        return held

    def _sweep(self, tx: Any) -> None:
        for (dead,) in tx.rows("worker.expired", count=9, asking=""):
            ledger.reclaim(tx, dead, "sweeper", lambda _: self._rule)
        # What is to wait a while before its next attempt has waited.
        self._time.advance(60)
        tx.rows("job.promote", count=9)


def test_a_job_that_kills_its_worker_each_time_ends_dead_and_its_neighbour_does_not(
    virtual_store: Store, time: VirtualTime
) -> None:
    jobs = Jobs(virtual_store)
    killer, neighbour = jobs.enqueue("killer"), jobs.enqueue("neighbour")
    deaths = Deaths(virtual_store, time)
    # Together three times: nobody can tell which of the two it was, and at first it was most likely neither.
    for lane, count in (("ready", 1), ("ready", 2), ("alone", 3)):
        assert deaths.with_jobs("ready") == ["killer", "neighbour"]
        for made in (killer, neighbour):
            shown = jobs.show(made.id)
            assert (shown["state"], shown["lane"]) == ("queued", lane)
            assert (shown["attempt_count"], shown["pardon_count"]) == (count, count)
    # Then apart: a worker takes one suspect at a time.
    assert deaths.with_jobs("alone", 1) == ["killer"]
    register(virtual_store, "sound", 10)
    (innocent,) = [job for job in claim(virtual_store, "sound", "alone") if job.kind == "neighbour"]
    assert innocent.attempt == 1, "what it was pardoned does not count"
    virtual_store.atomic(lambda tx: ledger.settle(tx, "sound", [(innocent, None, 1)]))
    virtual_store.atomic(lambda tx: ledger.release_strays(tx, "sound", set()))
    died_alone = 1
    while jobs.show(killer.id)["state"] == "queued":
        assert deaths.with_jobs("alone", 1) == ["killer"]
        died_alone += 1
        assert died_alone < 10
    shown = jobs.show(killer.id)
    assert (shown["state"], shown["error_code"]) == ("failed", "WORKER_LOST")
    assert died_alone == 1, "four lost workers in all"
    assert jobs.show(neighbour.id)["state"] == "complete"


def test_the_handlers_own_rule_says_how_often_a_job_may_kill(virtual_store: Store, time: VirtualTime) -> None:
    jobs = Jobs(virtual_store)
    made = jobs.enqueue("killer")
    deaths = Deaths(virtual_store, time, Retry(attempts=1))
    for _ in range(3):
        deaths.with_jobs("ready")
    deaths.with_jobs("alone")
    assert jobs.show(made.id)["state"] == "failed"


def test_a_suspect_that_finishes_alone_is_an_ordinary_job_again(
    store: Store, jobs: Jobs, handlers: Handlers, work: Work
) -> None:
    handlers.handle("k")(lambda job: job.attempt)
    made = jobs.enqueue_many([NewJob(kind="k") for _ in range(3)])
    register(store, "dead", 0)
    claim(store, "dead")
    work()
    assert [jobs.wait(one.id, PATIENCE_S) for one in made] == [1, 1, 1]


# -- clocks and lost replies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("off_s", [86_400, -86_400])
def test_a_clock_that_is_a_day_off_steals_nothing_and_loses_nothing(store: Store, jobs: Jobs, off_s: int) -> None:
    register(store, "alive", 600)
    jobs.enqueue("k")
    (job,) = claim(store, "alive")
    later = jobs.enqueue("later", delay_s=600)
    with replaced(World(wall_us=lambda: REAL.wall_us() + off_s * 1_000_000)):
        assert store.atomic(lambda tx: tx.rows("worker.expired", count=9, asking="")) == []
        assert store.atomic(lambda tx: tx.rows("job.promote", count=9)) == []
        assert store.single("worker.renew", id="alive", lease_us=600_000_000)
        delayed = jobs.enqueue("k", delay_s=600)
    lease_s = (workers(store)["alive"]["lease_until_us"] - store.atomic(lambda tx: tx.now_us())) / 1_000_000
    assert 500 < lease_s <= 600
    assert abs(jobs.show(delayed.id)["due_us"] - jobs.show(later.id)["due_us"]) < 100_000_000
    assert store.atomic(lambda tx: ledger.settle(tx, "alive", [(job, None, 1)])) == ([], [])


@pytest.fixture
def behind(database_url: str) -> Iterator[tuple[Store, FaultProxy]]:
    """A store that reaches its database through a proxy with faults."""
    port = int(psycopg.conninfo.conninfo_to_dict(database_url)["port"] or 0)
    with FaultProxy(port) as proxy:
        store = Store.open(PostgresAddress(proxy.port).dsn(database_url.rsplit("/", 1)[1]))
        yield store, proxy
        proxy.heal()
        store.close()


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_lost_replies_settle_and_journal_everything_once_and_strand_nothing(
    behind: tuple[Store, FaultProxy], jobs: Jobs, handlers: Handlers, work: Work
) -> None:
    through, proxy = behind
    runs: Counter[str] = Counter()
    struck, numbers = list[int](), iter(range(1, 1_000))

    def note(job: Job) -> None:
        runs[job.id] += 1
        number = next(numbers)
        if number in {80, 140}:
            proxy.wait_triggered(2, within_s=PATIENCE_S)
            struck.append(proxy.triggered)
        if number in {20, 21, 80, 140}:
            # What is done from here on is settled in a turn whose reply gets lost.
            proxy.set(lose_reply=COMMIT, times=2)

    @handlers.handle("good")
    def good(job: Job) -> str:
        note(job)
        return job.id

    @handlers.handle("bad")
    def bad(job: Job) -> None:
        note(job)
        raise Failure(CONSTRAINT_VIOLATED)

    made = jobs.enqueue_many([NewJob(kind=("good", "bad")[number % 2]) for number in range(200)])
    proxy.set(lose_reply=COMMIT, times=2)
    worker = work(store=through, concurrency=3)
    for one in made:
        ended(jobs, one.id)
    assert len(struck) == 2, "four replies and more were lost"
    proxy.heal()
    for one in made:
        verbs = verbs_of(jobs, one.id)
        settled = [verb for verb in verbs if verb in {"finished", "failed", "settled_late"}]
        assert settled in (["finished"], ["failed"]), verbs
        # A claim whose reply was lost was given back untouched.
        assert verbs.count("claimed") == verbs.count("released") + 1
        assert runs[one.id] == 1
    assert not worker.join(0)
