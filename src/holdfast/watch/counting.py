"""What each event counts as: one rule for each verb of the bus."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.base import Facts
from holdfast.catalog.fault import Severity, blame_of
from holdfast.watch import names
from holdfast.watch.names import BREAKER_LEVELS

if TYPE_CHECKING:
    from holdfast.watch.meter import Meter

Rule = Callable[["Meter", Facts], None]

NO_ANSWER = "none"
"""The status code of a delivery that got no answer."""
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
NOT_ATTEMPTED = frozenset({"breaker_open", "limit_reached"})
"""A link that gives up for these reasons was not called once more: the failure before has been counted."""
FAILED_FROM = 400
HUNG_UP = 499
"""The status of a request whose client went away: nothing failed, and nobody was answered."""

JOB_VERBS = (
    "enqueued", "claimed", "finished", "retried", "snoozed", "released", "reclaimed", "failed", "cancelled",
    "settled_late", "revived", "discarded",
)  # fmt: skip


def _error(meter: Meter, layer: str, facts: Facts) -> None:
    meter.count(names.ERRORS, layer, facts.get("code"), facts.get("severity") or Severity.NONE.value)


def _transition(verb: str, more: Rule | None = None) -> Rule:
    def rule(meter: Meter, facts: Facts) -> None:
        meter.count(names.JOB_TRANSITIONS, facts.get("queue"), verb, amount=facts.get("count", 1))
        if more is not None:
            more(meter, facts)

    return rule


def _job_ended(meter: Meter, facts: Facts) -> None:
    took_us = facts.get("duration_us")
    if took_us is not None:
        meter.observe(names.JOB_DURATION, facts.get("queue"), value=took_us / 1_000_000)


def _job_over(meter: Meter, facts: Facts) -> int:
    """It will not be tried again; the retries that it took."""
    _job_ended(meter, facts)
    retries = max((facts.get("attempt") or 1) - 1, 0)
    meter.observe(names.JOB_RETRIES, facts.get("queue"), value=float(retries))
    return retries


def _job_finished(meter: Meter, facts: Facts) -> None:
    if _job_over(meter, facts):
        meter.count(names.RETRIES_GOOD, "job")


def _job_retried(meter: Meter, facts: Facts) -> None:
    _job_ended(meter, facts)
    _error(meter, "job", facts)
    _retry(meter, "job")


def _job_failed(meter: Meter, facts: Facts) -> None:
    _job_over(meter, facts)
    _error(meter, "job", facts)
    meter.count(names.JOBS_FAILED, facts.get("queue"), facts.get("code"))


def _job_reclaimed(meter: Meter, facts: Facts) -> None:  # noqa: ARG001 - as every rule is called
    _retry(meter, "job")


def _job_revived(meter: Meter, facts: Facts) -> None:
    meter.count(names.MANUAL_RETRIES, facts.get("queue"), amount=facts.get("count", 1))


def _retry(meter: Meter, layer: str) -> None:
    meter.count(names.RETRIES_MADE, layer)
    # Shown from the first retry on, so that a rate of success that is zero can be told from one that is unknown.
    meter.count(names.RETRIES_GOOD, layer, amount=0.0)


def _breaker(state: str) -> Rule:
    level = BREAKER_LEVELS[state]

    def rule(meter: Meter, facts: Facts) -> None:
        meter.show(names.LINK_BREAKER, facts.get("name"), value=level)

    return rule


def _link_ended(meter: Meter, facts: Facts, outcome: str) -> None:
    link = facts.get("link")
    meter.count(names.LINK_ATTEMPTS, link, outcome)
    took_s = facts.get("duration_s")
    if took_s is not None:
        meter.observe(names.LINK_DURATION, link, value=took_s)
    if outcome == "failed":
        meter.count(names.LINK_FAILURES, link, facts.get("code"), facts.get("blame"))
        _error(meter, "link", facts)


def _link_succeeded(meter: Meter, facts: Facts) -> None:
    _link_ended(meter, facts, "succeeded")
    if (facts.get("attempt") or 1) > 1:
        meter.count(names.RETRIES_GOOD, "link")


def _link_retried(meter: Meter, facts: Facts) -> None:
    _link_ended(meter, facts, "failed")
    _retry(meter, "link")
    meter.count(names.LINK_DECISIONS, facts.get("link"), "retried", "")


def _link_gave_up(meter: Meter, facts: Facts) -> None:
    reason = facts.get("reason")
    if facts.get("attempted", reason not in NOT_ATTEMPTED):
        _link_ended(meter, facts, "failed")
    meter.count(names.LINK_DECISIONS, facts.get("link"), "gave_up", reason)


def _link_rejected(meter: Meter, facts: Facts) -> None:
    meter.count(names.LINK_DECISIONS, facts.get("link"), "rejected", facts.get("reason"))
    _error(meter, "link", facts)


def _request_served(meter: Meter, facts: Facts) -> None:
    endpoint, status, code = facts.get("endpoint"), facts.get("status") or 0, facts.get("code")
    method = facts.get("method")
    meter.count(names.REQUESTS, endpoint, method if method in METHODS else names.OTHER, str(status))
    gone = status == HUNG_UP
    failed = status >= FAILED_FROM and not gone
    took_s = facts.get("duration_s")
    if took_s is not None:
        outcome = "gone" if gone else "failed" if failed else "good"
        meter.observe(names.REQUEST_DURATION, endpoint, outcome, value=took_s)
    if failed or code:
        # A reply that the application wrote by itself has no fault: its status says whom to blame.
        meter.count(names.REQUEST_ERRORS, endpoint, code, facts.get("blame") or blame_of(status).value)
        _error(meter, "request", facts)


def _delivery_attempted(meter: Meter, facts: Facts) -> None:
    endpoint, attempt = facts.get("endpoint"), facts.get("attempt") or 1
    outcome = facts.get("outcome")
    delivered = outcome == "delivered"
    meter.count(names.DELIVERIES, endpoint)
    # Both are there from the first attempt on: a quotient of the two then always has a value.
    meter.count(names.DELIVERIES_GOOD, endpoint, amount=float(delivered))
    took_s = facts.get("duration_s")
    if took_s is not None:
        meter.observe(names.DELIVERY_DURATION, endpoint, value=took_s)
    if outcome == "retried":
        _retry(meter, "delivery")
    else:
        meter.observe(names.DELIVERY_RETRIES, endpoint, value=float(attempt - 1))
    if delivered:
        if attempt > 1:
            meter.count(names.RETRIES_GOOD, "delivery")
        return
    status = facts.get("status")
    meter.count(names.DELIVERIES_BAD, endpoint, NO_ANSWER if status is None else str(status))
    _error(meter, "delivery", facts)


def _webhook_received(meter: Meter, facts: Facts) -> None:
    source, code = facts.get("source"), facts.get("code")
    meter.count(names.RECEIVED, source)
    if code is not None:
        meter.count(names.REFUSED, source, code)
        _error(meter, "webhook", facts)


def _worker_trouble(meter: Meter, facts: Facts) -> None:
    meter.count(names.WORKER_TROUBLE, facts.get("code"))
    _error(meter, "worker", facts)


def _step_failed(meter: Meter, facts: Facts) -> None:
    _error(meter, "step", facts)


_MORE: dict[str, Rule] = {
    "finished": _job_finished,
    "retried": _job_retried,
    "failed": _job_failed,
    "reclaimed": _job_reclaimed,
    "revived": _job_revived,
    "cancelled": _job_ended,
    "snoozed": _job_ended,
}

RULES: dict[str, Rule] = {
    **{f"job.{verb}": _transition(verb, _MORE.get(verb)) for verb in JOB_VERBS},
    "breaker.opened": _breaker("open"),
    "breaker.half_opened": _breaker("half_open"),
    "breaker.closed": _breaker("closed"),
    "link.succeeded": _link_succeeded,
    "link.retried": _link_retried,
    "link.gave_up": _link_gave_up,
    "link.rejected": _link_rejected,
    "request.served": _request_served,
    "delivery.attempted": _delivery_attempted,
    "webhook.received": _webhook_received,
    "worker.trouble": _worker_trouble,
    "step.failed": _step_failed,
}
