"""The real engine against the model, in any order: enqueues, claims, crashes, late settlements, jumps of the clock."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from hypothesis.stateful import run_state_machine_as_test as run

from holdfast.base import now_us, replaced
from holdfast.catalog import Failure
from holdfast.catalog.durable import JOB_TIMEOUT, KIND_UNKNOWN
from holdfast.lifecycle import Cancel, RetryIn, Snooze
from holdfast.policy import Backoff, Retry
from holdfast.store import Store, Tx
from holdfast.testing import VirtualTime, virtual_world
from holdfast.worker import Job, JobLost, Jobs, ledger
from holdfast.worker.dead import DeadLetters
from holdfast.worker.settlement import Settlement, answered, failed, released

from .accounts import rows
from .model import ATTEMPTS, DELAYS_US, FOREVER, Model, ModelJob

LEASE_US = 10_000_000
RULE = Retry(attempts=ATTEMPTS, attempts_unknown=ATTEMPTS, backoff=Backoff.listed(*(us / 1e6 for us in DELAYS_US)))
KEYS = st.sampled_from([None, "a", "a", "b"])
DELAYS_S = st.sampled_from([0.0, 0.0, 1.0, 20.0])
SHOWN = ("state", "token", "attempt_count", "pardon_count", "manual_retry_count", "result", "error_code", "due_us")
COLUMNS = ("id", *SHOWN, "lane", "lease_owner", "cancel_us", "finished_us", "attempts_max")


class Engine(RuleBasedStateMachine):
    """Every rule does the same thing to the engine and to the model."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.outside = ExitStack()
        self.time = VirtualTime()
        self.outside.enter_context(replaced(virtual_world(self.time)))
        self.store = Store.open(url, database_clock=False)
        self.outside.callback(self.store.close)
        self.jobs = Jobs(self.store)
        self.outside.callback(self.jobs.close)
        self.store.migrate()
        self.dead = DeadLetters(self.store)
        self.model = Model()
        self.tokens: dict[str, int] = {}
        self.workers = 0
        self.held: list[Job] = []
        """Jobs as they were claimed, for ever: whether the token still counts, the one who settles cannot know."""

    def teardown(self) -> None:
        self.outside.close()

    @initialize(priorities=st.permutations([-1, 0, 0, 1]))
    def begin(self, priorities: list[int]) -> None:
        """Some jobs, and a worker that has claimed one of them."""
        for priority in priorities:
            self.enqueue(key=None, priority=priority, delay_s=0.0, unique_s=None, attempts=None)
        self.take(self.register(), 1, ledger.LANE_READY)

    # -- what clients and operators do --------------------------------------------------------------------------------

    @rule(
        key=KEYS,
        priority=st.integers(-1, 1),
        delay_s=DELAYS_S,
        unique_s=st.sampled_from([None, 5.0]),
        attempts=st.sampled_from([None, 1, 2]),
    )
    def enqueue(
        self, key: str | None, priority: int, delay_s: float, unique_s: float | None, attempts: int | None
    ) -> None:
        holder = None if key is None else self.model.holder(key, now_us())
        enqueued = self.jobs.enqueue(
            "work", priority=priority, delay_s=delay_s, dedupe_key=key, unique_s=unique_s, attempts=attempts
        )
        assert enqueued.created is (holder is None)
        if holder is not None:
            assert enqueued.id == holder.id
            return
        self.model.enqueued(
            ModelJob(
                id=enqueued.id,
                priority=priority,
                due_us=now_us() + int(delay_s * 1e6),
                lane="waiting" if delay_s else "ready",
                key=key,
                unique_until_us=FOREVER if unique_s is None else now_us() + int(unique_s * 1e6),
                attempts_max=attempts,
            )
        )

    @precondition(lambda self: self.model.jobs)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.model.jobs)))
        assert self.jobs.cancel(job_id) is self.model.cancel(job_id)

    @precondition(lambda self: self.dead_ids())
    @rule(data=st.data(), discard=st.sampled_from([False, False, True]))
    def bury_or_revive(self, data: st.DataObject, discard: bool) -> None:
        job_id = data.draw(st.sampled_from(self.dead_ids()))
        if discard:
            self.dead.discard(job_id)
            del self.model.jobs[job_id]
            return
        key = self.model.jobs[job_id].key
        if key is not None and self.model.holder(key, now_us()) is not None:
            with pytest.raises(Failure, match="JOB_TWIN_EXISTS"):
                self.dead.revive(job_id)
        else:
            self.dead.revive(job_id)
            self.model.revive(job_id, now_us())

    # -- what workers do ----------------------------------------------------------------------------------------------

    @rule(data=st.data(), count=st.integers(1, 3))
    def claim(self, data: st.DataObject, count: int) -> None:
        """By a new worker, by one that has a lease or believes so, or by one that nobody knows any more."""
        worker = data.draw(st.sampled_from([*sorted(self.model.leases), "new", "swept"]), label="worker")
        lane = data.draw(st.sampled_from(self.model.lanes() or [ledger.LANE_READY]), label="lane")
        self.take(self.register() if worker == "new" else worker, count, lane)

    @precondition(lambda self: self.model.leases)
    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(sorted(self.model.leases)))
        renewed = self.store.single("worker.renew", id=worker, lease_us=LEASE_US)
        assert renewed, "also when its lease has run out, as long as nobody has swept it away"
        self.model.leases[worker] = now_us() + LEASE_US

    @precondition(lambda self: self.held)
    @rule(data=st.data(), count=st.integers(1, 3), result=st.sampled_from([None, '"done"']))
    def finish(self, data: st.DataObject, count: int, result: str | None) -> None:
        """Those whose token counts are finished; the others change nothing, however late they come."""
        jobs = list({job.id: job for job in (self.some_job(data) for _ in range(count))}.values())
        counts = [self.model.holds(job.id, job.token) for job in jobs]
        self.store.atomic(lambda tx: ledger.settle(tx, "any", [(job, result, 1) for job in jobs]))
        for job, counted in zip(jobs, counts, strict=True):
            if counted:
                self.model.finish(job.id, result)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def finish_within(self, data: st.DataObject) -> None:
        job = self.some_job(data)
        if self.model.holds(job.id, job.token):
            self.store.atomic(lambda tx: job.finish(tx, "within"))
            self.model.finish(job.id, '"within"')
        else:
            with pytest.raises(JobLost):
                self.store.atomic(lambda tx: job.finish(tx, "within"))

    @precondition(lambda self: self.held)
    @rule(data=st.data(), ending=st.sampled_from(["retry", "retry", "fail", "snooze", "retry_in", "cancel", "release"]))
    def settle_otherwise(self, data: st.DataObject, ending: str) -> None:
        """Snooze and release give the attempt back, the others spend it; after the last one the job is dead."""
        job = self.some_job(data)
        delay_s = data.draw(DELAYS_S, label="delay_s")
        counts = self.model.holds(job.id, job.token)
        _, lost = self.store.atomic(lambda tx: ledger.settle(tx, "any", (), [settlement(job, ending, delay_s)]))
        assert not (counts and lost)
        if counts:
            self.model.settled(job.id, ending, int(delay_s * 1e6), now_us())

    # -- what time does -----------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.5, 3.0, 5.0, 7.0, 10.0, 30.0]), noticed=st.sampled_from([True, True, False]))
    def time_passes(self, seconds: float, noticed: bool) -> None:
        """Windows close and leases run out; with nobody to renew them, that is what a crash looks like."""
        self.time.advance(seconds)
        if noticed:
            self.sweep()
            self.promote()

    @rule()
    def sweep(self) -> None:
        def phase(tx: Tx) -> None:
            for (dead,) in [*tx.rows("worker.expired", count=10, asking=""), *tx.rows("worker.gone", count=10)]:
                ledger.reclaim(tx, dead, "sweeper", lambda _: RULE)

        self.store.atomic(phase)
        self.model.swept(now_us())

    @rule()
    def promote(self) -> None:
        self.store.atomic(lambda tx: tx.rows("job.promote", count=1_000))
        self.model.promote(now_us())

    # -- what is always true ------------------------------------------------------------------------------------------

    @invariant()
    def engine_and_model_agree_and_the_books_are_sound(self) -> None:
        shown = self.shown()
        assert sorted(shown) == sorted(self.model.jobs), "a job was lost, or came from nowhere"
        for job_id, there in shown.items():
            self.agrees(there, self.model.jobs[job_id])
            self.is_sound(job_id, there)

    def agrees(self, there: dict[str, Any], job: ModelJob) -> None:
        assert {name: there[name] for name in SHOWN} == {name: getattr(job, name) for name in SHOWN}
        assert there["lease_owner"] == job.owner
        assert (there["cancel_us"] is not None) is job.cancel_asked
        if job.state == "queued":
            assert there["lane"] == job.lane

    def is_sound(self, job_id: str, there: dict[str, Any]) -> None:
        assert there["token"] >= self.tokens.get(job_id, 0), "a fencing token went back"
        self.tokens[job_id] = there["token"]
        assert (there["lease_owner"] is not None) is (there["state"] == "processing")
        assert (there["error_code"] is not None) is (there["state"] == "failed")
        assert (there["finished_us"] is not None) is (there["state"] == "complete")
        assert there["result"] is None or there["state"] == "complete"
        assert 0 <= there["pardon_count"] <= there["attempt_count"]
        assert there["attempt_count"] - there["pardon_count"] <= (there["attempts_max"] or ATTEMPTS)

    # -- doing it -----------------------------------------------------------------------------------------------------

    def register(self) -> str:
        self.workers += 1
        worker = f"worker-{self.workers}"
        self.store.single("worker.register", id=worker, host="", process=1, queues="default", lease_us=LEASE_US)
        self.model.leases[worker] = now_us() + LEASE_US
        return worker

    def take(self, worker: str, count: int, lane: str) -> None:
        expected = self.model.claimable(lane, count)
        claimed = self.store.atomic(lambda tx: ledger.claim(tx, queue="default", worker=worker, count=count, lane=lane))
        if not claimed and worker not in self.model.leases:
            return  # whoever has no lease may be refused
        assert [job.id for job in claimed] == expected
        assert [job.cancelled for job in claimed] == [self.model.jobs[job_id].cancel_asked for job_id in expected]
        self.model.claim(expected, worker)
        self.held += claimed

    def some_job(self, data: st.DataObject) -> Job:
        """One that was claimed at some time: mostly one whose token counts, or whose job is someone else's by now."""
        now = [job for job in self.held if self.model.holds(job.id, job.token)]
        stolen = [job for job in self.held if job not in now and self.is_processing(job.id)]
        chosen = data.draw(st.sampled_from([now, now, stolen, self.held]).filter(bool), label="among")
        return data.draw(st.sampled_from(chosen), label="job")

    def is_processing(self, job_id: str) -> bool:
        return job_id in self.model.jobs and self.model.jobs[job_id].state == "processing"

    def dead_ids(self) -> list[str]:
        return sorted(job.id for job in self.model.jobs.values() if job.state == "failed")

    def shown(self) -> dict[str, dict[str, Any]]:
        def phase(tx: Tx) -> dict[str, dict[str, Any]]:
            found = tx._execute(f"SELECT {', '.join(COLUMNS)} FROM holdfast_job", {}).fetchall()
            return {row[0]: dict(zip(COLUMNS, row, strict=True)) for row in found}

        return self.store.atomic(phase, write=False)


def settlement(job: Job, ending: str, delay_s: float) -> Settlement:
    """What a worker would write about an attempt that ended so."""
    match ending:
        case "retry":
            return failed(job, JOB_TIMEOUT(kind=job.kind, timeout_s=1), RULE, 1, blamed=False)
        case "fail":
            return failed(job, KIND_UNKNOWN(kind=job.kind), RULE, 1, blamed=False)
        case "release":
            return released(job, "the worker stops")
        case _:
            answers = {"snooze": Snooze(delay_s), "retry_in": RetryIn(delay_s), "cancel": Cancel("unwanted")}
            return answered(job, answers[ending], 1, RULE)


LONG = settings(
    deadline=None, suppress_health_check=list(HealthCheck), print_blob=True, stateful_step_count=50, max_examples=75
)


@pytest.mark.timeout(300)  # a failing example takes its time to become small
def test_the_engine_on_sqlite_does_what_the_model_says() -> None:
    run(lambda: Engine("sqlite://"), settings=LONG)


@pytest.mark.timeout(300)  # a failing example takes its time to become small
def test_the_engine_on_postgresql_does_what_the_model_says(postgres_dsn: str) -> None:
    def fresh() -> Engine:
        rows(postgres_dsn, "TRUNCATE holdfast_job, holdfast_journal, holdfast_worker, holdfast_queue")
        return Engine(postgres_dsn)

    run(fresh, settings=settings(LONG, max_examples=10))
