"""The database itself was away: nobody could renew, and nobody is taken for dead because of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from holdfast.base import REAL, bus, replaced, world
from holdfast.store import Store
from holdfast.store.address import CALL_TIMEOUT_S
from holdfast.testing.postgres import PostgresAddress, multi_host_dsn
from holdfast.testing.processes import wait_until
from holdfast.testing.proxy import FaultProxy
from holdfast.worker import Handlers, Job, Jobs, Worker
from holdfast.worker.heart import Heart

from .test_lease import PATIENCE_S, claim, register, verbs_of, workers

Work = Callable[..., Worker]


def heart(store: Store, handlers: Handlers, *, lease_s: float) -> Heart:
    calls = dict.fromkeys(("wake", "lost", "cancel", "tend", "trouble"), lambda *_: None)
    return Heart(store, handlers, lease_s=lease_s, queues="", **calls)


def test_a_lease_that_ran_out_is_renewed_while_nobody_has_taken_the_jobs(store: Store, jobs: Jobs) -> None:
    register(store, "late", 0)
    jobs.enqueue("k")
    (job,) = claim(store, "late")
    assert store.single("worker.renew", id="late", lease_us=60_000_000)
    assert workers(store)["late"]["held"] == 1
    assert jobs.show(job.id)["token"] == job.token


def test_a_worker_never_declares_itself_dead(store: Store, jobs: Jobs, handlers: Handlers, work: Work) -> None:
    handlers.handle("k")(lambda job: "done")
    worker = work()
    name = worker.id
    store.atomic(lambda tx: tx._execute("UPDATE holdfast_worker SET lease_until_us = 1", {}))
    assert jobs.wait(jobs.enqueue("k").id, PATIENCE_S) == "done"
    assert worker.id == name


@pytest.mark.parametrize(("silent_s", "patient"), [(20.0, True), (1.0, False)])
def test_after_a_silence_of_the_database_everybody_has_a_lease_to_be_heard_of(
    store: Store, jobs: Jobs, handlers: Handlers, silent_s: float, patient: bool
) -> None:
    here = heart(store, handlers, lease_s=30.0)
    here.register()
    here._answered()
    register(store, "other", 0)
    made = jobs.enqueue("k")
    claim(store, "other")
    here._answered_s = REAL.monotonic_s() - silent_s
    here._sweep_once()
    assert ("reclaimed" in verbs_of(jobs, made.id)) is not patient
    here._patient_until_s = 0.0
    here._sweep_once()
    assert "reclaimed" in verbs_of(jobs, made.id), "it is not put off for ever"


@pytest.mark.parametrize(("jump_s", "patient"), [(3_600, True), (25, False)])
def test_after_the_clock_of_the_database_has_jumped_everybody_has_a_lease_to_be_heard_of(
    database_url: str, jobs: Jobs, handlers: Handlers, jump_s: int, patient: bool
) -> None:
    """As where a server takes over whose clock is ahead."""
    shifted = Store.open(database_url, database_clock=False)
    here = heart(shifted, handlers, lease_s=60.0)
    here.register()
    register(shifted, "other", 20)
    made = jobs.enqueue("k")
    claim(shifted, "other")
    here._sweep_once()
    ahead = replace(world(), wall_us=lambda: REAL.wall_us() + jump_s * 1_000_000)
    with replaced(ahead):
        here._sweep_once()
        assert ("reclaimed" in verbs_of(jobs, made.id)) is not patient
        here._patient_until_s = 0.0
        here._sweep_once()
        assert "reclaimed" in verbs_of(jobs, made.id), "it is not put off for ever"
    shifted.close()


@pytest.mark.parametrize(("dead", "patient"), [(1, False), (3, True)])
def test_a_worker_that_comes_after_the_outage_knows_it_by_all_others_being_late(
    store: Store, jobs: Jobs, handlers: Handlers, dead: int, patient: bool
) -> None:
    for number in range(dead):
        register(store, f"late-{number}", 0)
    made = jobs.enqueue("k")
    claim(store, "late-0")
    here = heart(store, handlers, lease_s=30.0)
    here.start()
    try:
        if patient:
            here._sweep_once()
            assert "reclaimed" not in verbs_of(jobs, made.id)
        else:
            # Its own thread sweeps too.
            wait_until(lambda: "reclaimed" in verbs_of(jobs, made.id), within_s=PATIENCE_S, what="it is reclaimed")
    finally:
        here.stop()


def test_what_ran_through_an_outage_is_settled_by_the_worker_that_ran_it(
    store: Store, jobs: Jobs, handlers: Handlers, work: Work
) -> None:
    runs: list[int] = []

    @handlers.handle("k")
    def through(job: Job) -> str:
        runs.append(job.attempt)
        # The lease of everybody runs out while the database is away; then it answers again.
        store.atomic(lambda tx: tx._execute("UPDATE holdfast_worker SET lease_until_us = 1", {}))
        return "done"

    work()
    assert jobs.wait(jobs.enqueue("k").id, PATIENCE_S) == "done"
    assert runs == [1]


def test_a_worker_whose_lease_is_over_waits_for_the_database_without_using_a_processor(
    store: Store, jobs: Jobs, handlers: Handlers, work: Work
) -> None:
    begun, end, quiet = threading.Event(), threading.Event(), threading.Event()

    @handlers.handle("k")
    def until_told(job: Job) -> str:
        begun.set()
        assert end.wait(PATIENCE_S)
        return "done"

    worker = work()
    may_write, asked = worker._pump._may_write, []
    made = jobs.enqueue("k")
    assert begun.wait(PATIENCE_S)
    # As when the database has been away for longer than the lease; the next renewal is far off.
    worker._heart._renewed_s = float("-inf")
    worker._pump._may_write = lambda: asked.append(may_write()) or asked[-1]
    jobs.enqueue("k")
    worker._pump.wake()
    end.set()
    quiet.wait(0.5)
    assert not any(asked)
    assert len(asked) < 100, "it looks again and again"
    worker._heart._renewed_s = REAL.monotonic_s()
    assert jobs.wait(made.id, PATIENCE_S) == "done"


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_worker_tells_of_an_outage_for_as_long_as_it_lasts(database_url: str, handlers: Handlers) -> None:
    parts = urlsplit(database_url)
    assert parts.port is not None
    told: list[tuple[str, object]] = []
    end = bus.listen(lambda verb, facts: told.append((verb, facts.get("code"))))
    with FaultProxy(parts.port) as proxy:
        store = Store.open(PostgresAddress(proxy.port).dsn(parts.path[1:]))
        worker = Worker(store, handlers, lease_s=1.0)
        worker.start()
        proxy.set(refuse=True, reset=True)
        wait_until(lambda: not worker._may_write(), within_s=PATIENCE_S, what="the lease is over")
        for _ in range(3):
            told.clear()
            worker._trouble._told_s.clear()  # as ten seconds later
            wait_until(
                lambda: ("worker.trouble", "DATABASE_CONNECTION_ERROR") in told, within_s=PATIENCE_S, what="it is told"
            )
        proxy.heal()
        worker.stop()
        assert worker.join(PATIENCE_S)
        store.close()
    end()


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_lease_is_renewed_elsewhere_long_before_other_calls_give_up_on_a_server_that_hangs(
    database_url: str, store: Store, handlers: Handlers
) -> None:
    parts = urlsplit(database_url)
    assert parts.port is not None
    with FaultProxy(parts.port) as hanging:
        servers = [PostgresAddress(hanging.port), PostgresAddress(parts.port)]
        several = Store.open(f"{multi_host_dsn(servers, parts.path[1:])}&connect_timeout=2")
        mine = heart(several, handlers, lease_s=6.0)
        mine.start()
        hanging.set(half_open=True)
        before_us = workers(store)[mine.worker]["lease_until_us"]
        wait_until(
            lambda: workers(store)[mine.worker]["lease_until_us"] > before_us,
            within_s=CALL_TIMEOUT_S - 3,
            what="the lease is renewed at the server that answers",
        )
        hanging.heal()
        mine.stop()
        several.close()
