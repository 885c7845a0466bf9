"""The gate before a call: breaker, limits, budget and deadline are asked here, and told how it ended."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from holdfast.base.bus import bus
from holdfast.base.world import monotonic_s
from holdfast.catalog.context import current_context
from holdfast.catalog.core import BREAKER_OPEN, CONCURRENCY_EXCEEDED, DEADLINE_EXCEEDED, RATE_LIMIT_EXCEEDED
from holdfast.catalog.failure import Failure
from holdfast.guard.stamp import Stamp, refused
from holdfast.guard.telling import REJECTED, breaker_told, tell
from holdfast.lifecycle import Stop

if TYPE_CHECKING:
    from holdfast.base.world import World
    from holdfast.catalog.fault import Fault
    from holdfast.guard.events import Listener
    from holdfast.guard.recovery import Recovery
    from holdfast.policy.breaker import Breaker
    from holdfast.policy.budget import Budget, Purse
    from holdfast.policy.circuit import Circuit
    from holdfast.policy.rate_limit import Bucket, Concurrency, RateLimit, Slots

_REASONS = {
    BREAKER_OPEN.code: Stop.BREAKER_OPEN,
    RATE_LIMIT_EXCEEDED.code: Stop.LIMIT_REACHED,
    CONCURRENCY_EXCEEDED.code: Stop.LIMIT_REACHED,
    DEADLINE_EXCEEDED.code: Stop.DEADLINE_TOO_NEAR,
}


class Crowded(Failure):
    """Too many calls that ran out of time are still running; the callee was not asked."""


class Shut(Failure):
    """The breaker is open. An outage makes many of these, so all of them share what they can."""

    __slots__ = ("asked_s", "dated_us", "here")

    asked_s: float
    dated_us: int
    here: World
    fault = BREAKER_OPEN
    code = BREAKER_OPEN.code
    _message = None
    remote = None
    _copied_as = Failure
    __init__ = Exception.__init__  # in C: all that is to be set is set by the gate

    @property
    def at_us(self) -> int:
        """When it occurred; few ask, so the clock that counted the pause is made into a date only then."""
        if not hasattr(self, "dated_us"):
            passed_s = self.here.monotonic_s() - self.asked_s
            self.dated_us = self.here.wall_us() - round(passed_s * 1_000_000)
        return self.dated_us

    @at_us.setter
    def at_us(self, at_us: int) -> None:
        self.dated_us = at_us


class Gate:
    """What one link remembers in this process between its calls."""

    __slots__ = ("_names", "_open", "bucket", "circuit", "link", "listeners", "purse", "slots")

    def __init__(
        self,
        link: str,
        listeners: list[Listener],
        *,
        breaker: Breaker | None,
        rate: RateLimit | None,
        concurrency: Concurrency | None,
        budget: Budget | None,
    ) -> None:
        self.link = link
        self.listeners = listeners
        self.circuit = None if breaker is None else _circuit(breaker, link)
        self.bucket = None if rate is None else _bucket(rate)
        self.slots = None if concurrency is None else _slots(concurrency)
        self.purse = None if budget is None else _purse(budget)
        self._names = MappingProxyType({"link": link})
        self._open = Stamp(link, BREAKER_OPEN.code, 0, Stop.BREAKER_OPEN, 0)

    @property
    def narrow(self) -> bool:
        """Whether entering takes more than a look at the breaker and a call for the budget."""
        return self.bucket is not None or self.slots is not None

    def admit(self, deadline_at_s: float | None, recovery: Recovery | None, failed: Exception | None) -> int | None:
        """Let an attempt through, with the breaker's ticket when there is a breaker.

        Raises:
            Failure: a first attempt is refused; the failure carries the time to wait.
            Exception: a later attempt is refused: what the earlier one raised, stamped with the reason.
        """
        entered = self._enter(deadline_at_s, first=recovery is None)
        if not isinstance(entered, Failure):
            return entered
        try:
            if recovery is None or failed is None:
                raise self._rejected(entered)
            recovery.give_up(failed, _REASONS[entered.code], attempted=False)
            raise failed
        finally:
            # The exception's traceback holds this frame: without this the two would keep each other alive.
            entered = failed = None

    def shut(self, left_s: float, now_s: float, here: World) -> Shut:
        """The refusal of a breaker that stays open for `left_s` more seconds."""
        refusal: Shut = Shut()
        refusal.retry_after_s = left_s
        refusal.details = self._names
        refusal.context = current_context()
        refusal.__holdfast__ = self._open
        refusal.asked_s = now_s
        refusal.here = here
        if self.listeners or bus.listeners:
            self._tell_rejected(refusal, Stop.BREAKER_OPEN)
        return refusal

    def _rejected(self, refusal: Failure) -> Failure:
        reason = _REASONS[refusal.fault.code]
        refused(refusal, self.link, reason)
        if self.listeners or bus.listeners:
            self._tell_rejected(refusal, reason)
        return refusal

    def _tell_rejected(self, refusal: Failure, reason: Stop) -> None:
        tell(self.listeners, REJECTED, self.link, 0, fault=refusal.fault, failure=refusal, reason=reason)

    def _enter(self, deadline_at_s: float | None, *, first: bool) -> int | Failure | None:
        """The ticket, or the refusal; a refusal is returned because raising it more than once is slow."""
        if deadline_at_s is not None:
            left_s = deadline_at_s - monotonic_s()
            if left_s <= 0:
                return DEADLINE_EXCEEDED(link=self.link, left_s=round(left_s, 3))
        ticket = None
        if self.circuit is not None and (ticket := self.circuit.ticket) is None:
            answer = self.circuit.admit(monotonic_s())
            if not isinstance(answer, int):
                return BREAKER_OPEN(link=self.link, retry_after_s=answer.retry_after_s)
            ticket = answer
        refusal = self._full()
        if refusal is not None:
            self.forget(ticket)
            return refusal
        if first and self.purse is not None:
            self.purse.calls += 1
        return ticket

    def _full(self) -> Failure | None:
        """Take a place under both limits, or say which of them has none."""
        if self.slots is not None:
            busy = self.slots.enter()
            if busy is not None:
                facts = self.slots.concurrency.details(busy)
                return CONCURRENCY_EXCEEDED(link=self.link, retry_after_s=busy.retry_after_s, **facts)
        if self.bucket is not None:
            full = self.bucket.take()
            if full is not None:
                self.leave()
                facts = self.bucket.limit.details(full)
                return RATE_LIMIT_EXCEEDED(link=self.link, retry_after_s=full.retry_after_s, **facts)
        return None

    def leave(self) -> None:
        """Give the place back, however the call ended."""
        if self.slots is not None:
            self.slots.leave()

    def report(self, fault: Fault, ticket: int | None) -> None:
        """Tell the breaker about a failed call; a refusal that is the caller's fault counts as an answer."""
        if self.circuit is None:
            return
        if self.circuit.breaker.blames_kind(fault):
            self.circuit.fail(monotonic_s(), ticket)
        else:
            self.circuit.succeed(monotonic_s(), ticket)

    def forget(self, ticket: int | None) -> None:
        """The callee was never asked, or nothing is known of its answer."""
        if self.circuit is not None:
            self.circuit.release(ticket)

    def abandon(self, ticket: int | None) -> None:
        """The call was cancelled: nothing is known about the callee, and the place is free again."""
        self.forget(ticket)
        self.leave()

    def affords_retry(self) -> bool:
        """Whether the budget has a retry left; it is spent by asking."""
        return self.purse is None or self.purse.withdraw(monotonic_s())


# Few links have these: their modules are loaded by the first that does.


def _circuit(breaker: Breaker, link: str) -> Circuit:
    from holdfast.policy.circuit import Circuit

    return Circuit(breaker, breaker_told(link))


def _bucket(rate: RateLimit) -> Bucket:
    from holdfast.policy.rate_limit import Bucket

    return Bucket(rate)


def _slots(concurrency: Concurrency) -> Slots:
    from holdfast.policy.rate_limit import Slots

    return Slots(concurrency)


def _purse(budget: Budget) -> Purse:
    from holdfast.policy.budget import Purse

    return Purse(budget)
