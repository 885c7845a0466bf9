"""Waiting for a job: its result, its failure, or that it takes longer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from holdfast.catalog import Catalog, Dialect, Failure, render
from holdfast.policy import NEVER
from holdfast.store import Store
from holdfast.testing import instant
from holdfast.worker import Handlers, Job, Jobs, Worker, ledger
from holdfast.worker.settlement import failed

PATIENCE_S = 30.0
errors = Catalog("waiting")
BANK_SILENT = errors.fault("BANK_SILENT", status=503, says="The bank did not answer.", technical="no word from {host}")


def told(jobs: Jobs, job_id: str, timeout_s: float = 0) -> Failure:
    with pytest.raises(Failure) as raised:
        jobs.wait(job_id, timeout_s)
    return raised.value


def test_who_waits_gets_the_result_as_soon_as_it_is_there(
    jobs: Jobs, handlers: Handlers, work: Callable[..., Worker]
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    @handlers.handle("k")
    def slow(job: Job) -> dict[str, int]:
        begun.set()
        assert go_on.wait(PATIENCE_S)
        return {"total": 7}

    work()
    made = jobs.enqueue("k", dedupe_key="d")
    results: list[object] = []
    waiting = threading.Thread(target=lambda: results.append(jobs.wait(made.id, PATIENCE_S)))
    waiting.start()
    assert begun.wait(PATIENCE_S)
    twin = jobs.enqueue("k", dedupe_key="d")
    assert not twin.created
    go_on.set()
    waiting.join(PATIENCE_S)
    assert results == [{"total": 7}]
    assert jobs.wait(twin.id, PATIENCE_S) == {"total": 7}


def test_a_failed_job_raises_its_own_code(store: Store, jobs: Jobs) -> None:
    made = jobs.enqueue("k")
    (job,) = store.atomic(lambda tx: ledger.claim(tx, queue="default", worker="w", count=1))
    store.atomic(lambda tx: ledger.settle(tx, "w", (), [failed(job, BANK_SILENT(), NEVER, 1, blamed=True)]))
    failure = told(jobs, made.id, PATIENCE_S)
    assert (failure.code, failure.message) == ("BANK_SILENT", "The bank did not answer.")
    assert failure.details["job_id"] == made.id


def test_who_waits_is_told_the_technical_line_and_with_a_catalog_the_declared_status(store: Store, jobs: Jobs) -> None:
    made = jobs.enqueue("k")
    (job,) = store.atomic(lambda tx: ledger.claim(tx, queue="default", worker="w", count=1))
    lost = BANK_SILENT(host="{bank}")
    lost.__cause__ = TimeoutError("after {s} s")
    store.atomic(lambda tx: ledger.settle(tx, "w", (), [failed(job, lost, NEVER, 1, blamed=True)]))
    for catalog, status in ((None, 500), (Catalog("other"), 500), (errors, 503)):
        with pytest.raises(Failure) as raised:
            jobs.wait(made.id, PATIENCE_S, catalog=catalog)
        failure = raised.value
        assert (failure.code, failure.status, failure.message) == ("BANK_SILENT", status, "The bank did not answer.")
        assert failure.technical == "no word from {bank} (TimeoutError: after {s} s)"
        assert b"no word" not in render(failure, Dialect.NESTED).body


def test_a_job_that_does_not_exist_is_told_as_such(jobs: Jobs) -> None:
    assert told(jobs, "no-such-job", PATIENCE_S).code == "JOB_NOT_FOUND"
    with pytest.raises(Failure, match="JOB_NOT_FOUND"):
        jobs.show("no-such-job")


def test_a_job_that_takes_longer_is_not_ready_and_says_when_to_ask_again(virtual_store: Store) -> None:
    jobs = Jobs(virtual_store)
    made = jobs.enqueue("k")
    with instant() as time:
        failure = told(jobs, made.id, 10)
    assert (failure.code, failure.status, failure.retryable) == ("JOB_NOT_READY", 409, True)
    assert failure.retry_after_s is not None
    assert failure.retry_after_s > 0
    assert time.passed_s == pytest.approx(10)
    # It looks often at first and then less often, but never rarely.
    assert time.waits_s[0] <= 0.05
    assert max(time.waits_s) <= 1.0
    assert time.waits_s[:-1] == sorted(time.waits_s[:-1])


def test_not_to_wait_at_all_is_one_look(virtual_store: Store) -> None:
    jobs = Jobs(virtual_store)
    made = jobs.enqueue("k")
    with instant() as time:
        assert told(jobs, made.id, 0).code == "JOB_NOT_READY"
    assert time.waits_s == []


async def test_a_coroutine_waits_without_holding_up_its_loop(
    jobs: Jobs, handlers: Handlers, work: Callable[..., Worker]
) -> None:
    go_on = asyncio.Event()
    loop = asyncio.get_running_loop()

    @handlers.handle("k")
    def slow(job: Job) -> dict[str, int]:
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(PATIENCE_S)
        return {"total": 7}

    work()
    made = await jobs.enqueue_async("k")
    waiting = asyncio.create_task(jobs.wait_async(made.id, PATIENCE_S))
    await asyncio.sleep(0)
    go_on.set()
    assert await waiting == {"total": 7}
    with pytest.raises(Failure, match="JOB_NOT_FOUND"):
        await jobs.wait_async("no-such-job", PATIENCE_S)
    later = await jobs.enqueue_async("k", delay_s=60)
    with pytest.raises(Failure, match="JOB_NOT_READY"):
        await jobs.wait_async(later.id, 0)
