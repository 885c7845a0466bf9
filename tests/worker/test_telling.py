"""What becomes of jobs is told on the bus, once it is written down; without a listener nothing is."""

from __future__ import annotations

import pytest

from holdfast.base import bus
from holdfast.catalog import enriched
from holdfast.catalog.core import NETWORK_TIMEOUT
from holdfast.catalog.durable import JOB_TIMEOUT
from holdfast.policy import Backoff, Breaker, Retry
from holdfast.store import Store
from holdfast.testing.processes import wait_until
from holdfast.worker import DeadLetters, Handlers, Job, Jobs, Queues, QueueSettings, Worker

SOON = Retry(attempts=2, backoff=Backoff.listed(0))
PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PATIENCE_S = 30.0


def about(told: list, name: str) -> list:
    """What was told of this job or queue; the bus is the whole process's."""
    return [(verb, facts) for verb, facts in list(told) if name in (facts.get(key) for key in ("id", "queue", "name"))]


def run_until(store: Store, handlers: Handlers, told: list, verb: str, name: str) -> None:
    worker = Worker(store, handlers, lease_s=60.0)
    worker.start()
    try:
        wait_until(lambda: verb in dict(about(told, name)), within_s=PATIENCE_S, what=verb)
    finally:
        worker.stop()
        assert worker.join(2 * PATIENCE_S)


def test_a_job_is_told_from_its_enqueueing_to_its_end(store: Store) -> None:
    handlers, jobs = Handlers(), Jobs(store)

    @handlers.handle("work", retry=SOON)
    def work(job: Job) -> None:
        if job.attempt == 1:
            raise NETWORK_TIMEOUT(upstream_status=504)

    with bus.heard() as told:
        made = jobs.enqueue("work", tenant="acme")
        run_until(store, handlers, told, "job.finished", made.id)
    # Two threads tell of claims and of ends: whether an end or the claim that follows it comes first is not promised.
    mine = sorted(about(told, made.id), key=lambda one: one[1]["attempt"])
    assert [verb for verb, _ in mine] == [
        "job.enqueued", "job.claimed", "job.retried", "job.claimed", "job.finished",
    ]  # fmt: skip
    assert all((facts["tenant"], facts["queue"], facts["kind"]) == ("acme", "default", "work") for _, facts in mine)
    retried = mine[2][1]
    assert (retried["code"], retried["upstream_status"], retried["delay_us"]) == ("NETWORK_TIMEOUT", 504, 0)
    assert mine[4][1]["duration_us"] >= 0


def test_a_retry_promises_the_next_attempt_and_the_end_does_not(store: Store) -> None:
    handlers, jobs = Handlers(), Jobs(store)

    @handlers.handle("work", retry=SOON)
    def work(job: Job) -> None:
        raise JOB_TIMEOUT(kind="work", timeout_s=1)

    with bus.heard() as told:
        made = jobs.enqueue("work")
        run_until(store, handlers, told, "job.failed", made.id)
    said = dict(about(told, made.id))
    assert said["job.retried"]["message"] == "This is taking too long. We’ll retry."
    assert said["job.failed"]["message"] == "This took too long."
    assert jobs.show(made.id)["error_message"] == "This took too long."


def test_a_job_that_its_handler_finished_is_told_too(store: Store) -> None:
    handlers, jobs = Handlers(), Jobs(store)
    handlers.handle("work")(lambda job: store.atomic(job.finish))
    with bus.heard() as told:
        made = jobs.enqueue("work")
        run_until(store, handlers, told, "job.finished", made.id)
    assert [verb for verb, _ in about(told, made.id)].count("job.finished") == 1


def test_an_attempt_has_a_span_of_its_own_in_the_trace_of_whoever_enqueued(store: Store) -> None:
    handlers, jobs = Handlers(), Jobs(store)
    handlers.handle("work")(lambda job: None)
    with bus.heard() as told, enriched(trace_id=PARENT[0], span_id=PARENT[1]):
        made = jobs.enqueue("work")
        run_until(store, handlers, told, "job.finished", made.id)
    facts = dict(about(told, made.id))["job.finished"]
    assert facts["trace"] == f"00-{PARENT[0]}-{PARENT[1]}-01"
    assert len(facts["span"]) == 16
    assert facts["span"] != PARENT[1]


def test_a_transaction_that_is_rolled_back_is_not_told(store: Store) -> None:
    jobs = Jobs(store)

    def undone(tx: object) -> None:
        jobs.enqueue("work", queue="undone", tx=tx)
        raise LookupError

    with bus.heard() as told, pytest.raises(LookupError):
        store.atomic(undone)
    assert about(told, "undone") == []


def test_dead_letters_queues_and_breakers_are_told(store: Store) -> None:
    handlers, jobs = Handlers(), Jobs(store)
    handlers.serve(QueueSettings("letters", breaker=Breaker(calls_min=1)))

    @handlers.handle("work", retry=Retry(attempts=1))
    def work(job: Job) -> None:
        raise NETWORK_TIMEOUT()

    with bus.heard() as told:
        made = jobs.enqueue("work", queue="letters")
        run_until(store, handlers, told, "breaker.opened", "letters")
        DeadLetters(store).revive(made.id, reason="try again")
        Queues(store).pause("letters", "by hand")
        Queues(store).resume("letters")
    mine = about(told, "letters")
    verbs = [verb for verb, _ in mine]
    assert verbs[-3:] == ["job.revived", "queue.paused", "queue.resumed"]
    assert {"job.failed", "breaker.opened"} <= set(verbs)
    assert "NETWORK_TIMEOUT" in dict(mine)["breaker.opened"]["reason"]
