"""From the first failed attempt on: what has happened so far, and the decision to try again or give up."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from holdfast.base.bus import bus, report
from holdfast.base.world import limits, monotonic_s, world
from holdfast.catalog.classify import UNKNOWN_CODE
from holdfast.catalog.failure import Failure, again, occurred
from holdfast.guard import stamp
from holdfast.guard.gate import Crowded
from holdfast.guard.stamp import put_stamp, retried_inside
from holdfast.guard.telling import GAVE_UP, RETRIED, SUCCEEDED, tell
from holdfast.lifecycle import Decision, GiveUp, RetryAfter, Stop
from holdfast.policy.deadline import deadline_at
from holdfast.policy.decide import decide
from holdfast.policy.retry import Retry

if TYPE_CHECKING:
    from holdfast.catalog.fault import Fault
    from holdfast.guard.link import Link


class Recovery:
    """The memory of one call that has failed at least once."""

    # Values of the class rather than slots: what stays as it is then costs nothing to set.
    attempt = 0
    _codes: dict[str, int] | None = None
    _first = ""
    _previous_s = 0.0
    _failure: Failure | None = None
    _fault: Fault | None = None

    def __init__(self, link: Link, keyed: bool, mark: int, started_s: float | None) -> None:
        self._link = link
        self._keyed = keyed
        self._mark = mark
        self._started_s = started_s

    def delay_s(self, error: Exception, ticket: int | None, began_s: float | None) -> float | None:
        """How long to wait before the next attempt, or None to give up; the exception is stamped then."""
        link = self._link
        attempt = self.attempt = self.attempt + 1
        # Most failures leave everything to the link's own rule. What `decide` would answer was worked out ahead.
        fault = link.ordinary.get(error.__class__)
        if (
            fault is None
            or stamp.latest != self._mark
            or attempt > len(delays := link.usual_delays)
            or (fault.overlay and fault.code in fault.overlay)
            or link.listeners
            or deadline_at() is not None
            or (link.writes and not self._keyed)
            or not link.gate.affords_retry()
        ):
            return self._considered_s(error, ticket, began_s)
        self._fault = fault
        if attempt == 1:
            self._first = fault.code
        else:
            self._seen(fault.code)
        if link.gate.circuit is not None:
            link.gate.report(fault, ticket)
        delay = delays[attempt - 1]
        delay_s = self._previous_s = delay if isinstance(delay, float) else delay.drawn_s(world().dice)
        if bus.listeners:
            self._tell(RETRIED, delay_s=delay_s, began_s=began_s)
        return delay_s

    def give_up(self, error: Exception, reason: Stop, *, began_s: float | None = None, attempted: bool = True) -> None:
        """Stamp the exception that the caller gets, and drop what would keep it alive."""
        code = "" if self._fault is None else self._fault.code
        put_stamp(
            error, link=self._link.name, code=code, attempts=self.attempt, reason=reason, failure=self._made_of(error)
        )
        if self._link.listeners or bus.listeners:
            self._tell(GAVE_UP, reason=reason, attempted=attempted, began_s=began_s)
        self._failure = None

    def _made_of(self, error: Exception) -> Failure | None:
        """What this link has made of the exception, for the edges that render it; nothing where nobody knows it."""
        if isinstance(error, Failure) or self._fault is None or self._fault.code == UNKNOWN_CODE:
            return None
        return occurred(self._fault, {}, None) if self._failure is None else again(self._failure)

    def succeed(self, began_s: float | None) -> None:
        """A later attempt worked."""
        self._failure = self._fault = None
        self.attempt += 1
        if self._link.listeners or bus.listeners:
            self._tell(SUCCEEDED, began_s=began_s)

    def _considered_s(self, error: Exception, ticket: int | None, began_s: float | None) -> float | None:
        """The same with a look at everything that may have a say."""
        link = self._link
        failure = self._failure = link.classifier.classify(error, stamped_after=self._mark)
        self._fault = failure.fault
        gate = link.gate
        if gate.circuit is not None:
            if isinstance(failure, Crowded):
                gate.forget(ticket)  # the callee was never asked
            else:
                gate.report(failure.fault, ticket)
        # Only a stamp put since this call began can be an inner link's.
        if stamp.latest != self._mark and retried_inside(error, since=self._mark):
            decision: Decision = GiveUp(Stop.RETRIED_INSIDE)
        else:
            decision = self._decide(failure)
        if isinstance(decision, RetryAfter):
            delay_s = self._previous_s = decision.delay_s
            if gate.affords_retry():
                if link.listeners or bus.listeners:
                    self._tell(RETRIED, delay_s=delay_s, began_s=began_s)
                return delay_s
            decision = GiveUp(Stop.BUDGET_SPENT)
        self.give_up(error, decision.reason, began_s=began_s)
        return None

    def _decide(self, failure: Failure) -> Decision:
        link = self._link
        fault = failure.fault
        rule = fault.rule
        if self._started_s is None and rule is not True and isinstance(rule, Retry) and rule.within_s is not None:
            # Nobody knew of this fault when the call began, so its time counts from here.
            self._started_s = monotonic_s()
        seen = 1 if self.attempt == 1 else self._seen(fault.code)
        if self.attempt == 1:
            self._first = fault.code
        at_s, started_s = deadline_at(), self._started_s
        now_s = monotonic_s() if at_s is not None or started_s is not None else 0.0
        try:
            return decide(
                link.retry,
                failure,
                self.attempt,
                0.0 if started_s is None else now_s - started_s,
                inf if at_s is None else at_s - now_s,
                world().dice,
                code_attempt=seen,
                previous_s=self._previous_s,
                writes=link.writes,
                keyed=self._keyed,
                patience_s=limits().call_wait_s_max,
            )
        except Exception as broken:  # noqa: BLE001 - a broken condition (`Retry.when`) must not hide the failure
            report(broken, f"the retry condition of {link.name} raised", link)
            return GiveUp(Stop.CONDITION_UNMET)

    def _seen(self, code: str) -> int:
        """How many attempts have failed with this code; most calls fail once, and need no count."""
        if self._codes is None:
            self._codes = {self._first: 1}
        self._codes[code] = self._codes.get(code, 0) + 1
        return self._codes[code]

    def _tell(
        self,
        verb: str,
        *,
        delay_s: float | None = None,
        reason: Stop | None = None,
        attempted: bool | None = None,
        began_s: float | None = None,
    ) -> None:
        tell(
            self._link.listeners,
            verb,
            self._link.name,
            self.attempt,
            fault=self._fault,
            failure=self._failure,
            delay_s=delay_s,
            reason=reason,
            attempted=attempted,
            duration_s=None if began_s is None else monotonic_s() - began_s,
        )
