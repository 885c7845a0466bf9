"""Orders provisioned line by line: at once within the time that the shop waits, and by a durable job after that.

Always true: an order that was taken is answered with success only when every line is done. One that is not is also
enqueued, because the shop gives up after a few repeats and nobody else would remember it.
"""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast.base import Json
from holdfast.base.bus import report
from holdfast.catalog import Failure
from holdfast.catalog.classify import DEFAULT_CLASSIFIER
from holdfast.policy import Backoff, Retry, Spread, within
from holdfast.worker import Handlers, Job, Jobs, QueueSettings
from holdfast_systems.commerce.faults import PROVISIONING_INCOMPLETE
from holdfast_systems.commerce.provisioner.links import ControlPlane
from holdfast_systems.commerce.provisioner.orders import Line, read_order

QUEUE = "commerce.provisioning"
KIND = "commerce.provision"
AT_ONCE = 8
"""Lines of one order that are sent on at the same time."""
FOLLOW_UP_S = 60.0
"""The first try after the shop's own repeats have had their chance."""
RETRY = Retry(attempts=20, backoff=Backoff.exponential(30.0, factor=2.0, cap_s=3_600.0, jitter=Spread(0.2)))


class Provisioning:
    """Provisions orders."""

    def __init__(self, plane: ControlPlane, jobs: Jobs, *, deadline_s: float) -> None:
        """
        Args:
            deadline_s: how long the shop may be kept waiting.
        """
        self._plane = plane
        self._jobs = jobs
        self._deadline_s = deadline_s

    async def take(self, body: bytes) -> dict[str, Any]:
        """Provision every line of the order; what became of each.

        Raises:
            Failure: INVALID_REQUEST; PROVISIONING_INCOMPLETE when a line waits, with its job enqueued.
        """
        order = read_order(body)
        turns = asyncio.Semaphore(AT_ONCE)
        with within(self._deadline_s):
            told = await asyncio.gather(*(self._provisioned(line, turns) for line in order.lines))
        waiting = [(line, one) for line, one in zip(order.lines, told, strict=True) if isinstance(one, Failure)]
        if waiting:
            await self._remember(order.id, [line for line, _ in waiting])
            pending = [{"lineId": line.line_id, "code": _code(failure)} for line, failure in waiting]
            raise PROVISIONING_INCOMPLETE(orderId=order.id, pending=pending)
        return {"lines": list(told)}

    async def _provisioned(self, line: Line, turns: asyncio.Semaphore) -> dict[str, Any] | Failure:
        async with turns:
            try:
                return await self._plane.provision(line)
            except Exception as error:  # noqa: BLE001 - whatever it is, the line waits, and others are not concerned
                return DEFAULT_CLASSIFIER.classify(error)

    async def _remember(self, order_id: str, lines: list[Line]) -> None:
        payload: Json = [line.document() for line in lines]
        try:
            await self._jobs.enqueue_async(
                KIND, payload, queue=QUEUE, dedupe_key=f"saleor:{order_id}", delay_s=FOLLOW_UP_S
            )
        except Failure as failure:
            # The shop is told to send the order again in any case.
            report(failure, f"the order {order_id} could not be remembered", self._remember)

    def work(self, job: Job) -> Json:
        """Provision what is left of an order; done lines are done already.

        Raises:
            Failure: the first line that still waits; the job is tried again later.
        """
        told: list[Json] = []
        waiting: Failure | None = None
        documents: Any = job.payload
        for document in documents:
            try:
                told.append(self._plane.provision_once(Line.of(document)))
            except Failure as failure:
                waiting = waiting or failure
        if waiting is not None:
            raise waiting
        return {"lines": told}

    def handlers(self) -> Handlers:
        """The job that follows up."""
        handlers = Handlers()
        handlers.serve(QueueSettings(QUEUE, concurrency=4))
        handlers.handle(KIND, retry=RETRY)(self.work)
        return handlers


def _code(failure: Failure) -> str:
    """The control plane's own code where it refused the line, else ours."""
    return str(failure.details.get("code", failure.code))
