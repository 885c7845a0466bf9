"""Makes jobs in any state with the moves that a worker makes."""

from __future__ import annotations

from holdfast.catalog import Fault
from holdfast.catalog.core import NOT_FOUND
from holdfast.store import Store
from holdfast.worker import Jobs, ledger
from holdfast.worker.settlement import failed

WORKER = "w-1"


def kill(
    store: Store, jobs: Jobs, count: int = 1, *, fault: Fault = NOT_FOUND, queue: str = "mail", **facts: object
) -> list[str]:
    """So many jobs that failed for good; their ids, in the order of death."""
    message = str(facts.pop("message", "")) or None
    for number in range(count):
        jobs.enqueue("mail.send", {"n": number}, queue=queue, tenant=str(facts.get("tenant", "")))
    held = store.atomic(lambda tx: ledger.claim(tx, queue=queue, worker=WORKER, count=count))
    settlements = [failed(job, fault(message, **facts), None, 5_000, blamed=False) for job in held]
    for one in settlements:  # one by one, so that each has a time of death of its own
        store.atomic(lambda tx, one=one: ledger.settle(tx, WORKER, (), [one]))
    return [job.id for job in held]


def finish(store: Store, jobs: Jobs, count: int = 1, *, queue: str = "mail") -> list[str]:
    """So many jobs that are done."""
    for number in range(count):
        jobs.enqueue("mail.send", {"n": number}, queue=queue)
    held = store.atomic(lambda tx: ledger.claim(tx, queue=queue, worker=WORKER, count=count))
    store.atomic(lambda tx: ledger.settle(tx, WORKER, [(job, None, 5) for job in held]))
    return [job.id for job in held]


def hold(store: Store, jobs: Jobs, count: int = 1, *, queue: str = "mail") -> list[str]:
    """So many jobs that are being worked on."""
    for number in range(count):
        jobs.enqueue("mail.send", {"n": number}, queue=queue)
    held = store.atomic(lambda tx: ledger.claim(tx, queue=queue, worker=WORKER, count=count))
    return [job.id for job in held]
