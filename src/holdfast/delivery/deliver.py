"""Bringing one event to one endpoint: the handler of the delivery jobs.

It is written as a conversation: it yields what is to be done (a phase of a transaction, or a request) and is handed
what came of it. So the same text serves a `Send` that blocks and one that is a coroutine function. On its usual way it
asks the database nothing: the body came with the job, and the endpoint was read a moment ago.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from holdfast.base import bus, monotonic_s, now_us
from holdfast.catalog import Failure, Fault, current_context
from holdfast.catalog.core import GONE
from holdfast.delivery import outcome
from holdfast.delivery.admission import Admitted, EndpointBreakers, Held, take_pace
from holdfast.delivery.endpoints import disable_endpoint
from holdfast.delivery.envelope import wrapped
from holdfast.delivery.exchange import Outgoing, Reply
from holdfast.delivery.faults import ENDPOINT_DISABLED, ENDPOINT_NOT_FOUND, EVENT_NOT_FOUND, NO_SECRET
from holdfast.delivery.flight import Flight, Flights
from holdfast.delivery.known import TRACE, Known, KnownEndpoints, look
from holdfast.delivery.place import Place, WaitingRoom
from holdfast.delivery.signing import SecretInvalid, Signer
from holdfast.lifecycle import Snooze
from holdfast.policy import Breaker, Retry
from holdfast.store import Tx
from holdfast.worker import Job
from holdfast.worker.settlement import failed

DISABLING = frozenset({GONE.code, ENDPOINT_DISABLED.code})
LIMITED_WITHIN_S = 86_400.0
"""Time after its first attempt at which an event that meets nothing but 429 is given up."""
STATUS = "status"
"""The name of the endpoint's status in the result of a delivery job."""


@dataclass(frozen=True, slots=True)
class Phase:
    """A unit of work on the store."""

    work: Callable[[Tx], Any]
    write: bool = True


Result = dict[str, int]
"""What is kept of a delivery that came through: the endpoint's status."""
Talk = Generator[Phase | Outgoing | Place, Any, Snooze | Result | None]


@dataclass(slots=True)
class Task:
    """What a delivery job is about, and how far this attempt has come."""

    event: str
    type: str
    endpoint: str
    tenant: str = ""
    body: str | None = None
    occurred_us: int | None = None
    status: int | None = None
    """What the endpoint answered."""
    took_s: float = 0.0


class Deliverer:
    """Makes the attempts of this process. Threads may share it."""

    def __init__(
        self,
        schemes: Mapping[str, Signer],
        breaker: Breaker | None,
        rule: Retry,
        room: WaitingRoom | None = None,
        *,
        limited_within_s: float = LIMITED_WITHIN_S,
    ) -> None:
        self._schemes = schemes
        self._breakers = None if breaker is None else EndpointBreakers(breaker)
        self._rule = rule
        self._limited_within_s = limited_within_s
        self._known = KnownEndpoints()
        self._flights = Flights(room)

    def deliver(self, job: Job) -> Talk:
        """One attempt.

        Raises:
            Failure: what the attempt failed with, and when the next one is due.
        """
        task = Task(**json.loads(job.text), tenant=job.tenant)
        try:
            result = yield from self._attempt(job, task)
        except Failure as failure:
            if bus.listeners:
                self._tell_bus(job, task, self._outcome(job, failure), failure.fault)
            raise
        if bus.listeners and not isinstance(result, Snooze):
            self._tell_bus(job, task, "delivered", None)
        return result

    def _attempt(self, job: Job, task: Task) -> Talk:
        known = self._known.get(task.endpoint)
        # What is final is not decided by what was true a moment ago: somebody may have enabled it and replayed.
        if known is None or not known.endpoint.enabled:
            known = yield from self._look(task.endpoint)
        endpoint = known.endpoint
        if not endpoint.enabled:
            raise ENDPOINT_DISABLED(endpoint_id=endpoint.id, reason=endpoint.disabled_reason)
        flight = self._flights.of(endpoint.id)
        wait_s = yield from _entered(flight, endpoint.in_flight_max)
        if wait_s is not None:
            return Snooze(wait_s, "the endpoint has as many requests open as it may")
        try:
            return (yield from self._admitted(job, task, known, flight))
        finally:
            flight.leave()

    def _look(self, endpoint_id: str) -> Generator[Phase, Any, Known]:
        try:
            known: Known = yield Phase(lambda tx: look(tx, endpoint_id, self._schemes), write=False)
        except Failure as failure:
            if failure.code == ENDPOINT_NOT_FOUND.code:
                self._known.forget(endpoint_id)  # or the others would go on with what was
            raise
        return self._known.keep(known)

    def _admitted(self, job: Job, task: Task, known: Known, flight: Flight) -> Talk:
        """Ask the shared limits where there are any, then send."""
        endpoint = known.endpoint
        admitted: Admitted | Held | None = None
        if endpoint.rate_limit is not None:
            admitted = yield Phase(lambda tx: take_pace(tx, endpoint))
        breakers = self._breakers
        if admitted is None and breakers is not None and not known.closed:
            admitted = yield Phase(lambda tx: breakers.admit(tx, endpoint.id))
        if isinstance(admitted, Held):
            return Snooze(flight.come_back_s(admitted.wait_s, endpoint.in_flight_max), admitted.reason)
        generation = None if admitted is None else admitted.generation
        if task.body is None:
            task.body = yield Phase(lambda tx: _body(tx, task), write=False)
        request = _request(task, known)
        started_s = monotonic_s()
        try:
            reply: Reply = yield request
            task.status = reply.status
            failure = outcome.read_reply(reply)
        except Exception as error:  # noqa: BLE001 - here an attempt is settled: whatever it was, there is no reply
            failure = outcome.read_error(error)
        task.took_s = monotonic_s() - started_s
        if failure is not None and outcome.is_limit(failure):
            raise (yield from self._limited(job, task, known, flight, failure, generation=generation))
        if failure is not None:
            yield from self._failed(task, known, flight, failure, generation=generation)
            raise outcome.scheduled(failure, endpoint, job.attempt)
        flight.succeeded(task.took_s, endpoint.in_flight_max)
        if generation is not None:
            yield from self._tell(known, flight, code=None, generation=generation)
        return _result(task)

    def _limited(
        self, job: Job, task: Task, known: Known, flight: Flight, failure: Failure, *, generation: int | None
    ) -> Generator[Phase, Any, Failure]:
        """The endpoint works, and takes no more at the moment: the event waits for its turn, and spends no attempt."""
        endpoint = known.endpoint
        pause_s = min(outcome.asked_s(failure), endpoint.retry_after_max_s)
        turn_s = flight.limited(task.took_s, endpoint.in_flight_max, pause_s)
        if generation is not None:
            yield from self._tell(known, flight, code=None, generation=generation)
        count = job.failures_with(failure.code) + 1
        return outcome.limited(failure, endpoint, count, turn_s=turn_s, within_s=self._limited_within_s)

    def _failed(self, task: Task, known: Known, flight: Flight, failure: Failure, *, generation: int | None) -> Talk:
        endpoint = known.endpoint
        blamed = Breaker.blames(failure)
        if blamed:
            flight.failed(task.took_s, endpoint.in_flight_max)
        else:
            flight.answered(task.took_s, endpoint.in_flight_max)
        if failure.code == GONE.code:
            yield Phase(lambda tx: disable_endpoint(tx, endpoint.id, f"it answered 410 to the event {task.event}"))
            self._known.forget(endpoint.id)
        hold_s = outcome.asked_s(failure)
        if hold_s:
            flight.hold(hold_s)
        if blamed or generation is not None:
            yield from self._tell(known, flight, code=failure.code if blamed else None, generation=generation)
        return None

    def _tell(
        self, known: Known, flight: Flight, *, code: str | None, generation: int | None
    ) -> Generator[Phase, Any, None]:
        """Tell the shared breaker; the outcome of the attempt stands, whether that works or not."""
        breakers = self._breakers
        if breakers is None:
            return None
        quiet_calls, flight.quiet_calls = flight.quiet_calls, 0
        facts: dict[str, Any] = {"code": code, "quiet_calls": quiet_calls, "generation": generation}
        with suppress(Failure):
            yield Phase(lambda tx: breakers.tell(tx, known.endpoint.id, **facts))
        if code is not None or generation is not None:
            self._known.forget(known.endpoint.id)
        return None

    def _outcome(self, job: Job, failure: Failure) -> str:
        """What the failure makes of the delivery, by the rule by which the worker settles it."""
        if failure.code in DISABLING:
            return "disabled"
        return "retried" if failed(job, failure, self._rule, None, blamed=False).verb == "retry" else "dead"

    @staticmethod
    def _tell_bus(job: Job, task: Task, outcome: str, fault: Fault | None) -> None:
        bus.tell(
            "delivery.attempted",
            endpoint=task.endpoint,
            event_id=task.event,
            event_type=task.type,
            attempt=job.attempt,
            status=task.status,
            outcome=outcome,
            duration_s=task.took_s,
            **({"code": None} if fault is None else fault.facts),
        )


def _entered(flight: Flight, most: int) -> Generator[Place, Any, float | None]:
    """Open one more request, perhaps after a moment (None); or when to come back, in seconds."""
    found = flight.enter(most)
    if not isinstance(found, Place):
        return found
    try:
        yield found
    except BaseException:
        # A delivery that is cancelled while it waits may have been let in at that very moment.
        if flight.waited(found) is None:
            flight.leave()
        raise
    return flight.waited(found)


def _result(task: Task) -> Result | None:
    return None if task.status is None else {STATUS: task.status}


def _request(task: Task, known: Known) -> Outgoing:
    endpoint = known.endpoint
    body = wrapped(task.type, task.occurred_us, task.body or "").encode()
    try:
        if known.sign is None:
            raise SecretInvalid("there is no such scheme, or no secret for it")
        signed = known.sign(body, task.event, now_us())
    except ValueError as wrong:
        raise NO_SECRET(endpoint_id=endpoint.id) from wrong
    headers = known.headers + signed
    trace = current_context().traceparent
    if trace and known.traced:
        headers += ((TRACE, trace),)
    return Outgoing(url=endpoint.url, headers=headers, body=body, timeout_s=endpoint.timeout_s)


def _body(tx: Tx, task: Task) -> str:
    found = tx.row("delivery.body", tenant=task.tenant, event_id=task.event)
    if found is None:
        raise EVENT_NOT_FOUND(event_id=task.event)
    return str(found[0])
