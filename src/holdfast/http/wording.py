"""A fault's retry rule, blame and status in plain sentences."""

from __future__ import annotations

from http import HTTPStatus
from itertools import pairwise

from holdfast.base import limits
from holdfast.base.formatting import duration
from holdfast.catalog import Blame, RetryRule, Severity
from holdfast.policy import Retry

WAITS_SHOWN_MAX = 8

BLAME = {
    Blame.CLIENT: "The caller has to change something.",
    Blame.SERVER: "We have to repair something.",
    Blame.UPSTREAM: "Another service has to recover.",
    Blame.CONFLICT: "Two requests contradict each other; one has to be decided again.",
    Blame.NO_OP: "Nobody; there was nothing to do.",
}
SEVERITY = {
    Severity.NONE: "Nobody is called.",
    Severity.WARNING: "Somebody should look in working hours.",
    Severity.CRITICAL: "Somebody is called at once.",
}


def status_words(status: int) -> str:
    """`503 Service Unavailable`; the bare number where the standard has no name for it."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def retry_words(rule: RetryRule | bool) -> list[str]:
    """Whether it is retried, how often, how far apart and under which condition, a sentence each."""
    if rule is False or (isinstance(rule, Retry) and rule.attempts == 1):
        return ["Not retried: the same request would fail the same way."]
    if rule is True:
        default = Retry()
        return [
            "Retried as the caller's own rule says.",
            f"Without one: up to {default.attempts} attempts in all, waiting {_waits(default)}.",
            *_retry_after_words(default),
        ]
    if not isinstance(rule, Retry):
        return ["Retried by a rule of its own."]
    return _rule_words(rule)


def _rule_words(rule: Retry) -> list[str]:
    words = [f"Retried: up to {rule.attempts} attempts in all, waiting {_waits(rule)}."]
    if rule.when is not None:
        words.append("Only when the occurrence meets the rule's condition.")
    if rule.within_s is not None:
        words.append(f"No attempt starts later than {duration(rule.within_s)} after the first.")
    return [*words, *_retry_after_words(rule)]


def _retry_after_words(rule: Retry) -> list[str]:
    if not rule.honour_retry_after:
        return []
    words = [f"A longer Retry-After is waited for, up to {duration(rule.retry_after_max_s)}."]
    patience_s = limits().call_wait_s_max
    if rule.within_s is None and rule.retry_after_max_s > patience_s:
        words.append(f"A call without a time limit ends instead where it is above {duration(patience_s)}.")
    return words


def _waits(rule: Retry) -> str:
    starts = rule.backoff.schedule_s(rule.attempts)
    ranges = [(late[0] - early[0], late[1] - early[1]) for early, late in pairwise(starts)]
    shown = [_range(*bounds) for bounds in ranges[:WAITS_SHOWN_MAX]]
    if len(ranges) > WAITS_SHOWN_MAX:
        return f"{', '.join(shown)} and so on, at most {duration(rule.backoff.cap_s)}"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _range(low_s: float, high_s: float) -> str:
    low, high = duration(low_s), duration(high_s)
    if low == high:
        return low
    if low_s == 0:
        return f"up to {high}"
    # `4 to 6 s` rather than `4 s to 6 s`, when the unit is the same.
    number, _, unit = low.rpartition(" ")
    return f"{number if high.endswith(f' {unit}') and ' ' not in number else low} to {high}"
