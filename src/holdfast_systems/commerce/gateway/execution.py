"""A run from its authorization to its charge: authorize → run → settle.

Always true: the runner is called only for a run whose start is on disk; an answer is told only after it is on disk; a
charge that could not be made while the caller waits is made by a job. Who asked may go away: the run goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from holdfast.catalog import Failure
from holdfast.http.aside import aside
from holdfast.policy.deadline import without_deadline
from holdfast_systems.commerce.faults import BILLING_UNAVAILABLE, RUN_INTERRUPTED
from holdfast_systems.commerce.gateway.control_plane import PASSED_ON, ControlPlane
from holdfast_systems.commerce.gateway.instances import Instance
from holdfast_systems.commerce.gateway.links import AUTHORIZE_S, SETTLE_S
from holdfast_systems.commerce.gateway.model import Billing, Run, answer_of
from holdfast_systems.commerce.gateway.runner_client import Answer, RunnerClient, TellDelta
from holdfast_systems.commerce.gateway.runs import RunLost, Runs

T = TypeVar("T")

MARGIN_S = 10.0
"""Time after the last time limit of a run at which its process is taken for dead."""


def lease_s(instance: Instance) -> float:
    """How long a run of this instance may take before its process is taken for dead."""
    return AUTHORIZE_S + instance.run_timeout_s + MARGIN_S


class Executor:
    """Executes runs, each in a task of its own."""

    def __init__(self, runs: Runs, control_plane: ControlPlane, runner: RunnerClient) -> None:
        self._runs = runs
        self._control_plane = control_plane
        self._runner = runner
        self._tasks: set[asyncio.Task[dict[str, Any]]] = set()

    def begin(self, run: Run, instance: Instance, tell: TellDelta | None = None) -> asyncio.Task[dict[str, Any]]:
        """Start the run; the result is what its caller is told. The task goes on when nobody waits for it."""
        task = asyncio.create_task(self._execute(run, instance, tell), name=f"commerce-{run.id}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[dict[str, Any]]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # it is in the row; nobody may be left to hear it

    async def _execute(self, run: Run, instance: Instance, tell: TellDelta | None) -> dict[str, Any]:
        # The run has time limits of its own: a caller that is in a hurry does not cut it short.
        with without_deadline():
            try:
                run = await self._authorize(run, instance)
                answer = await self._run(run, instance, tell)
                return await self._settle(run, answer)
            except RunLost as lost:
                raise RUN_INTERRUPTED(runId=run.id, mayHaveRun=True) from lost

    async def _authorize(self, run: Run, instance: Instance) -> Run:
        try:
            answer = await self._control_plane.ask(self._control_plane.authorize(run))
        except Failure as failure:
            if failure.code == BILLING_UNAVAILABLE.code and instance.soft_fail:
                return await self._defer(run)
            if failure.code in PASSED_ON:
                await aside(partial(self._runs.refuse, run, failure))
            else:
                # The control plane may have reserved the credits and only its reply was lost.
                await aside(partial(self._runs.fail, run, failure, release=True))
            raise
        if isinstance(answer, Failure):
            await aside(partial(self._runs.refuse, run, answer))
            raise answer
        start = partial(self._runs.start, run, reservation_id=answer.reservation_id, budget=answer.budget)
        return await aside(start)

    async def _defer(self, run: Run) -> Run:
        try:
            return await aside(partial(self._runs.defer, run))
        except Failure as failure:
            await aside(partial(self._runs.fail, run, failure, release=True))
            raise

    async def _run(self, run: Run, instance: Instance, tell: TellDelta | None) -> Answer:
        try:
            return await self._runner.run(run, instance, tell)
        except Failure as failure:
            if failure.details.get("mayHaveRun"):
                await aside(partial(self._runs.interrupt, run, failure))
            else:
                await aside(partial(self._runs.fail, run, failure, release=True))
            raise

    async def _settle(self, run: Run, answer: Answer) -> dict[str, Any]:
        credits = min(answer.credits, run.budget)
        keep = partial(self._runs.answer, run, output=answer.output, credits=credits, lease_s=SETTLE_S + MARGIN_S)
        answered = await aside(keep)
        try:
            settled = await self._charge(answered)
        except (Failure, RunLost):
            await self._quietly(partial(self._runs.settle_later, answered))
            return answer_of(answered)
        return answer_of(settled)

    async def _charge(self, run: Run) -> Run:
        if run.billing is Billing.DEFERRED or run.reservation_id is None:
            await aside(partial(self._runs.settle_later, run))
            return run
        settled = await self._control_plane.ask(
            self._control_plane.settle(run.reservation_id, run.credits or 0, run.tenant)
        )
        keep = partial(
            self._runs.settle,
            run,
            reservation_id=run.reservation_id,
            charged=settled.charged,
            ledger_entry_id=settled.ledger_entry_id,
        )
        return await aside(keep)

    async def _quietly(self, work: Callable[[], None]) -> None:
        """Where this fails too, the sweep finds the run when its lease has passed."""
        try:
            await aside(work)
        except Failure:
            return


async def shielded(task: Awaitable[T]) -> T:
    """The task's result; who waits may be cancelled, and the task goes on."""
    return await asyncio.shield(asyncio.ensure_future(task))
