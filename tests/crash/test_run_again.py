"""The jobs of a worker that was killed run again, all of them, as soon as the promise says."""

from __future__ import annotations

import pytest

from holdfast.store import Store
from holdfast.testing.processes import wait_until
from holdfast.worker import Jobs, NewJob
from holdfast.worker.worker import LEASE_S

from .accounts import rows
from .fleet import Fleet

JOBS = 10
WITHIN_US = int(1.2 * LEASE_S * 1_000_000)
WITHIN_S = 60.0


@pytest.mark.timeout(180)
def test_all_jobs_of_a_killed_worker_run_again_within_one_and_a_fifth_of_the_lease(fleet: Fleet) -> None:
    store = Store.open(fleet.url)
    jobs = Jobs(store)
    first = fleet.worker(lease_s=LEASE_S, concurrency=JOBS)
    payload = {"first_ms": 600_000}
    made = [one.id for one in jobs.enqueue_many([NewJob(kind="plain", payload=payload) for _ in range(JOBS)])]
    wait_until(lambda: len(jobs.list(state="processing")) == JOBS, within_s=WITHIN_S, what="one worker holds all")
    idle = fleet.worker(lease_s=LEASE_S, concurrency=JOBS)
    wait_until(lambda: len(rows(fleet.url, "SELECT 1 FROM holdfast_worker")) == 2, within_s=WITHIN_S, what="another")
    first.kill()
    lease_us = int(LEASE_S * 1_000_000)
    found = rows(fleet.url, f"SELECT lease_until_us FROM holdfast_worker WHERE process = {first.pid}")
    last_sign_us = found[0][0] - lease_us
    for job_id in made:
        assert jobs.wait(job_id, WITHIN_S) == {"process": idle.pid}

    for job_id in made:
        history = jobs.history(job_id)
        verbs = [event["verb"] for event in history]
        assert verbs == ["enqueued", "claimed", "reclaimed", "claimed", "finished"]
        late_us = history[3]["at_us"] - last_sign_us
        assert lease_us <= late_us <= WITHIN_US, f"it ran again after {late_us / 1_000_000:.1f} s"
    fleet.stop_workers()
    jobs.close()
    store.close()
