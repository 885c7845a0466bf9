"""What the tests of the operator's verbs share: an operator, and jobs and deliveries in any state."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from holdfast.catalog.core import NOT_FOUND
from holdfast.delivery import Deliveries
from holdfast.operate import Actor, ActorKind
from holdfast.operate.audit_log import Entry, entries
from holdfast.policy import Breaker
from holdfast.store import Store
from holdfast.worker import Jobs, ledger
from holdfast.worker.breakers import SharedBreaker, Tally
from holdfast.worker.settlement import failed

WORKER = "w-1"
CLAIM_MAX = 100


@pytest.fixture
def actor() -> Actor:
    return Actor(ActorKind.API, "ann", "10.0.0.7")


@pytest.fixture
def jobs(store: Store) -> Iterator[Jobs]:
    client = Jobs(store)
    yield client
    client.close()


@pytest.fixture
def die(store: Store) -> Callable[[str], list[str]]:
    """Let every queued job of a queue fail for good; their ids."""

    def dying(queue: str) -> list[str]:
        held = store.atomic(lambda tx: ledger.claim(tx, queue=queue, worker=WORKER, count=CLAIM_MAX))
        for job in held:  # one by one, so that each has a time of death of its own
            dead = failed(job, NOT_FOUND(), None, 5, blamed=False)
            store.atomic(lambda tx, dead=dead: ledger.settle(tx, WORKER, (), [dead]))
        return [job.id for job in held]

    return dying


@pytest.fixture
def dead(jobs: Jobs, die: Callable[[str], list[str]]) -> Callable[..., list[str]]:
    """So many jobs that failed for good; their ids, in the order of death."""

    def killed(count: int = 1, *, queue: str = "mail", tenant: str = "") -> list[str]:
        for number in range(count):
            jobs.enqueue("mail.send", {"n": number}, queue=queue, tenant=tenant)
        return die(queue)

    return killed


@pytest.fixture
def deliveries(store: Store, jobs: Jobs) -> Deliveries:
    return Deliveries(store, jobs)


@pytest.fixture
def held(store: Store, jobs: Jobs) -> Callable[[], str]:
    """A job that is being worked on."""

    def holding() -> str:
        jobs.enqueue("long", queue="long")
        [job] = store.atomic(lambda tx: ledger.claim(tx, queue="long", worker=WORKER, count=1))
        return job.id

    return holding


@pytest.fixture
def audit(store: Store) -> Callable[[], list[Entry]]:
    """The audit, the first action first."""
    return lambda: list(store.atomic(lambda tx: entries(tx, count=100), write=False))[::-1]


@pytest.fixture
def open_breaker(store: Store) -> Callable[[str], None]:
    def opening(name: str) -> None:
        rule = Breaker(failure_ratio=0.5, calls_min=4, window_s=120, open_s=30, probes=2)
        breaker = SharedBreaker(name, rule)
        store.atomic(lambda tx: breaker.report(tx, Tally(calls=4, failures=4, code="BAD_GATEWAY")))

    return opening
