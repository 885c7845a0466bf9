"""What happens between two attempts of one call: classify, decide, tell, and either wait or give up."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from holdfast.base import monotonic_s, world
from holdfast.base.bus import report
from holdfast.catalog import Failure
from holdfast.guard import stamp
from holdfast.guard.events import LinkEvent, LinkVerb, tell
from holdfast.guard.stamp import put_stamp, retried_inside
from holdfast.lifecycle import Decision, GiveUp, RetryAfter, Stop
from holdfast.policy.deadline import deadline_at
from holdfast.policy.decide import decide
from holdfast.policy.retry import Retry

if TYPE_CHECKING:
    from holdfast.guard.link import Link


class Recovery:
    """The memory of one call that has failed at least once."""

    __slots__ = (
        "_codes",
        "_failure",
        "_first",
        "_keyed",
        "_link",
        "_mark",
        "_plain",
        "_previous_s",
        "_started_s",
        "attempt",
    )

    def __init__(self, link: Link, keyed: bool, mark: int, started_s: float | None) -> None:
        self._link = link
        self._plain = link.plain
        self._keyed = keyed
        self._mark = mark
        self._started_s = started_s
        self._first = ""
        self._codes: dict[str, int] | None = None
        self._previous_s = 0.0
        self._failure: Failure | None = None
        self.attempt = 0

    def delay_s(self, error: Exception, ticket: int | None) -> float | None:
        """How long to wait before the next attempt, or None to give up; the exception is stamped then."""
        link = self._link
        self.attempt += 1
        gate = link.gate
        # Where only the fault counts, one sample serves for all: making a failure is a fifth of what a retry costs.
        failure = link.classifier.sample(error) if self._plain and not link.listeners else None
        if failure is None or failure.fault.rule is not True:
            failure = link.classifier.classify(error)
        self._failure = failure
        if gate.circuit is not None:
            gate.report(failure, ticket)
        # Only a stamp put since this call began can be an inner link's.
        if stamp.latest != self._mark and retried_inside(error, since=self._mark):
            decision: Decision = GiveUp(Stop.RETRIED_INSIDE)
        else:
            decision = self._decide(failure)
        if isinstance(decision, RetryAfter):
            delay_s = self._previous_s = decision.delay_s
            if gate.purse is None or gate.affords_retry():
                if link.listeners:
                    self._tell(LinkVerb.RETRIED, delay_s=delay_s)
                return delay_s
            decision = GiveUp(Stop.BUDGET_SPENT)
        self.give_up(error, decision.reason)
        return None

    def give_up(self, error: Exception, reason: Stop) -> None:
        """Stamp the exception that the caller gets, and drop what would keep it alive."""
        failure = self._failure
        code = "" if failure is None else failure.code
        put_stamp(error, link=self._link.name, code=code, attempts=self.attempt, reason=reason)
        if self._link.listeners:
            self._tell(LinkVerb.GAVE_UP, reason=reason)
        self._failure = None

    def succeed(self) -> None:
        """A later attempt worked."""
        self._failure = None
        self.attempt += 1
        if self._link.listeners:
            self._tell(LinkVerb.SUCCEEDED)

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

    def _tell(self, verb: LinkVerb, *, delay_s: float | None = None, reason: Stop | None = None) -> None:
        tell(
            self._link.listeners,
            LinkEvent(
                verb=verb,
                link=self._link.name,
                attempt=self.attempt,
                failure=self._failure,
                delay_s=delay_s,
                reason=reason,
            ),
        )
