"""Time limits: a handler that takes too long is settled without it, whether it blocks or is a coroutine."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.base import World, bus, replaced
from holdfast.catalog import current_context
from holdfast.catalog.core import DEADLINE_EXCEEDED
from holdfast.policy import NEVER, Backoff, Retry, left_s
from holdfast.testing.processes import wait_until
from holdfast.worker import Handlers, Job, Jobs, NewJob, Worker
from holdfast.worker import crew as crew_module
from holdfast.worker.attempt import attempt
from holdfast.worker.crew import left_behind_max

PATIENCE_S = 30.0
AT_ONCE = Retry(attempts=50, backoff=Backoff.constant(0))
Work = Callable[..., Worker]


def outcome(jobs: Jobs, job_id: str) -> dict[str, Any]:
    """The job, once it has ended."""
    wait_until(
        lambda: jobs.show(job_id)["state"] in {"complete", "failed"}, within_s=PATIENCE_S, what="the job has ended"
    )
    return jobs.show(job_id)


def verbs_of(jobs: Jobs, job_id: str) -> list[str]:
    return [event["verb"] for event in jobs.history(job_id)]


def test_a_blocking_handler_that_runs_out_of_time_is_left_behind(jobs: Jobs, handlers: Handlers, work: Work) -> None:
    release, runs = threading.Event(), []

    @handlers.handle("k", timeout_s=0.05, retry=NEVER)
    def hanging(job: Job) -> str:
        runs.append(job.attempt)
        assert release.wait(PATIENCE_S)
        return "too late"

    @handlers.handle("other")
    def other(job: Job) -> str:
        return "served"

    work(concurrency=1)
    made = jobs.enqueue("k")
    shown = outcome(jobs, made.id)
    assert (shown["state"], shown["error_code"]) == ("failed", "JOB_TIMEOUT")
    assert "0.05 s" in shown["error_technical"]
    # The thread still hangs, and yet there is room.
    assert jobs.wait(jobs.enqueue("other").id, PATIENCE_S) == "served"
    release.set()
    assert jobs.wait(jobs.enqueue("other").id, PATIENCE_S) == "served"
    assert jobs.show(made.id)["state"] == "failed"
    assert verbs_of(jobs, made.id) == ["enqueued", "claimed", "failed"]


def test_a_job_that_runs_again_while_its_old_thread_still_hangs_is_settled_by_the_new_one(
    jobs: Jobs, handlers: Handlers, work: Work
) -> None:
    release, second = threading.Event(), threading.Event()

    @handlers.handle("k", timeout_s=0.2, retry=AT_ONCE)
    def hanging(job: Job) -> str:
        if job.attempt == 1:
            assert release.wait(PATIENCE_S)
            return "old"
        # The old thread ends while this one runs.
        release.set()
        second.set()
        return "new"

    work(concurrency=2)
    made = jobs.enqueue("k")
    assert jobs.wait(made.id, PATIENCE_S) == "new"
    assert second.is_set()
    verbs = verbs_of(jobs, made.id)
    # On a busy machine the second attempt may run out of time as well; the next one is then the new one.
    assert verbs[:4] == ["enqueued", "claimed", "retried", "claimed"]
    assert [verb for verb in verbs if verb not in {"claimed", "retried"}] == ["enqueued", "finished"]


def test_threads_left_behind_are_bounded_and_the_queue_rests_until_one_comes_back(
    jobs: Jobs, handlers: Handlers, work: Work
) -> None:
    release, runs = threading.Event(), []

    @handlers.handle("k", timeout_s=0.02, retry=NEVER)
    def hanging(job: Job) -> None:
        runs.append(job.id)
        assert release.wait(PATIENCE_S)

    @handlers.handle("other")
    def other(job: Job) -> str:
        return "served"

    with bus.heard() as told:
        worker = work(concurrency=1)
        made = [one.id for one in jobs.enqueue_many([NewJob(kind="k")] * (left_behind_max(1) + 20))]
        mine = ("worker.trouble", worker.id)
        troubles = lambda: [facts for verb, facts in list(told) if (verb, facts.get("worker")) == mine]  # noqa: E731
        wait_until(lambda: bool(troubles()), within_s=PATIENCE_S, what="the worker has told of it")
        states = lambda: Counter(jobs.show(one)["state"] for one in made)  # noqa: E731
        at_rest = {"failed": left_behind_max(1), "queued": 20}
        wait_until(lambda: states() == at_rest, within_s=PATIENCE_S, what="the others are given back")
    (trouble,) = troubles()
    assert (trouble["code"], trouble["worker"], trouble["queue"]) == ("HANDLERS_STUCK", worker.id, "default")
    assert f"{left_behind_max(1)} handlers of default" in trouble["reason"]
    # A thread may be left behind before it has got as far as its handler.
    wait_until(lambda: len(runs) >= left_behind_max(1), within_s=PATIENCE_S, what="all of them have begun")
    assert len(runs) == left_behind_max(1)
    release.set()
    assert jobs.wait(jobs.enqueue("other", priority=-1).id, PATIENCE_S) == "served"
    wait_until(lambda: states()["queued"] == 0, within_s=PATIENCE_S, what="the queue goes on")


@pytest.mark.parametrize(("concurrency", "most"), [(1, 10), (5, 10), (6, 12), (1_000, 2_000)])
def test_so_many_threads_may_be_left_behind(concurrency: int, most: int) -> None:
    assert left_behind_max(concurrency) == most


def test_a_coroutine_that_runs_out_of_time_is_cancelled(jobs: Jobs, handlers: Handlers, work: Work) -> None:
    cleaned = threading.Event()

    @handlers.handle("k", retry=NEVER)
    async def hanging(job: Job) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    work()
    shown = outcome(jobs, jobs.enqueue("k", timeout_s=0.05).id)
    assert shown["error_code"] == "JOB_TIMEOUT"
    assert cleaned.wait(PATIENCE_S)


def test_a_coroutine_that_is_deaf_to_its_cancel_is_left_behind_too(
    jobs: Jobs, handlers: Handlers, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crew_module, "CANCEL_S", 0.05)
    release, cancelled = threading.Event(), []

    @handlers.handle("k", timeout_s=0.05, retry=NEVER)
    async def deaf(job: Job) -> str:
        while not release.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                cancelled.append(job.id)
        return "too late"

    @handlers.handle("other")
    async def other(job: Job) -> str:
        return "served"

    work(concurrency=1)
    made = jobs.enqueue("k")
    shown = outcome(jobs, made.id)
    assert (shown["state"], shown["error_code"]) == ("failed", "JOB_TIMEOUT")
    assert "0.05 s" in shown["error_technical"]
    wait_until(lambda: cancelled == [made.id], within_s=PATIENCE_S, what="it was cancelled, once")
    assert jobs.wait(jobs.enqueue("other").id, PATIENCE_S) == "served"
    release.set()
    assert jobs.wait(jobs.enqueue("other").id, PATIENCE_S) == "served"
    assert verbs_of(jobs, made.id) == ["enqueued", "claimed", "failed"]


def test_a_timeout_of_the_handlers_own_is_not_the_jobs(jobs: Jobs, handlers: Handlers, work: Work) -> None:
    @handlers.handle("k", timeout_s=60, retry=NEVER)
    async def hanging(job: Job) -> None:
        async with asyncio.timeout(0.01):
            await asyncio.Event().wait()

    work()
    assert outcome(jobs, jobs.enqueue("k").id)["error_code"] == "NETWORK_TIMEOUT"


def test_a_handler_knows_how_much_time_is_left(jobs: Jobs, handlers: Handlers, work: Work) -> None:
    @handlers.handle("k", timeout_s=600)
    def looking(job: Job) -> list[bool]:
        return [500 < left_s() <= 600]

    work()
    assert jobs.wait(jobs.enqueue("k").id, PATIENCE_S) == [True]


def claimed_job(**facts: Any) -> Job:
    known: dict[str, Any] = {
        "id": "j",
        "token": 1,
        "queue": "default",
        "kind": "k",
        "text": "null",
        "attempt": 1,
        "attempt_count": 1,
        "attempts_max": None,
        "code_counts": None,
        "timeout_us": None,
        "claimed_us": 1,
        "tenant": "",
        "trace": None,
        "worker": "w",
    }
    return Job(**{**known, **facts})


def test_a_deadline_that_the_job_itself_set_is_a_timeout_and_is_retried(handlers: Handlers) -> None:
    passing = [0.0]

    @handlers.handle("k", timeout_s=5)
    def slow(job: Job) -> None:
        passing[0] += 6
        raise DEADLINE_EXCEEDED(link="bank", left_s=0)

    with replaced(World(monotonic_s=lambda: passing[0])):
        settlement = attempt(handlers.get("k"), claimed_job())
    assert settlement is not None
    assert not isinstance(settlement, tuple)
    assert (settlement.verb, settlement.code) == ("retry", "JOB_TIMEOUT")


def test_the_trace_of_the_enqueuer_is_the_trace_of_the_handler(handlers: Handlers) -> None:
    seen: list[str | None] = []

    @handlers.handle("k")
    def looking(job: Job) -> None:
        seen.append(current_context().trace_id)

    attempt(handlers.get("k"), claimed_job(trace="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"))
    assert seen == ["4bf92f3577b34da6a3ce929d0e0e4736"]
