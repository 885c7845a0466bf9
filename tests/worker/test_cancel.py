"""Cancelling: at once while a job is queued, at its handler's next look while it runs, and never in vain."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.catalog import Failure
from holdfast.catalog.core import NETWORK_TIMEOUT
from holdfast.policy import Backoff, Retry
from holdfast.store import Store
from holdfast.testing.processes import wait_until
from holdfast.worker import Handlers, Job, Jobs, Worker, ledger
from holdfast.worker.settlement import failed
from holdfast.worker.stock import Stock

PATIENCE_S = 30.0
Work = Callable[..., Worker]


def ended(jobs: Jobs, job_id: str) -> dict[str, Any]:
    wait_until(lambda: jobs.show(job_id)["state"] in {"complete", "failed"}, within_s=PATIENCE_S, what="the job's end")
    return jobs.show(job_id)


@pytest.mark.parametrize("delay_s", [0, 60])
def test_a_queued_job_is_cancelled_at_once(store: Store, jobs: Jobs, delay_s: float) -> None:
    made = jobs.enqueue("k", dedupe_key="d", delay_s=delay_s)
    assert jobs.cancel(made.id)
    shown, event = jobs.show(made.id), jobs.history(made.id)[-1]
    assert (shown["state"], shown["error_code"], shown["attempt_count"]) == ("failed", "JOB_CANCELLED", 0)
    assert (event["verb"], event["code"]) == ("cancelled", "JOB_CANCELLED")
    assert store.atomic(lambda tx: ledger.claim(tx, queue="default", worker="w", count=9)) == []
    assert jobs.enqueue("k", dedupe_key="d").created, "its key is free again"
    with pytest.raises(Failure, match="JOB_CANCELLED"):
        jobs.wait(made.id, 0)


def test_what_has_ended_is_not_cancelled(store: Store, jobs: Jobs) -> None:
    made = jobs.enqueue("k")
    (job,) = store.atomic(lambda tx: ledger.claim(tx, queue="default", worker="w", count=1))
    store.atomic(lambda tx: ledger.settle(tx, "w", [(job, None, 1)]))
    before = jobs.show(made.id), jobs.history(made.id)
    assert not jobs.cancel(made.id)
    assert (jobs.show(made.id), jobs.history(made.id)) == before


def test_an_unknown_job_is_told_as_such(jobs: Jobs) -> None:
    with pytest.raises(Failure, match="JOB_NOT_FOUND"):
        jobs.cancel("no-such-job")


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_running_handler_sees_it_and_stops(jobs: Jobs, handlers: Handlers, work: Work, kind: str) -> None:
    begun = threading.Event()

    @handlers.handle("sync")
    def sync(job: Job) -> None:
        begun.set()
        wait_until(lambda: job.cancelled, within_s=PATIENCE_S, what="the handler is told")
        raise RuntimeError("stopped half-way")

    @handlers.handle("async")
    async def async_(job: Job) -> None:
        begun.set()
        await asyncio.to_thread(wait_until, lambda: job.cancelled, within_s=PATIENCE_S, what="the handler is told")
        raise RuntimeError("stopped half-way")

    work()
    made = jobs.enqueue(kind)
    assert begun.wait(PATIENCE_S)
    assert jobs.cancel(made.id)
    shown = ended(jobs, made.id)
    assert (shown["error_code"], shown["attempt_count"]) == ("JOB_CANCELLED", 1)
    assert [event["verb"] for event in jobs.history(made.id)] == ["enqueued", "claimed", "cancel_asked", "cancelled"]


def test_a_handler_may_finish_all_the_same(jobs: Jobs, handlers: Handlers, work: Work) -> None:
    begun = threading.Event()

    @handlers.handle("k")
    def nearly_done(job: Job) -> str:
        begun.set()
        wait_until(lambda: job.cancelled, within_s=PATIENCE_S, what="the handler is told")
        return "done anyway"

    work()
    made = jobs.enqueue("k")
    assert begun.wait(PATIENCE_S)
    assert jobs.cancel(made.id)
    assert jobs.wait(made.id, PATIENCE_S) == "done anyway"
    assert jobs.show(made.id)["cancel_us"] is None


def test_a_cancel_that_came_just_before_the_attempt_failed_is_not_forgotten(
    store: Store, jobs: Jobs, handlers: Handlers, work: Work
) -> None:
    """The worker had not looked yet: the next one to claim the job is told."""
    runs: list[int] = []
    handlers.handle("k")(lambda job: runs.append(1))
    made = jobs.enqueue("k")
    (job,) = store.atomic(lambda tx: ledger.claim(tx, queue="default", worker="w", count=1))
    assert jobs.cancel(made.id)
    at_once = Retry(attempts=3, backoff=Backoff.constant(0))
    store.atomic(lambda tx: ledger.settle(tx, "w", (), [failed(job, NETWORK_TIMEOUT(), at_once, 1, blamed=True)]))
    assert jobs.show(made.id)["state"] == "queued"
    work()
    assert ended(jobs, made.id)["error_code"] == "JOB_CANCELLED"
    assert runs == []


def test_a_job_that_was_claimed_and_still_waits_its_turn_does_not_begin(
    jobs: Jobs, handlers: Handlers, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Stock, "_look_ahead", lambda _: 5)
    begun, go_on, runs = threading.Event(), threading.Event(), []

    @handlers.handle("k")
    def first(job: Job) -> None:
        runs.append(job.payload)
        begun.set()
        assert go_on.wait(PATIENCE_S)

    made = [jobs.enqueue("k", number) for number in range(3)]
    worker = work(concurrency=1)
    assert begun.wait(PATIENCE_S)

    def held() -> dict[str, Job]:
        return {job.id: job for crew in worker._crews for job in crew.jobs()}

    wait_until(lambda: len(held()) == len(made), within_s=PATIENCE_S, what="all are claimed")
    assert jobs.cancel(made[1].id)
    wait_until(lambda: held()[made[1].id].cancelled, within_s=PATIENCE_S, what="the worker knows")
    go_on.set()
    assert ended(jobs, made[1].id)["error_code"] == "JOB_CANCELLED"
    assert ended(jobs, made[2].id)["state"] == "complete"
    assert runs == [0, 2]
