"""The one decision after a failed attempt. In-process calls, jobs and webhooks all use it.

The operation's rule bounds the total. The fault's rule, where it has one of its own, bounds the attempts that fail
with its code and sets their backoff; of two times (`within_s`) the shorter counts, and both conditions must hold.
Exceptions that the operation's rule names (`on`) are retried by that rule alone. A Retry-After lengthens the wait
and never shortens it. Nothing waits past a deadline.
"""

from __future__ import annotations

from math import inf, isnan

from holdfast.catalog import Failure
from holdfast.catalog.classify import UNKNOWN_CODE
from holdfast.catalog.core import RESULT_UNWANTED
from holdfast.lifecycle import Decision, GiveUp, RetryAfter, Stop
from holdfast.policy.backoff import Chance
from holdfast.policy.jitter import Dice
from holdfast.policy.retry import Retry

DEFAULT = Retry()
UNWANTED_CODE = RESULT_UNWANTED.code


def decide(
    retry: Retry | None,
    failure: Failure,
    attempt: int,
    elapsed_s: float,
    left_s: float,
    dice: Dice,
    *,
    code_attempt: int | None = None,
    previous_s: float = 0.0,
    writes: bool = False,
    keyed: bool = False,
    patience_s: float = inf,
) -> Decision:
    """What follows after attempt number `attempt` (the first is 1) failed.

    Args:
        retry: the operation's own rule; None leaves it to the fault's.
        code_attempt: how many attempts have failed with this code; the attempt number when not counted.
        previous_s: the delay before this attempt, for decorrelated jitter.
        writes: the operation changes something; such are retried only when `keyed`.
        patience_s: maximum Retry-After that is waited for where neither a deadline nor `within_s` bounds the wait.
    """
    fault = failure.fault
    named = None if retry is None or fault.code == UNWANTED_CODE else retry.names(failure)
    rule = True if named else fault.rule
    own = None if rule is True else rule if isinstance(rule, Retry) else None
    if rule is False or (own is not None and own.attempts == 1):
        return GiveUp(Stop.NOT_RETRYABLE)
    if writes and not keyed:
        return GiveUp(Stop.WRITE_WITHOUT_KEY)
    whole = retry or own or DEFAULT
    if attempt >= whole.attempts:
        return GiveUp(Stop.ATTEMPTS_USED)
    by_code = attempt if code_attempt is None else code_attempt
    capped = whole.attempts_per_code and by_code >= whole.attempts_per_code.get(fault.code, inf)
    if capped or (own is not None and by_code >= own.attempts):
        return GiveUp(Stop.CODE_ATTEMPTS_USED)
    if fault.code == UNKNOWN_CODE and not named and (writes or by_code >= whole.attempts_unknown):
        return GiveUp(Stop.UNKNOWN_FAILURE)
    if named is False or (whole.when is not None and not whole.when(failure)):
        return GiveUp(Stop.CONDITION_UNMET)
    if rule is not True and not failure.retryable:
        return GiveUp(Stop.CONDITION_UNMET)
    delay_s, asked_s = _delay_s(own or whole, failure, by_code if own else attempt, dice, previous_s)
    within_s = _within_s(whole, own)
    if delay_s >= left_s:
        return GiveUp(Stop.DEADLINE_TOO_NEAR)
    if elapsed_s + delay_s > within_s:
        return GiveUp(Stop.TIME_USED)
    unbounded = left_s == within_s == inf
    return GiveUp(Stop.WAIT_TOO_LONG) if unbounded and asked_s > patience_s else RetryAfter(delay_s)


def usual_delays(retry: Retry | None) -> tuple[float | Chance, ...] | None:
    """What `decide` answers after attempt 1, 2 … to a failure that leaves everything to the operation's own rule.

    Such a failure has a known code, no rule and no Retry-After of its own, nothing waits for it by a deadline, and
    it may be repeated. A delay is a number, or the chance it is drawn from; after the last one `decide` gives up.
    None when an occurrence, the time or the delay before has a say too.
    """
    whole = retry or DEFAULT
    if whole.on is not None or whole.when is not None or whole.within_s is not None or whole.attempts_per_code:
        return None
    return whole.backoff.chances(whole.attempts - 1)


def _delay_s(rule: Retry, failure: Failure, attempt: int, dice: Dice, previous_s: float) -> tuple[float, float]:
    """The delay, and the Retry-After that it is due to; 0 where it is due to the schedule."""
    scheduled_s = rule.backoff.delay_s(attempt, dice, previous_s=previous_s)
    asked_s = failure.retry_after_s
    if asked_s is None or not rule.honour_retry_after or isnan(asked_s):
        return scheduled_s, 0.0
    asked_s = min(asked_s, rule.retry_after_max_s)
    if asked_s <= scheduled_s:
        return scheduled_s, 0.0  # 0, or a time that has passed, does not shorten the delay
    # All who were told the same time would come back together: chance spreads them as it spreads the schedule.
    return asked_s + scheduled_s - rule.backoff.range_s(attempt, previous_s=previous_s)[0], asked_s


def _within_s(whole: Retry, own: Retry | None) -> float:
    least_s = inf if whole.within_s is None else whole.within_s
    return least_s if own is None or own.within_s is None else min(least_s, own.within_s)
