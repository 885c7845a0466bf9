"""What ends a run that its own process could not end: durable jobs for charges and releases, and the sweep.

Always true: a charge is made by `settle` under its reservation, so however often a job runs there is one; while the
control plane is away nothing is given up.
"""

from __future__ import annotations

import logging

from holdfast.catalog import Failure
from holdfast.lifecycle import Snooze
from holdfast.policy import Backoff, Retry, Spread
from holdfast.worker import Handlers, Job, QueueSettings
from holdfast_systems.commerce.faults import BILLING_UNAVAILABLE
from holdfast_systems.commerce.gateway.control_plane import PASSED_ON, ControlPlane
from holdfast_systems.commerce.gateway.model import Run, RunState
from holdfast_systems.commerce.gateway.runs import QUEUE, RELEASE, SETTLE, SWEEP, Runs

SWEEP_QUEUE = "commerce.gateway.sweep"
SWEPT_MAX = 200
"""Runs that one sweep looks at; the next one takes the rest."""
PRUNED_MAX = 1_000
CONCURRENCY = 4
AWAY_S = 5.0
"""How long a job waits while the control plane is away; no attempt is spent."""
RETRY = Retry(attempts=50, attempts_unknown=50, backoff=Backoff.exponential(1.0, cap_s=300.0, jitter=Spread(0.2)))

_log = logging.getLogger("holdfast.commerce")


class Reconciliation:
    """The jobs of the gateway."""

    def __init__(self, runs: Runs, control_plane: ControlPlane, *, kept_s: float) -> None:
        """
        Args:
            kept_s: how long ended runs are kept.
        """
        self._runs = runs
        self._kept_s = kept_s
        self._control_plane = control_plane

    def handlers(self, *, sweep_every_s: float) -> Handlers:
        """The jobs, and the clock that sweeps."""
        handlers = Handlers()
        handlers.serve(QueueSettings(QUEUE, concurrency=CONCURRENCY))
        # A queue of its own: charges that wait for the control plane must not keep the sweep waiting.
        handlers.serve(QueueSettings(SWEEP_QUEUE, concurrency=1))
        handlers.handle(SETTLE, retry=RETRY)(self.settle)
        handlers.handle(RELEASE, retry=RETRY)(self.release)
        handlers.handle(SWEEP, retry=RETRY)(self.sweep)
        handlers.enqueue_by_clock(SWEEP, every_s=sweep_every_s, kind=SWEEP, queue=SWEEP_QUEUE)
        return handlers

    def settle(self, job: Job) -> Snooze | None:
        """Charge a run that has its answer; one that ran unbilled is authorized first."""
        payload = job.payload
        assert isinstance(payload, dict)
        run = self._runs.find(str(payload["runId"]))
        if run is None or run.state is not RunState.ANSWERED:
            return None
        try:
            self._settle(run)
        except Failure as failure:
            if failure.code == BILLING_UNAVAILABLE.code:
                return Snooze(AWAY_S, reason="the control plane is away")
            if failure.code not in PASSED_ON:
                raise
            self._runs.write_off(run, failure)
            _log.warning("run %s cannot be charged and is written off (%s)", run.id, failure.code)
        return None

    def _settle(self, run: Run) -> None:
        reservation_id = run.reservation_id
        if reservation_id is None:
            answer = self._control_plane.ask_now(self._control_plane.authorize(run))
            if isinstance(answer, Failure):
                raise answer
            reservation_id = answer.reservation_id
        settled = self._control_plane.ask_now(self._control_plane.settle(reservation_id, run.credits or 0, run.tenant))
        self._runs.settle(
            run,
            reservation_id=reservation_id,
            charged=settled.charged,
            ledger_entry_id=settled.ledger_entry_id,
        )

    def release(self, job: Job) -> Snooze | None:
        """Give back what is reserved for an attempt that ended without an answer.

        Where the reply to its authorization was lost, the same request is repeated first to learn its reservation.
        """
        payload = job.payload
        assert isinstance(payload, dict)
        assert isinstance(payload["authorize"], dict)
        tenant, reservation_id = str(payload["tenant"]), payload["reservationId"]
        try:
            if reservation_id is None:
                answer = self._control_plane.ask_now(self._control_plane.authorize_as(payload["authorize"], tenant))
                if isinstance(answer, Failure):
                    return None
                reservation_id = answer.reservation_id
            self._control_plane.ask_now(self._control_plane.release(str(reservation_id), tenant))
        except Failure as failure:
            if failure.code == BILLING_UNAVAILABLE.code:
                return Snooze(AWAY_S, reason="the control plane is away")
            if failure.code not in PASSED_ON:
                raise
        return None

    def sweep(self, job: Job) -> None:  # noqa: ARG002 - the clock says nothing more
        """End the runs whose process is taken for dead, and forget those that ended long ago."""
        for run_id in self._runs.overdue(SWEPT_MAX):
            ended = self._runs.recover(run_id)
            if ended is not None:
                _log.warning("the process of run %s died; the run is %s", run_id, ended.state.value)
        self._runs.prune(older_than_s=self._kept_s, count=PRUNED_MAX)
