"""A fault's retry rule, blame and status in plain sentences."""

from __future__ import annotations

from http import HTTPStatus
from itertools import pairwise

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


def span(seconds: float) -> str:
    """A length of time as a person says it: `250 ms`, `1.5 s`, `5 min`, `1 h 30 min`."""
    if seconds == 0:
        return "0 s"
    if seconds < 1:
        return f"{seconds * 1_000:.3g} ms"
    if seconds < 120:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "min"), (rest, "s"))
    return " ".join(f"{count} {unit}" for count, unit in parts if count)


def _rule_words(rule: Retry) -> list[str]:
    words = [f"Retried: up to {rule.attempts} attempts in all, waiting {_waits(rule)}."]
    if rule.when is not None:
        words.append("Only when the occurrence meets the rule's condition.")
    if rule.within_s is not None:
        words.append(f"No attempt starts later than {span(rule.within_s)} after the first.")
    return [*words, *_retry_after_words(rule)]


def _retry_after_words(rule: Retry) -> list[str]:
    return (
        [f"A Retry-After replaces the wait, up to {span(rule.retry_after_max_s)}."] if rule.honour_retry_after else []
    )


def _waits(rule: Retry) -> str:
    starts = rule.backoff.schedule_s(rule.attempts)
    ranges = [(late[0] - early[0], late[1] - early[1]) for early, late in pairwise(starts)]
    shown = [_range(*bounds) for bounds in ranges[:WAITS_SHOWN_MAX]]
    if len(ranges) > WAITS_SHOWN_MAX:
        return f"{', '.join(shown)} and so on, at most {span(rule.backoff.cap_s)}"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _range(low_s: float, high_s: float) -> str:
    low, high = span(low_s), span(high_s)
    if low == high:
        return low
    if low_s == 0:
        return f"up to {high}"
    # `4 to 6 s` rather than `4 s to 6 s`, when the unit is the same.
    number, _, unit = low.rpartition(" ")
    return f"{number if high.endswith(f' {unit}') and ' ' not in number else low} to {high}"
