"""Handlers: threads and coroutines, never more at once than allowed, and no way to end without being settled."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.base import Limits, Secret
from holdfast.catalog import Catalog, Failure
from holdfast.catalog.classify import Classifier
from holdfast.lifecycle import Cancel, RetryIn, Snooze
from holdfast.policy import NEVER, Backoff, Retry
from holdfast.store import Store
from holdfast.testing.processes import wait_until
from holdfast.worker import Handlers, Job, Jobs, NewJob, QueueSettings, Worker

PATIENCE_S = 30.0
AT_ONCE = Retry(attempts=3, backoff=Backoff.constant(0))
Work = Callable[..., Worker]


def outcome(jobs: Jobs, job_id: str) -> dict[str, Any]:
    """The job, once it has ended."""
    wait_until(
        lambda: jobs.show(job_id)["state"] in {"complete", "failed"}, within_s=PATIENCE_S, what="the job has ended"
    )
    return jobs.show(job_id)


def verbs_of(jobs: Jobs, job_id: str) -> list[str]:
    return [event["verb"] for event in jobs.history(job_id)]


# -- threads and loops -----------------------------------------------------------------------------------------------


def test_a_handler_that_blocks_runs_in_a_thread_and_a_coroutine_on_a_loop(
    jobs: Jobs, handlers: Handlers, work: Work
) -> None:
    @handlers.handle("sync")
    def sync(job: Job) -> Any:
        with pytest.raises(RuntimeError, match="no running event loop"):
            asyncio.get_running_loop()
        return {"got": job.payload, "in": threading.current_thread().name}

    @handlers.handle("async")
    async def async_(job: Job) -> Any:
        await asyncio.sleep(0)
        assert asyncio.get_running_loop()
        return {"got": job.payload, "in": threading.current_thread().name}

    work()
    made = {kind: jobs.enqueue(kind, kind) for kind in ("sync", "async")}
    assert jobs.wait(made["sync"].id, PATIENCE_S) == {"got": "sync", "in": "holdfast-default"}
    assert jobs.wait(made["async"].id, PATIENCE_S) == {"got": "async", "in": "holdfast-loop"}


class Gauge:
    """How many run at once, at most."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.now = 0
        self.most = 0

    def __enter__(self) -> None:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self.now -= 1


@pytest.mark.parametrize("kinds", [("sync",), ("async",), ("sync", "async")], ids=["sync", "async", "mixed"])
def test_never_more_run_at_once_than_allowed_and_never_fewer_without_need(
    jobs: Jobs, handlers: Handlers, work: Work, kinds: tuple[str, ...]
) -> None:
    gauge, full = Gauge(), threading.Event()

    def note() -> None:
        if gauge.now == 3:
            full.set()

    @handlers.handle("sync")
    def sync(job: Job) -> None:
        with gauge:
            note()
            assert full.wait(PATIENCE_S)

    @handlers.handle("async")
    async def async_(job: Job) -> None:
        with gauge:
            note()
            assert await asyncio.to_thread(full.wait, PATIENCE_S)

    made = jobs.enqueue_many([NewJob(kind=kinds[number % len(kinds)]) for number in range(60)])
    work(concurrency=3)
    for one in made:
        jobs.wait(one.id, PATIENCE_S)
    assert gauge.most == 3


def test_each_queue_has_a_concurrency_of_its_own(jobs: Jobs, handlers: Handlers, work: Work) -> None:
    """A queue that is full holds up no other."""
    release = threading.Event()

    @handlers.handle("slow")
    def slow(job: Job) -> None:
        assert release.wait(PATIENCE_S)

    @handlers.handle("quick")
    def quick(job: Job) -> str:
        return "quick"

    work(queues=[QueueSettings("slow", concurrency=1), QueueSettings("quick", concurrency=1)])
    held = [jobs.enqueue("slow", queue="slow") for _ in range(3)]
    assert jobs.wait(jobs.enqueue("quick", queue="quick").id, PATIENCE_S) == "quick"
    release.set()
    for one in held:
        jobs.wait(one.id, PATIENCE_S)


def test_jobs_begin_in_the_order_of_their_queue(jobs: Jobs, handlers: Handlers, work: Work) -> None:
    begun: list[int] = []

    @handlers.handle("sync")
    def sync(job: Job) -> None:
        begun.append(job.payload)

    @handlers.handle("async")
    async def async_(job: Job) -> None:
        begun.append(job.payload)

    made = jobs.enqueue_many([NewJob(kind=("sync", "async")[number % 3 == 0], payload=number) for number in range(30)])
    work(concurrency=1)
    for one in made:
        jobs.wait(one.id, PATIENCE_S)
    assert begun == list(range(30))


# -- answers ---------------------------------------------------------------------------------------------------------


def test_a_snoozed_job_comes_back_and_has_spent_no_attempt(jobs: Jobs, handlers: Handlers, work: Work) -> None:
    seen: list[int] = []

    @handlers.handle("k", retry=NEVER)
    def snoozing(job: Job) -> Any:
        seen.append(job.attempt)
        return Snooze(0.01) if len(seen) < 4 else "awake"

    work()
    made = jobs.enqueue("k")
    assert jobs.wait(made.id, PATIENCE_S) == "awake"
    assert seen == [1, 1, 1, 1]
    assert jobs.show(made.id)["attempt_count"] == 1


def test_a_retry_that_is_asked_for_counts(jobs: Jobs, handlers: Handlers, work: Work) -> None:
    seen: list[int] = []

    @handlers.handle("k", retry=Retry(attempts=3))
    async def again(job: Job) -> Any:
        seen.append(job.attempt)
        return RetryIn(0.0, "not yet")

    work()
    shown = outcome(jobs, jobs.enqueue("k").id)
    assert seen == [1, 2, 3]
    assert "not yet" in shown["error_technical"]


def test_a_cancel_ends_the_job(jobs: Jobs, handlers: Handlers, work: Work) -> None:
    @handlers.handle("k")
    def unwanted(job: Job) -> Any:
        return Cancel("nobody wants it")

    work()
    assert outcome(jobs, jobs.enqueue("k").id)["error_code"] == "JOB_CANCELLED"


# -- failures --------------------------------------------------------------------------------------------------------

errors = Catalog("handlers")
BANK_SILENT = errors.fault("BANK_SILENT", status=503, says="The bank did not answer.", retry=True)


class BankClosed(Exception):
    pass


def test_an_exception_is_classified_and_its_code_decides(jobs: Jobs, handlers: Handlers, work: Work) -> None:
    bank = Classifier({BankClosed: BANK_SILENT})
    seen: list[str] = []

    @handlers.handle("closed", classifier=bank, retry=AT_ONCE)
    def closed(job: Job) -> None:
        seen.append("closed")
        raise BankClosed("until Monday")

    @handlers.handle("refused", retry=AT_ONCE)
    async def refused(job: Job) -> None:
        seen.append("refused")
        raise Failure(errors.fault("CARD_DECLINED", status=402, says="The card was declined."))

    work()
    declined, silent = outcome(jobs, jobs.enqueue("refused").id), outcome(jobs, jobs.enqueue("closed").id)
    assert declined["error_code"] == "CARD_DECLINED"
    assert silent["error_code"] == "BANK_SILENT"
    assert "until Monday" in silent["error_technical"]
    assert (seen.count("closed"), seen.count("refused")) == (3, 1)


def test_a_kind_without_a_handler_is_a_dead_letter_that_says_so(jobs: Jobs, handlers: Handlers, work: Work) -> None:
    work()
    shown = outcome(jobs, jobs.enqueue("misspelt").id)
    assert shown["error_code"] == "KIND_UNKNOWN"
    assert "misspelt" in shown["error_technical"]
    assert shown["attempt_count"] == 1


ENDS: dict[str, type[BaseException]] = {
    "exit": SystemExit,
    "interrupt": KeyboardInterrupt,
    "cancelled": asyncio.CancelledError,
    "generator": GeneratorExit,
    "base": BaseException,
}


def test_no_exception_whatever_loses_the_job_or_the_crew(jobs: Jobs, handlers: Handlers, work: Work) -> None:
    @handlers.handle("sync", retry=NEVER)
    def sync(job: Job) -> None:
        raise ENDS[job.payload]("the end")

    @handlers.handle("async", retry=NEVER)
    async def async_(job: Job) -> None:
        await asyncio.sleep(0)
        raise ENDS[job.payload]("the end")

    @handlers.handle("sound")
    async def sound(job: Job) -> str:
        return "sound"

    work(concurrency=2)
    for kind in ("sync", "async"):
        for name in ENDS:
            shown = outcome(jobs, jobs.enqueue(kind, name).id)
            assert shown["state"] == "failed", (kind, name)
            assert "the end" in shown["error_technical"]
    assert jobs.wait(jobs.enqueue("sound").id, PATIENCE_S) == "sound"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_task_of_a_handlers_own_that_exits_does_not_end_the_loop(jobs: Jobs, handlers: Handlers, work: Work) -> None:
    @handlers.handle("careless", timeout_s=PATIENCE_S)
    async def careless(job: Job) -> str:
        async def leave() -> None:
            sys.exit(3)

        task = asyncio.create_task(leave())
        await asyncio.wait([task])
        with pytest.raises(SystemExit):
            task.result()
        return "still here"

    work()
    assert jobs.wait(jobs.enqueue("careless").id, PATIENCE_S) == "still here"
    assert jobs.wait(jobs.enqueue("careless").id, PATIENCE_S) == "still here"


def test_a_rule_that_breaks_is_a_dead_letter_that_says_so(jobs: Jobs, handlers: Handlers, work: Work) -> None:
    def broken(_: Failure) -> bool:
        raise ZeroDivisionError("in the rule")

    @handlers.handle("k", retry=Retry(attempts=3, when=broken))
    def raising(job: Job) -> None:
        raise ConnectionResetError

    work()
    shown = outcome(jobs, jobs.enqueue("k").id)
    assert shown["error_code"] == "INTERNAL_ERROR"
    assert "in the rule" in shown["error_technical"]


# -- results ---------------------------------------------------------------------------------------------------------


def test_a_result_that_cannot_be_kept_is_a_clear_failure_without_a_second_run(
    jobs: Jobs, handlers: Handlers, work: Work
) -> None:
    runs: list[str] = []
    results = {
        "object": object(),
        "nan": float("nan"),
        "half": "\ud800",
        "secret": Secret("s3cret"),
        "huge": "x" * (Limits().result_bytes_max + 1),
        "wide": "ü" * (Limits().result_bytes_max // 2 + 1),
    }

    @handlers.handle("k", retry=AT_ONCE)
    def returning(job: Job) -> Any:
        runs.append(job.payload)
        return results[job.payload]

    work()
    made = {name: jobs.enqueue("k", name) for name in results}
    shown = {name: outcome(jobs, one.id) for name, one in made.items()}
    assert {one["error_code"] for one in shown.values()} == {"JOB_RESULT_INVALID"}
    assert all("the result" in one["error_technical"] for one in shown.values())
    assert "artifact" in shown["huge"]["error_technical"]
    assert "artifact" in shown["wide"]["error_technical"]
    assert "s3cret" not in str(shown)
    assert sorted(runs) == sorted(results)


def test_every_json_result_is_kept(jobs: Jobs, handlers: Handlers, work: Work) -> None:
    results = [0, False, "", [], {}, "NUL \0", 'q"\\', {"ü": [None]}]

    @handlers.handle("k")
    async def returning(job: Job) -> Any:
        return results[job.payload]

    work()
    made = [jobs.enqueue("k", number) for number in range(len(results))]
    assert [jobs.wait(one.id, PATIENCE_S) for one in made] == results


def test_a_kind_has_one_handler(handlers: Handlers) -> None:
    handlers.handle("k")(lambda job: None)
    with pytest.raises(ValueError, match="'k' has a handler already"):
        handlers.handle("k")(lambda job: None)


def test_many_coroutines_need_no_threads(jobs: Jobs, handlers: Handlers, work: Work, store: Store) -> None:
    gauge, full = Gauge(), threading.Event()
    before = threading.active_count()
    everyone: list[asyncio.Event] = []

    @handlers.handle("k")
    async def waiting(job: Job) -> None:
        with gauge:
            if not everyone:
                everyone.append(asyncio.Event())
            if gauge.now == 200:
                full.set()
                everyone[0].set()
            await everyone[0].wait()

    made = jobs.enqueue_many([NewJob(kind="k") for _ in range(200)])
    work(concurrency=200)
    assert full.wait(PATIENCE_S)
    assert threading.active_count() - before < 20
    for one in made:
        jobs.wait(one.id, PATIENCE_S)
