"""The table of runs: each move is one transaction, and what has to follow it is enqueued in the same one.

Always true: one run for each key; no more runs of an instance under way than its plan allows; a move of a run that has
moved meanwhile changes nothing, and says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holdfast.base import id_floor, now_us
from holdfast.catalog import Failure
from holdfast.catalog.durable import IDEMPOTENCY_IN_PROGRESS, IDEMPOTENCY_PAYLOAD_MISMATCH
from holdfast.store import Store, Tx
from holdfast.worker import Jobs
from holdfast_systems.commerce.faults import (
    BILLING_UNAVAILABLE,
    CONCURRENT_RUNS_EXCEEDED,
    INSTANCE_PAUSED,
    RUN_INTERRUPTED,
)
from holdfast_systems.commerce.gateway.instances import Instance
from holdfast_systems.commerce.gateway.model import DONE, REPEATABLE, Billing, Run, RunState, kept, run_of, told
from holdfast_systems.commerce.model import RUN

QUEUE = "commerce.gateway"
SETTLE, RELEASE, SWEEP = "commerce.run.settle", "commerce.run.release", "commerce.run.sweep"
DEFERRED_GATE = "deferred"
WAIT_S = 1.0
"""When to ask again for a run that is under way, or for a place."""
SETTLE_LOOK_S = 600.0
"""When the sweep looks again at a run that a job is to settle."""
SECOND_US = 1_000_000


class RunLost(Exception):
    """The run has moved meanwhile: another process took it for dead, and ended it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """A run that is asked for."""

    id: str
    key: str
    user_id: str
    input: str
    input_hash: str
    instance: Instance
    lease_s: float


class Runs:
    """Moves runs. Threads may share it."""

    def __init__(self, store: Store, jobs: Jobs, *, deferred_max: int) -> None:
        """
        Args:
            deferred_max: how many runs may be under way at once that are billed later.
        """
        self._store = store
        self._jobs = jobs
        self._deferred_max = deferred_max

    def begin(self, new: NewRun) -> tuple[Run, bool]:
        """The run of this key, and whether it is for the caller to execute.

        Raises:
            Failure: IDEMPOTENCY_PAYLOAD_MISMATCH, IDEMPOTENCY_IN_PROGRESS, INSTANCE_PAUSED,
                CONCURRENT_RUNS_EXCEEDED; what an interrupted run has ended with.
        """
        return self._store.atomic(lambda tx: self._begin(tx, new), repeatable=True)

    def _begin(self, tx: Tx, new: NewRun) -> tuple[Run, bool]:
        tx.row("gateway.lock_instance", id=new.instance.id)
        found = _one(tx, "gateway.by_key", key=new.key)
        if found is not None and found.id == new.id:
            return found, True  # the reply to the commit was lost
        if found is not None and found.input_hash != new.input_hash:
            raise IDEMPOTENCY_PAYLOAD_MISMATCH()
        if found is not None and found.overdue and found.state is not RunState.ANSWERED:
            found = self._recover(tx, found)
        if found is not None and found.state in DONE:
            return found, False
        if found is not None and found.state is RunState.INTERRUPTED:
            raise told(found.failure or "")
        if found is not None and found.state not in REPEATABLE:
            raise IDEMPOTENCY_IN_PROGRESS(retry_after_s=WAIT_S)
        self._admit(tx, new.instance)
        lease = {"budget": new.instance.run_budget, "lease_us": round(new.lease_s * SECOND_US)}
        if found is None:
            tx.run(
                "gateway.begin",
                id=new.id,
                key=new.key,
                tenant=new.instance.tenant,
                instance_id=new.instance.id,
                user_id=new.user_id,
                input=new.input,
                input_hash=new.input_hash,
                **lease,
            )
        elif tx.run("gateway.retry", id=found.id, attempt=found.attempt, **lease) != 1:
            raise IDEMPOTENCY_IN_PROGRESS(retry_after_s=WAIT_S)
        begun = _one(tx, "gateway.by_key", key=new.key)
        assert begun is not None
        return begun, True

    def _admit(self, tx: Tx, instance: Instance) -> None:
        if instance.paused:
            raise INSTANCE_PAUSED(instanceId=instance.id)
        found = tx.row("gateway.under_way", instance_id=instance.id)
        assert found is not None
        if found[0] >= instance.concurrent_runs:
            raise CONCURRENT_RUNS_EXCEEDED(retry_after_s=WAIT_S, instanceId=instance.id, limit=instance.concurrent_runs)

    def start(self, run: Run, *, reservation_id: str, budget: int) -> Run:
        """The credits are reserved: from here on the run may have done something.

        Raises:
            RunLost: it was taken for dead meanwhile.
        """
        facts: dict[str, Any] = {"billing": Billing.RESERVED, "reservation_id": reservation_id, "budget": budget}
        return self._moved(run, "start", RunState.RUNNING, **facts)

    def defer(self, run: Run) -> Run:
        """Run it now and bill it later, if few enough do.

        Raises:
            Failure: BILLING_UNAVAILABLE where too many runs are billed later.
            RunLost: it was taken for dead meanwhile.
        """

        def phase(tx: Tx) -> Run:
            tx.run("gateway.open_gate", name=DEFERRED_GATE)
            tx.row("gateway.lock_gate", name=DEFERRED_GATE)
            current = _one(tx, "gateway.lock_run", id=run.id)
            if current is not None and current.attempt == run.attempt and current.state is RunState.RUNNING:
                return current  # the reply to the commit was lost
            found = tx.row("gateway.deferred")
            assert found is not None
            if found[0] >= self._deferred_max:
                raise BILLING_UNAVAILABLE(retry_after_s=WAIT_S, instanceId=run.instance_id, reason="trial_runs_at_once")
            moved = {"billing": Billing.DEFERRED, "reservation_id": None, "budget": run.budget}
            return _move(tx, run, "start", RunState.RUNNING, **moved)

        return self._store.atomic(phase, repeatable=True)

    def refuse(self, run: Run, failure: Failure) -> None:
        """The control plane did not allow the run; nothing is reserved."""
        self._moved(run, "refuse", RunState.REFUSED, failure=kept(failure))

    def fail(self, run: Run, failure: Failure, *, release: bool) -> None:
        """The run did no work.

        Args:
            release: credits are reserved for it, or may be.
        """
        self._moved(run, "fail", RunState.FAILED, release=release, failure=kept(failure))

    def interrupt(self, run: Run, failure: Failure) -> None:
        """The run may have done some work, and has no answer: nothing is charged, and it is never run again."""
        self._moved(run, "interrupt", RunState.INTERRUPTED, release=True, failure=kept(failure))

    def answer(self, run: Run, *, output: str, credits: int, lease_s: float) -> Run:
        """The run has its answer; what it costs is settled next, by this process or by a job after the lease.

        Raises:
            RunLost: it was taken for dead meanwhile.
        """
        lease_us = round(lease_s * SECOND_US)
        return self._moved(run, "answer", RunState.ANSWERED, output=output, credits=credits, lease_us=lease_us)

    def settle(self, run: Run, *, reservation_id: str, charged: int, ledger_entry_id: str) -> Run:
        """The charge stands in the ledger."""
        return self._moved(
            run,
            "settle",
            RunState.SETTLED,
            reservation_id=reservation_id,
            charged=charged,
            ledger_entry_id=ledger_entry_id,
        )

    def write_off(self, run: Run, failure: Failure) -> Run:
        """The run has its answer, and cannot be charged."""
        return self._moved(run, "write_off", RunState.WRITTEN_OFF, failure=kept(failure))

    def settle_later(self, run: Run) -> None:
        """Leave the charge to a job."""
        self._store.atomic(lambda tx: self._settle_later(tx, run), repeatable=True)

    def find(self, run_id: str) -> Run | None:
        """The run of this id."""
        return self._store.atomic(lambda tx: _one(tx, "gateway.by_id", id=run_id), write=False)

    def page(self, tenant: str, instance_id: str, *, before: str | None, count: int) -> list[dict[str, Any]]:
        """Runs of an instance, newest first."""
        asked = {"tenant": tenant, "instance_id": instance_id, "before": before, "count": count}
        return self._store.atomic(lambda tx: tx.records("gateway.page", **asked), write=False)

    def overdue(self, count: int) -> list[str]:
        """Runs whose process is taken for dead, those that wait longest first."""
        return [row[0] for row in self._store.atomic(lambda tx: tx.rows("gateway.overdue", count=count), write=False)]

    def prune(self, *, older_than_s: float, count: int) -> int:
        """Forget ended runs begun this long ago, at most `count`; returns how many. The ledger keeps their charges."""
        floor = f"{RUN}_{id_floor(now_us() - round(older_than_s * SECOND_US)).replace('-', '')}"
        return self._store.atomic(lambda tx: tx.run("gateway.prune", floor=floor, count=count), repeatable=True)

    def recover(self, run_id: str) -> Run | None:
        """End a run whose process is taken for dead, or leave its charge to a job; None if there was nothing to do."""

        def phase(tx: Tx) -> Run | None:
            run = _one(tx, "gateway.lock_run", id=run_id)
            return None if run is None or not run.overdue else self._recover(tx, run)

        return self._store.atomic(phase, repeatable=True)

    def _recover(self, tx: Tx, run: Run) -> Run:
        match run.state:
            case RunState.AUTHORIZING:
                self._release_later(tx, run)
                failure = kept(RUN_INTERRUPTED(runId=run.id, mayHaveRun=False))
                return _move(tx, run, "fail", RunState.FAILED, failure=failure)
            case RunState.RUNNING:
                self._release_later(tx, run)
                failure = kept(RUN_INTERRUPTED(runId=run.id, mayHaveRun=True))
                return _move(tx, run, "interrupt", RunState.INTERRUPTED, failure=failure)
            case _:
                self._settle_later(tx, run)
                return run

    def _settle_later(self, tx: Tx, run: Run) -> None:
        tx.run("gateway.postpone", id=run.id, attempt=run.attempt, lease_us=round(SETTLE_LOOK_S * SECOND_US))
        self._jobs.enqueue(
            SETTLE, {"runId": run.id}, queue=QUEUE, dedupe_key=f"settle:{run.id}", tenant=run.tenant, tx=tx
        )

    def _release_later(self, tx: Tx, run: Run) -> None:
        asked = {"instanceId": run.instance_id, "requestedBudget": run.budget, "runId": run.billing_id}
        self._jobs.enqueue(
            RELEASE,
            {"authorize": asked, "tenant": run.tenant, "reservationId": run.reservation_id},
            queue=QUEUE,
            dedupe_key=f"release:{run.billing_id}",
            tenant=run.tenant,
            tx=tx,
        )

    def _moved(self, run: Run, verb: str, target: RunState, *, release: bool = False, **facts: Any) -> Run:
        def phase(tx: Tx) -> Run:
            moved = _move(tx, run, verb, target, **facts)
            if release:
                self._release_later(tx, moved)
            return moved

        return self._store.atomic(phase, repeatable=True)


def _move(tx: Tx, run: Run, verb: str, target: RunState, **facts: Any) -> Run:
    changed = tx.run(f"gateway.{verb}", id=run.id, attempt=run.attempt, **facts)
    current = _one(tx, "gateway.by_id", id=run.id)
    # Zero rows where the run stands where it should: the reply to the commit of this very move was lost.
    if current is None or current.attempt != run.attempt or (changed != 1 and current.state is not target):
        raise RunLost(run.id)
    return current


def _one(tx: Tx, name: str, **asked: Any) -> Run | None:
    found = tx.records(name, **asked)
    return run_of(found[0]) if found else None
