"""Stopping: what runs is finished, what waits is given back, and nothing is lost when the time is up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from holdfast.store import Store
from holdfast.testing.processes import wait_until
from holdfast.worker import Handlers, Job, Jobs, NewJob, QueueSettings, Worker, ledger
from holdfast.worker.stock import Stock

PATIENCE_S = 30.0
Work = Callable[..., Worker]


class Held:
    """A handler that runs until the test lets it go."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go_on = threading.Event()
        self.ended = threading.Event()
        self.runs: list[object] = []

    def sync(self, job: Job) -> str:
        self.runs.append(job.payload)
        self.begun.set()
        assert self.go_on.wait(PATIENCE_S)
        self.ended.set()
        return "finished"

    async def async_(self, job: Job) -> str:
        self.runs.append(job.payload)
        self.begun.set()
        assert await asyncio.to_thread(self.go_on.wait, PATIENCE_S)
        self.ended.set()
        return "finished"


@pytest.fixture
def held(handlers: Handlers) -> Held:
    made = Held()
    handlers.handle("sync")(made.sync)
    handlers.handle("async")(made.async_)
    return made


def verbs_of(jobs: Jobs, job_id: str) -> list[str]:
    return [event["verb"] for event in jobs.history(job_id)]


def workers(store: Store) -> int:
    return len(store.atomic(lambda tx: tx.rows("worker.list"), write=False))


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_what_runs_is_finished_and_what_waits_is_given_back_without_an_attempt(
    store: Store, jobs: Jobs, held: Held, work: Work, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(Stock, "_look_ahead", lambda _: 5)
    made = jobs.enqueue_many([NewJob(kind=kind, payload=number) for number in range(4)])
    worker = work(concurrency=1, grace_s=2 * PATIENCE_S)
    assert held.begun.wait(PATIENCE_S)
    wait_until(lambda: jobs.show(made[3].id)["state"] == "processing", within_s=PATIENCE_S, what="all are claimed")
    worker.stop()
    wait_until(lambda: verbs_of(jobs, made[3].id)[-1] == "released", within_s=PATIENCE_S, what="the others are back")
    assert not worker.join(0), "it stays with what runs"
    late = jobs.enqueue(kind, "late")
    held.go_on.set()
    assert worker.join(PATIENCE_S)
    assert jobs.wait(made[0].id, 0) == "finished"
    assert held.runs == [0]
    for one in made[1:]:
        shown = jobs.show(one.id)
        assert (shown["state"], shown["lane"], shown["attempt_count"]) == ("queued", "ready", 0)
        assert verbs_of(jobs, one.id) == ["enqueued", "claimed", "released"]
    assert jobs.show(late.id)["state"] == "queued"
    assert workers(store) == 0


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_when_the_grace_time_is_over_what_still_runs_is_given_back(
    store: Store, jobs: Jobs, held: Held, work: Work, kind: str
) -> None:
    made = jobs.enqueue(kind)
    worker = work(grace_s=0.05)
    assert held.begun.wait(PATIENCE_S)
    worker.stop()
    assert worker.join(PATIENCE_S)
    shown = jobs.show(made.id)
    assert (shown["state"], shown["attempt_count"]) == ("queued", 0)
    assert "grace" in jobs.history(made.id)[-1]["reason"]
    assert workers(store) == 0
    # What the handler does from now on changes nothing: its token no longer counts.
    (again,) = store.atomic(lambda tx: ledger.claim(tx, queue="default", worker="next", count=1))
    held.go_on.set()
    if kind == "sync":
        assert held.ended.wait(PATIENCE_S)
    assert store.atomic(lambda tx: ledger.settle(tx, "next", [(again, None, 1)])) == ([], [])
    assert verbs_of(jobs, made.id) == ["enqueued", "claimed", "released", "claimed", "finished"]


@pytest.mark.timeout(300)
def test_everything_that_was_done_is_settled_before_the_end(jobs: Jobs, handlers: Handlers, work: Work) -> None:
    """However the end falls between a handler's return and its settlement."""
    done: list[str] = []

    @handlers.handle("k")
    def quick(job: Job) -> None:
        done.append(job.id)

    made = jobs.enqueue_many([NewJob(kind="k") for _ in range(500)])
    for _ in range(50):
        worker = work(concurrency=4, grace_s=PATIENCE_S)
        enough = min(500, len(done) + 1)
        wait_until(lambda enough=enough: len(done) >= enough, within_s=PATIENCE_S, what="some work")
        worker.stop()
        assert worker.join(2 * PATIENCE_S)
        if len(done) >= 500:
            break
    states = {job["id"]: job["state"] for job in jobs.list(count=1_000)}
    assert {states[job_id] for job_id in done} == {"complete"}
    assert "processing" not in states.values()
    assert len(done) == len(set(done))
    assert set(done) <= {one.id for one in made}


def test_an_idle_worker_stops_at_once_and_leaves_no_threads(store: Store, handlers: Handlers) -> None:
    @handlers.handle("async")
    async def quick(job: Job) -> str:
        return "done"

    handlers.handle("sync")(lambda job: "done")

    def ours() -> set[threading.Thread]:
        return {thread for thread in threading.enumerate() if thread.name.startswith("holdfast-")}

    jobs = Jobs(store)
    jobs.list()  # the store has a thread of its own while it is open
    before = ours()
    worker = Worker(store, handlers, queues=[QueueSettings()])
    worker.start()
    for kind in ("sync", "async"):
        assert jobs.wait(jobs.enqueue(kind).id, PATIENCE_S) == "done"
    worker.stop()
    assert worker.join(PATIENCE_S)
    jobs.close()
    wait_until(lambda: ours() <= before, within_s=PATIENCE_S, what="all threads have ended")


def test_stopping_twice_and_before_the_start_does_no_harm(store: Store, handlers: Handlers) -> None:
    worker = Worker(store, handlers, queues=[QueueSettings()])
    assert worker.join(0)
    worker.start()
    worker.stop()
    worker.stop()
    assert worker.join(PATIENCE_S)
    worker.stop()
    assert workers(store) == 0


def test_run_works_until_another_thread_says_stop(store: Store, jobs: Jobs, handlers: Handlers) -> None:
    handlers.handle("k")(lambda job: "done")
    worker = Worker(store, handlers, queues=[QueueSettings()])
    running = threading.Thread(target=worker.run)
    running.start()
    assert jobs.wait(jobs.enqueue("k").id, PATIENCE_S) == "done"
    worker.stop()
    running.join(PATIENCE_S)
    assert not running.is_alive()


def test_a_worker_that_lost_its_lease_does_not_wait_out_the_grace_time(
    store: Store, jobs: Jobs, held: Held, work: Work
) -> None:
    jobs.enqueue("sync")
    worker = work(grace_s=600.0)
    assert held.begun.wait(PATIENCE_S)
    worker._lease_lost()
    worker._stopping.set()
    worker._pump.wake()
    held.go_on.set()
    assert worker.join(PATIENCE_S)
