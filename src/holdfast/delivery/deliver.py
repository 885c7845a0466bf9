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
from holdfast.worker import Job, Jobs
from holdfast.worker.settlement import failed

DISABLING = frozenset({GONE.code, ENDPOINT_DISABLED.code})
STATUS = "status"
"""The name of the endpoint's status in the result of a delivery job."""
LINE_S = 0.5
"""While the event before is on its way, the next one looks so often whether it has ended."""
LINE_S_MIN = 0.05
LINE_S_MAX = 60.0


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
    key: str | None = None
    position: int | None = None
    status: int | None = None
    """What the endpoint answered."""
    took_s: float = 0.0


class Deliverer:
    """Makes the attempts of this process. Threads may share it."""

    def __init__(
        self,
        jobs: Jobs,
        schemes: Mapping[str, Signer],
        breaker: Breaker | None,
        rule: Retry,
        room: WaitingRoom | None = None,
    ) -> None:
        self._jobs = jobs
        self._schemes = schemes
        self._breakers = None if breaker is None else EndpointBreakers(breaker)
        self._rule = rule
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
        if task.position is not None:
            held = yield Phase(lambda tx: in_line(tx, task), write=False)
            if held is not None:
                return Snooze(held.wait_s, held.reason)
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
        if failure is not None:
            yield from self._failed(task, known, flight, failure, generation=generation)
            raise outcome.scheduled(failure, endpoint, job.attempt)
        flight.succeeded(task.took_s, endpoint.in_flight_max)
        if generation is not None:
            yield from self._tell(known, flight, code=None, generation=generation)
        if task.position is not None:
            yield Phase(lambda tx: self._finish_in_line(tx, job, task))
        return _result(task)

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
        hold_s = outcome.held_s(failure)
        if hold_s:
            flight.hold(hold_s)
        if blamed or generation is not None:
            yield from self._tell(known, flight, code=failure.code if blamed else None, generation=generation)
        return None

    def _tell(self, known: Known, flight: Flight, *, code: str | None, generation: int | None) -> Talk:
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

    def _finish_in_line(self, tx: Tx, job: Job, task: Task) -> None:
        """Finish the job and call the next of its key, in one transaction."""
        job.finish(tx, _result(task))
        tx.run("delivery.call_next", endpoint_id=task.endpoint, order_key=task.key, position=task.position)
        tx.after_commit.append(lambda: self._jobs.notifier.wake(job.queue))


def _entered(flight: Flight, most: int) -> Generator[Place, Any, float | None]:
    """Open one more request, perhaps after a moment (None); or when to come back, in seconds."""
    found = flight.enter(most)
    if not isinstance(found, Place):
        return found
    try:
        yield found
    except BaseException:
        # Whoever is cancelled while it waits may have been let in this very moment.
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


def in_line(tx: Tx, task: Task) -> Held | None:
    """Whether the event before, under the same key, has yet to end."""
    found = tx.row("delivery.before", endpoint_id=task.endpoint, order_key=task.key, position=task.position)
    if found is None:
        return None
    state, due_in_us = found
    wait_s = LINE_S if state == "processing" else due_in_us / 1_000_000 + LINE_S_MIN
    return Held(min(max(wait_s, LINE_S_MIN), LINE_S_MAX), "the event before it has not ended")


def _body(tx: Tx, task: Task) -> str:
    found = tx.row("delivery.body", tenant=task.tenant, event_id=task.event)
    if found is None:
        raise EVENT_NOT_FOUND(event_id=task.event)
    return str(found[0])
