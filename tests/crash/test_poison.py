"""A job that kills its worker each time ends as a dead letter, and the jobs around it do not pay for it."""

from __future__ import annotations

import pytest

from holdfast.store import Store
from holdfast.testing.processes import wait_until
from holdfast.worker import Jobs, NewJob

from .accounts import books, rows
from .fleet import Fleet

LEASE_S = 1.5
INNOCENT = 25
WITHIN_S = 120.0


@pytest.mark.timeout(300)
def test_a_job_that_kills_its_worker_ends_as_a_dead_letter_and_takes_no_other_along(fleet: Fleet) -> None:
    store = Store.open(fleet.url)
    jobs = Jobs(store)
    work = [NewJob(kind="plain", payload={"n": number, "before_ms": 30}) for number in range(INNOCENT)]
    jobs.enqueue_many(work)
    poison = jobs.enqueue("poison").id
    jobs.enqueue_many(work)

    def settled() -> bool:
        # Whoever looks after processes starts a new one for each that died.
        missing = 2 - len(fleet.workers())
        for _ in range(missing):
            fleet.worker(lease_s=LEASE_S, concurrency=6)
        return not rows(fleet.url, "SELECT 1 FROM holdfast_job WHERE state IN ('queued', 'processing') LIMIT 1")

    wait_until(settled, within_s=WITHIN_S, what="everything is complete or dead")
    fleet.stop_workers()
    killed = sum(member.was_killed for member in fleet.members)
    jobs.close()
    store.close()

    kept = books(fleet.url)
    assert kept.complaints() == []
    assert [(dead.id, dead.error_code) for dead in kept.in_state("failed")] == [(poison, "WORKER_LOST")]
    assert len(kept.in_state("complete")) == 2 * INNOCENT
    # Twice beside others, which is pardoned, and then alone until its three attempts are spent; a worker that a busy
    # machine kept from renewing may have lost it before it began.
    assert kept.accounts[poison].effects == killed
    assert 1 <= killed <= 4
    assert max(account.effects for account in kept.in_state("complete")) <= killed
