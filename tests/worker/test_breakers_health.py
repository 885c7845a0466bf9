"""A breaker with a health probe goes back by itself, also when no job is left that could be tried."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.catalog.core import BAD_GATEWAY
from holdfast.policy import Breaker
from holdfast.store import Store
from holdfast.testing import VirtualTime, instant
from holdfast.worker import Jobs, Queues
from holdfast.worker.breakers import UNWELL, WELL, SharedBreaker, Tally

RULE = Breaker(failure_ratio=0.5, calls_min=4, window_s=120, open_s=10, open_max_s=10)
QUEUES = ["q", "other"]


@pytest.fixture
def time() -> Iterator[VirtualTime]:
    with instant() as virtual:
        yield virtual


class Callee:
    """What the jobs call, and how it is."""

    def __init__(self) -> None:
        self.well = False
        self.asked = 0

    def __call__(self) -> bool:
        self.asked += 1
        return self.well


def opened(store: Store, callee: Callee, **options: object) -> SharedBreaker:
    breaker = SharedBreaker("gateway", RULE, probe=callee, **options)  # type: ignore[arg-type]
    store.atomic(lambda tx: breaker.report(tx, Tally(calls=4, failures=4, code="BAD_GATEWAY")))
    assert state(store) == "open"
    return breaker


def state(store: Store) -> str:
    return Queues(store).breakers()[0].state


def spent(store: Store, breaker: SharedBreaker) -> int:
    """Let one job through as a probe; the round."""

    def phase(tx):
        admission = breaker.admit(tx, 1)
        assert admission.count == 1
        breaker.spend(tx, 1)
        return admission.generation

    return store.atomic(phase)


@pytest.mark.parametrize("fails_with", [None, BAD_GATEWAY], ids=["hold", "fail fast"])
def test_it_closes_without_a_job_when_the_callee_is_well(virtual_store: Store, time: VirtualTime, fails_with) -> None:
    callee = Callee()
    breaker = opened(virtual_store, callee, fails_with=fails_with)
    assert not breaker.tend(virtual_store, QUEUES)
    assert callee.asked == 0, "the pause is not over"
    time.advance(11)
    assert not breaker.tend(virtual_store, QUEUES)
    assert (callee.asked, state(virtual_store)) == (1, "open")
    callee.well = True
    assert not breaker.tend(virtual_store, QUEUES), "it was asked a moment ago"
    time.advance(11)
    assert breaker.tend(virtual_store, QUEUES)
    assert (callee.asked, state(virtual_store)) == (2, "closed")
    history = [(event["verb"], event["reason"]) for event in Jobs(virtual_store).history("breaker:gateway")]
    assert history[-2:] == [("probed", None), ("recovered", WELL)]
    virtual_store.atomic(lambda tx: breaker.report(tx, Tally(calls=1, failures=1, code="X")))
    assert state(virtual_store) == "closed", "what failed before is forgotten"


def test_while_jobs_wait_one_of_them_is_tried(virtual_store: Store, time: VirtualTime) -> None:
    callee = Callee()
    callee.well = True
    breaker = opened(virtual_store, callee)
    Jobs(virtual_store).enqueue("k", queue="other")
    time.advance(11)
    assert breaker.tend(virtual_store, QUEUES)
    assert state(virtual_store) == "half_open"
    assert not breaker.tend(virtual_store, QUEUES), "the job is about to be tried"
    assert callee.asked == 1


def test_jobs_that_are_paused_by_hand_or_not_due_are_not_waited_for(virtual_store: Store, time: VirtualTime) -> None:
    callee = Callee()
    callee.well = True
    breaker = opened(virtual_store, callee)
    Jobs(virtual_store).enqueue("k", queue="q")
    Jobs(virtual_store).enqueue("k", queue="other", delay_s=1_000)
    Queues(virtual_store).pause("q", reason="by hand")
    time.advance(11)
    assert breaker.tend(virtual_store, QUEUES)
    assert state(virtual_store) == "closed"


def test_in_fail_fast_mode_the_probe_alone_closes_it(virtual_store: Store, time: VirtualTime) -> None:
    callee = Callee()
    callee.well = True
    breaker = opened(virtual_store, callee, fails_with=BAD_GATEWAY)
    Jobs(virtual_store).enqueue("k", queue="q")
    time.advance(11)
    assert breaker.tend(virtual_store, QUEUES)
    assert state(virtual_store) == "closed", "one probe at a time would fail all other jobs"


def test_a_half_open_one_whose_job_is_gone_closes_or_opens(virtual_store: Store, time: VirtualTime) -> None:
    callee = Callee()
    callee.well = True
    breaker = opened(virtual_store, callee)
    job = Jobs(virtual_store).enqueue("k", queue="q")
    time.advance(11)
    assert breaker.tend(virtual_store, QUEUES)
    Jobs(virtual_store).cancel(job.id)
    callee.well = False
    assert not breaker.tend(virtual_store, QUEUES)
    assert (state(virtual_store), Queues(virtual_store).breakers()[0].reason) == ("open", UNWELL)
    callee.well = True
    time.advance(11)
    assert breaker.tend(virtual_store, QUEUES)
    assert state(virtual_store) == "closed"


def test_a_probe_that_is_out_is_waited_for_and_a_lost_one_is_not(virtual_store: Store, time: VirtualTime) -> None:
    callee = Callee()
    callee.well = True
    breaker = opened(virtual_store, callee)
    job = Jobs(virtual_store).enqueue("k", queue="q")
    time.advance(11)
    assert breaker.tend(virtual_store, QUEUES)
    spent(virtual_store, breaker)
    Jobs(virtual_store).cancel(job.id)
    assert not breaker.tend(virtual_store, QUEUES)
    assert state(virtual_store) == "half_open"
    time.advance(RULE.probe_s + 1)
    assert breaker.tend(virtual_store, QUEUES)
    assert state(virtual_store) == "closed"
