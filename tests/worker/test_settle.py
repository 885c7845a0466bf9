"""Settlements: exactly one for each token, and what follows from a failure is what the rules say."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from holdfast.catalog import Catalog, Failure, Fault
from holdfast.catalog.core import CONSTRAINT_VIOLATED, NETWORK_TIMEOUT, RATE_LIMIT_EXCEEDED, STORAGE_FULL, UNKNOWN
from holdfast.catalog.durable import COMMIT_UNKNOWN
from holdfast.lifecycle import Cancel, RetryIn, Snooze
from holdfast.policy import Backoff, Retry
from holdfast.store import Store
from holdfast.testing import VirtualTime, instant
from holdfast.worker import Job, Jobs, ledger
from holdfast.worker.settlement import (
    JOB_RETRY,
    Settlement,
    answered,
    cancelled,
    failed,
    fingerprint,
    released,
    storable,
)

errors = Catalog("settling")
IO_ERROR: Fault = errors.fault(
    "IO_ERROR", status=500, says="The file could not be read.", retry=Retry(attempts=2, backoff=Backoff.constant(1))
)
WORKER = "w-1"

Outcome = Callable[[Job], Settlement]


@pytest.fixture
def time() -> Iterator[VirtualTime]:
    with instant() as passing:
        yield passing


@pytest.fixture
def jobs(virtual_store: Store, time: VirtualTime) -> Jobs:
    return Jobs(virtual_store)


def claim(store: Store, worker: str = WORKER) -> Job:
    store.atomic(lambda tx: tx.rows("job.promote", count=9))
    (job,) = store.atomic(lambda tx: ledger.claim(tx, queue="default", worker=worker, count=1))
    return job


def settle(store: Store, *settlements: Settlement) -> list[Settlement]:
    return store.atomic(lambda tx: ledger.settle(tx, WORKER, (), settlements))[1]


def finish(store: Store, job: Job, result: str | None = None) -> list[ledger.Finished]:
    return store.atomic(lambda tx: ledger.settle(tx, WORKER, [(job, result, 1_234)]))[0]


def verbs_of(jobs: Jobs, job_id: str) -> list[str]:
    return [event["verb"] for event in jobs.history(job_id)]


# -- one for each token ----------------------------------------------------------------------------------------------

LATE: dict[str, Callable[[Store, Job], object]] = {
    "finish": lambda store, job: finish(store, job, '"stolen"'),
    "retry": lambda store, job: settle(store, failed(job, NETWORK_TIMEOUT(), None, 1, blamed=True)),
    "fail": lambda store, job: settle(store, failed(job, CONSTRAINT_VIOLATED(), None, 1, blamed=True)),
    "snooze": lambda store, job: settle(store, answered(job, Snooze(5), 1)),
    "cancel": lambda store, job: settle(store, cancelled(job, "", 1)),
    "release": lambda store, job: settle(store, released(job, "")),
}
AFTERWARDS: dict[str, Callable[[Store, Job], object]] = {
    "reclaimed": lambda store, job: store.atomic(lambda tx: ledger.reclaim(tx, WORKER, "w-2", lambda _: None)),
    "finished": lambda store, job: finish(store, job),
    "failed": lambda store, job: settle(store, failed(job, CONSTRAINT_VIOLATED(), None, 1, blamed=True)),
    "claimed again": lambda store, job: (
        settle(store, released(job, "")),
        store.atomic(lambda tx: ledger.claim(tx, queue=job.queue, worker="w-2", count=1)),
    ),
}


def test_a_late_settlement_changes_nothing_and_is_journalled(
    virtual_store: Store, jobs: Jobs, time: VirtualTime
) -> None:
    for afterwards, happen in AFTERWARDS.items():
        for verb, settle_late in LATE.items():
            queue = f"{afterwards}-{verb}"
            made = jobs.enqueue("k", queue=queue)
            (job,) = virtual_store.atomic(lambda tx, queue=queue: ledger.claim(tx, queue=queue, worker=WORKER, count=1))
            happen(virtual_store, job)
            before = jobs.show(made.id)
            known = verbs_of(jobs, made.id)
            time.advance(1)
            assert settle_late(virtual_store, job), "it is told that it was late"
            assert jobs.show(made.id) == before
            assert verbs_of(jobs, made.id) == [*known, "settled_late"]


def test_of_a_batch_only_what_is_still_held_is_settled(virtual_store: Store, jobs: Jobs) -> None:
    made = [jobs.enqueue(str(number)) for number in range(4)]
    held = [claim(virtual_store) for _ in range(4)]
    finish(virtual_store, held[1], '"first"')
    lost = virtual_store.atomic(
        lambda tx: ledger.settle(tx, WORKER, [(job, f'"{job.kind}"', 1) for job in held[:3]], [released(held[3], "")])
    )
    assert lost == ([(held[1], '"1"', 1)], [])
    assert [jobs.show(one.id)["result"] for one in made] == ['"0"', '"first"', '"2"', None]
    assert [verbs_of(jobs, one.id)[-1] for one in made] == ["finished", "settled_late", "finished", "released"]


@pytest.mark.parametrize("newest", ["first", "last"])
def test_two_tokens_of_one_job_in_a_batch_settle_it_once(virtual_store: Store, jobs: Jobs, newest: str) -> None:
    made = jobs.enqueue("k")
    old = claim(virtual_store)
    settle(virtual_store, released(old, ""))
    new = claim(virtual_store)
    batch: list[ledger.Finished] = [(old, '"old"', 1), (new, '"new"', 1)]
    if newest == "first":
        batch.reverse()
    lost, _ = virtual_store.atomic(lambda tx: ledger.settle(tx, WORKER, batch))
    assert [one[0] for one in lost] == [old]
    assert jobs.show(made.id)["result"] == '"new"'
    assert sorted(verbs_of(jobs, made.id)[-2:]) == ["finished", "settled_late"]


# -- what is written -------------------------------------------------------------------------------------------------


def test_a_result_is_kept_and_handed_out(virtual_store: Store, jobs: Jobs) -> None:
    made = jobs.enqueue("k")
    finish(virtual_store, claim(virtual_store), '{"total":7}')
    assert jobs.wait(made.id, 0) == {"total": 7}
    shown = jobs.show(made.id)
    assert (shown["state"], shown["lease_owner"], shown["cancel_us"]) == ("complete", None, None)
    assert shown["finished_us"] is not None
    event = jobs.history(made.id)[-1]
    assert (event["verb"], event["attempt"], event["duration_us"], event["worker"]) == ("finished", 1, 1_234, WORKER)


def test_the_error_of_a_job_is_there_only_when_it_has_failed(
    virtual_store: Store, jobs: Jobs, time: VirtualTime
) -> None:
    made = jobs.enqueue("k")
    errors_of = lambda: [jobs.show(made.id)[f"error_{part}"] for part in ("code", "message", "technical")]  # noqa: E731
    settle(virtual_store, failed(claim(virtual_store), NETWORK_TIMEOUT(), None, 1, blamed=True))
    assert errors_of() == [None, None, None]
    time.advance(60)
    job = claim(virtual_store)
    assert job.attempt == 2
    settle(virtual_store, failed(job, CONSTRAINT_VIOLATED(column="age"), None, 1, blamed=True))
    assert errors_of() == [
        "CONSTRAINT_VIOLATED",
        "The values contradict each other or what is stored.",
        "a constraint of the database refused the row",
    ]
    shown = jobs.show(made.id)
    assert shown["fingerprint"]
    assert shown["failed_us"] is not None
    with pytest.raises(Failure) as told:
        jobs.wait(made.id, 0)
    assert told.value.code == "CONSTRAINT_VIOLATED"


def test_between_attempts_the_job_is_queued_for_later_and_the_journal_has_the_reason(
    virtual_store: Store, jobs: Jobs
) -> None:
    made = jobs.enqueue("k")
    failure = NETWORK_TIMEOUT(upstream_status=504)
    failure.__cause__ = TimeoutError("no answer from bank")
    settle(virtual_store, failed(claim(virtual_store), failure, None, 77, blamed=True))
    shown, event = jobs.show(made.id), jobs.history(made.id)[-1]
    assert (shown["state"], shown["lane"], shown["attempt_count"]) == ("queued", "waiting", 1)
    assert 4_000_000 <= shown["due_us"] - shown["last_attempt_us"] <= 6_000_000
    assert (event["verb"], event["code"], event["upstream_status"], event["duration_us"]) == (
        "retried",
        "NETWORK_TIMEOUT",
        504,
        77,
    )
    assert event["due_us"] == shown["due_us"]
    assert "no answer from bank" in event["reason"]


# -- the rules -------------------------------------------------------------------------------------------------------


def attempts_until_dead(
    store: Store, jobs: Jobs, time: VirtualTime, failures: Iterator[Failure], retry: Retry | None, **asked: int
) -> tuple[int, str]:
    """How many attempts there were, and why there was no other."""
    made = jobs.enqueue("k", **asked)  # type: ignore[arg-type]
    for attempt in range(1, 20):
        settle(store, failed(claim(store), next(failures), retry, 1, blamed=True))
        if jobs.show(made.id)["state"] == "failed":
            return attempt, str(jobs.history(made.id)[-1]["reason"]).split(":")[0]
        time.advance(3_600)
    raise AssertionError("it never ends")


def endless(fault: Fault) -> Iterator[Failure]:
    while True:
        yield fault()


@pytest.mark.parametrize(
    ("fault", "retry", "attempts", "reason"),
    [
        (NETWORK_TIMEOUT, None, JOB_RETRY.attempts, "attempts_used"),
        (NETWORK_TIMEOUT, Retry(attempts=5), 5, "attempts_used"),
        (NETWORK_TIMEOUT, Retry(attempts=1), 1, "attempts_used"),
        (CONSTRAINT_VIOLATED, Retry(attempts=5), 1, "not_retryable"),
        (STORAGE_FULL, None, JOB_RETRY.attempts, "attempts_used"),
        (IO_ERROR, Retry(attempts=3), 2, "code_attempts_used"),
        (NETWORK_TIMEOUT, Retry(attempts=5, attempts_per_code={"NETWORK_TIMEOUT": 2}), 2, "code_attempts_used"),
        (COMMIT_UNKNOWN, Retry(attempts=4), 4, "attempts_used"),
        (UNKNOWN, None, 3, "attempts_used"),
        (UNKNOWN, Retry(attempts=9), 2, "unknown_failure"),
    ],
)
def test_the_codes_rule_and_the_handlers_decide_how_often(
    fault: Fault, retry: Retry | None, attempts: int, reason: str
) -> None:
    store = Store.open("sqlite://")
    store.migrate()
    with instant() as time:
        assert attempts_until_dead(store, Jobs(store), time, endless(fault), retry) == (attempts, reason)
    store.close()


def test_an_io_error_is_retried_once_although_the_job_has_three_attempts(
    virtual_store: Store, jobs: Jobs, time: VirtualTime
) -> None:
    mixed = iter([NETWORK_TIMEOUT(), IO_ERROR(), IO_ERROR(), IO_ERROR()])
    assert attempts_until_dead(virtual_store, jobs, time, mixed, Retry(attempts=9)) == (3, "code_attempts_used")


def test_the_jobs_own_number_of_attempts_goes_before_the_handlers(
    virtual_store: Store, jobs: Jobs, time: VirtualTime
) -> None:
    asked = {"attempts": 4}
    assert attempts_until_dead(virtual_store, jobs, time, endless(UNKNOWN), Retry(attempts=2), **asked)[0] == 4


@pytest.mark.parametrize(("asked_s", "waited_s"), [(7.0, 7.0), (0.0, 4.0), (9_999.0, 3_600.0)])
def test_a_retry_after_is_honoured_up_to_its_ceiling_and_no_shorter_than_the_schedule(
    asked_s: float, waited_s: float
) -> None:
    store = Store.open("sqlite://")
    store.migrate()
    with instant():
        jobs = Jobs(store)
        made = jobs.enqueue("k")
        settle(store, failed(claim(store), RATE_LIMIT_EXCEEDED(retry_after_s=asked_s), None, 1, blamed=False))
        shown = jobs.show(made.id)
        # The schedule says 5 s ±20 %, and chance spreads a Retry-After by as much.
        assert waited_s <= (shown["due_us"] - shown["last_attempt_us"]) / 1_000_000 <= waited_s + 2
    store.close()


# -- what handlers answer --------------------------------------------------------------------------------------------


def test_a_snooze_spends_no_attempt(virtual_store: Store, jobs: Jobs, time: VirtualTime) -> None:
    made = jobs.enqueue("k")
    for _ in range(5):
        job = claim(virtual_store)
        assert job.attempt == 1
        settle(virtual_store, answered(job, Snooze(60, "not yet"), 1))
        shown = jobs.show(made.id)
        assert (shown["state"], shown["attempt_count"]) == ("queued", 0)
        assert shown["due_us"] - shown["last_attempt_us"] == 60_000_000
        assert jobs.history(made.id)[-1]["reason"] == "not yet"
        time.advance(60)


def test_a_retry_that_the_handler_asks_for_spends_attempts_and_ends(
    virtual_store: Store, jobs: Jobs, time: VirtualTime
) -> None:
    made = jobs.enqueue("k", attempts=3)
    for attempt in range(1, 4):
        job = claim(virtual_store)
        assert job.attempt == attempt
        settle(virtual_store, answered(job, RetryIn(7, "bank is closed"), 1))
        time.advance(7)
    shown = jobs.show(made.id)
    assert shown["state"] == "failed"
    assert "bank is closed" in shown["error_technical"]
    assert verbs_of(jobs, made.id).count("retried") == 2


def test_a_cancel_ends_the_job_without_further_attempts(virtual_store: Store, jobs: Jobs) -> None:
    made = jobs.enqueue("k")
    settle(virtual_store, answered(claim(virtual_store), Cancel("customer left"), 1))
    shown, event = jobs.show(made.id), jobs.history(made.id)[-1]
    assert (shown["state"], shown["error_code"]) == ("failed", "JOB_CANCELLED")
    assert (event["verb"], event["code"], event["reason"]) == ("cancelled", "JOB_CANCELLED", "customer left")


def test_a_release_gives_the_attempt_back(virtual_store: Store, jobs: Jobs) -> None:
    made = jobs.enqueue("k")
    settle(virtual_store, released(claim(virtual_store), "the worker stops"))
    shown = jobs.show(made.id)
    assert (shown["state"], shown["lane"], shown["attempt_count"]) == ("queued", "ready", 0)
    assert jobs.history(made.id)[-1]["reason"] == "the worker stops"


# -- any text can be stored ------------------------------------------------------------------------------------------

AWKWARD = ["NUL \0 here", "half \ud800 pair", 'quote " and \\', "x" * 5_000, "ünï 🙂"]


def test_whatever_an_exception_says_the_attempt_is_settled(virtual_store: Store, jobs: Jobs, time: VirtualTime) -> None:
    for text in AWKWARD:
        made = jobs.enqueue("k")
        for fault in (NETWORK_TIMEOUT, CONSTRAINT_VIOLATED):
            failure = fault(upstream_status=10**12)
            failure.__cause__ = RuntimeError(text)
            assert settle(virtual_store, failed(claim(virtual_store), failure, None, 1, blamed=True)) == []
            time.advance(60)
        shown = jobs.show(made.id)
        assert shown["state"] == "failed"
        assert storable(text)[:50] in shown["error_technical"]
        assert "\0" not in shown["error_technical"]
        assert all(event["upstream_status"] is None for event in jobs.history(made.id))


def test_whatever_a_handler_gives_as_its_reason_the_attempt_is_settled(
    virtual_store: Store, jobs: Jobs, time: VirtualTime
) -> None:
    for reason in [*AWKWARD, 7, None, ValueError("an exception"), ["a", "list"]]:
        made = jobs.enqueue("k")
        for answer in (Snooze(1, reason), RetryIn(1, reason), Cancel(reason)):  # type: ignore[arg-type]
            assert settle(virtual_store, answered(claim(virtual_store), answer, 1)) == []
            time.advance(60)
        assert jobs.show(made.id)["state"] == "failed"


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("order 17 is missing", "order 4711 is missing", True),
        ("no file 'a.txt'", "no file 'b.txt'", True),
        ("job 018f2c7e-aaaa-7bbb-8ccc-dddddddddddd", "job 018f2c7e-ffff-7bbb-8ccc-dddddddddddd", True),
        ("order is missing", "order is double", False),
    ],
)
def test_failures_that_differ_only_in_numbers_and_names_are_alike(one: str, other: str, alike: bool) -> None:
    assert (fingerprint("CODE", "k", one) == fingerprint("CODE", "k", other)) is alike
    assert fingerprint("CODE", "k", one) != fingerprint("OTHER", "k", one)
    assert fingerprint("CODE", "k", one) != fingerprint("CODE", "other", one)
