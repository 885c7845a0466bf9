"""The rules that Holdfast comes with. Every number here can be changed in a policy file."""

from __future__ import annotations

from holdfast.catalog.core import (
    DATABASE_CONNECTION_ERROR,
    DATABASE_ERROR,
    DATABASE_POOL_EXHAUSTED,
    DATABASE_READ_ONLY,
    DATABASE_TIMEOUT,
    STORAGE_FULL,
    TRANSACTION_ROLLED_BACK,
)
from holdfast.catalog.durable import COMMIT_UNKNOWN
from holdfast.catalog.fault import Blame, Severity
from holdfast.delivery.faults import SIGNATURE_FAULTS
from holdfast.watch import counting, names
from holdfast.watch.rules import Action, Rule
from holdfast.watch.rules_measure import Average, Count, Counted, Level, Ratio, Surge

MINUTE_S = 60.0
WINDOW_S = 5 * MINUTE_S
HOUR_S = 60 * MINUTE_S

SIGNATURE_CODES = tuple(sorted(fault.code for fault in SIGNATURE_FAULTS))
DATABASE_CODES = tuple(
    sorted(
        fault.code
        for fault in (
            COMMIT_UNKNOWN,
            DATABASE_CONNECTION_ERROR,
            DATABASE_ERROR,
            DATABASE_POOL_EXHAUSTED,
            DATABASE_READ_ONLY,
            DATABASE_TIMEOUT,
            STORAGE_FULL,
            TRANSACTION_ROLLED_BACK,
        )
    )
)
OURS = (Blame.SERVER.value, Blame.UPSTREAM.value)
"""Whom a failure blames that is not the caller's own doing."""
HUNG_UP = ("status", (str(counting.HUNG_UP),))

REQUESTS_MIN = 20.0
"""Minimum number of requests in the window for the error rate to be judged."""
FAILURES_MIN = 10.0
"""Failures of jobs are compared with the usual number only when more than this many occurred in the window."""
BASELINE_MIN = 50.0
"""Minimum number of jobs that ended in the hour before the window; with fewer, there is no usual number."""


def _declared(severity: Severity, *, over_s: float) -> Count:
    """How often faults of this severity occurred; several layers may report the same failure."""
    only = (("severity", (severity.value,)),)
    return Count(of=(Counted(names.ERRORS, only=only),), over_s=over_s, worst_of="layer", rare=True)


FAULT_RULES = (
    Rule(
        name="critical_fault",
        severity=Severity.CRITICAL,
        summary="A failure occurred that is declared critical.",
        remedy="Open the page of the code: it says what causes it and what to do.",
        what=_declared(Severity.CRITICAL, over_s=WINDOW_S),
        above=0,
        per="error_code",
    ),
    Rule(
        name="warning_fault",
        severity=Severity.WARNING,
        summary="A failure that should be looked at occurred more than {threshold} times in {window}.",
        remedy="Open the page of the code: it says what causes it and what to do.",
        what=_declared(Severity.WARNING, over_s=15 * MINUTE_S),
        above=20,
        per="error_code",
    ),
)
"""What follows from the severity that a fault declares, whatever catalog it is of."""

SUCCESS_RATE = Ratio(part=Counted(names.DELIVERIES_GOOD), whole=Counted(names.DELIVERIES), over_s=WINDOW_S)
ERROR_RATE = Ratio(
    part=Counted(names.REQUEST_ERRORS, only=(("blame", OURS),)),
    whole=Counted(names.REQUESTS, never=(HUNG_UP,)),
    over_s=WINDOW_S,
    minimum=REQUESTS_MIN,
)
ENDED = Counted(names.JOB_TRANSITIONS, only=(("verb", ("failed", "finished", "retried")),))
DEAD_SIZE = Level(of=names.WEBHOOK_DEAD)
MEAN_RETRIES = Average(of=Counted(names.DELIVERY_RETRIES), over_s=WINDOW_S)

WEBHOOK_RULES = (
    Rule(
        name="webhook_success_rate_critical",
        severity=Severity.CRITICAL,
        summary="Fewer than {threshold} of webhook deliveries succeed.",
        remedy="Look at the errors by status code, and at the endpoint they belong to.",
        what=SUCCESS_RATE,
        below=0.95,
        for_s=5 * MINUTE_S,
    ),
    Rule(
        name="webhook_dead_letters_critical",
        severity=Severity.CRITICAL,
        summary="More than {threshold} webhook deliveries are dead.",
        remedy="Look at the groups of dead letters; revive them when the endpoint works again.",
        what=DEAD_SIZE,
        above=100,
    ),
    Rule(
        name="webhook_signature_failures",
        severity=Severity.CRITICAL,
        summary="More than {threshold} webhooks in {window} had a wrong signature: somebody may be trying to get in.",
        remedy="Look at where they come from; if it is a partner, compare the secrets.",
        what=Count(of=(Counted(names.REFUSED, only=(("error_code", SIGNATURE_CODES),)),), over_s=MINUTE_S),
        above=10,
    ),
    Rule(
        name="webhook_success_rate_warning",
        severity=Severity.WARNING,
        summary="Fewer than {threshold} of webhook deliveries succeed.",
        remedy="Look at the errors by status code, and at the endpoint they belong to.",
        what=SUCCESS_RATE,
        below=0.98,
        for_s=15 * MINUTE_S,
    ),
    Rule(
        name="webhook_retries_warning",
        severity=Severity.WARNING,
        summary="Webhook deliveries take more than {threshold} retries on average.",
        remedy="Look at the latency and the errors of each endpoint.",
        what=MEAN_RETRIES,
        above=2,
    ),
    Rule(
        name="webhook_dead_letters_warning",
        severity=Severity.WARNING,
        summary="More than {threshold} webhook deliveries are dead.",
        remedy="Look at the groups of dead letters; revive them when the endpoint works again.",
        what=DEAD_SIZE,
        above=50,
    ),
)

SERVICE_RULES = (
    Rule(
        name="high_error_rate",
        severity=Severity.WARNING,
        summary="More than {threshold} of requests fail because of us or of a service that we need.",
        remedy="Look at the errors by code; the page of each code says what to do.",
        what=ERROR_RATE,
        above=0.05,
    ),
    Rule(
        name="database_errors",
        severity=Severity.CRITICAL,
        summary="More than {threshold} database errors in {window}.",
        remedy="Look at whether the database is reachable, at its connections and at its disk.",
        # A request, its job and their link may all report the same error: the layer that saw most of them counts.
        what=Count(
            of=(Counted(names.ERRORS, only=(("error_code", DATABASE_CODES),)),), over_s=MINUTE_S, worst_of="layer"
        ),
        above=10,
    ),
    Rule(
        name="external_service_down",
        severity=Severity.WARNING,
        summary="An outside service failed more than {threshold} times in {window}.",
        remedy="Look at the provider's status page; a link with a fallback has been switched to it.",
        # A breaker that opened keeps calls away: what it turned down would have failed, so it counts.
        what=Count(
            of=(
                Counted(names.LINK_FAILURES, only=(("blame", (Blame.UPSTREAM.value,)),)),
                Counted(names.LINK_DECISIONS, only=(("decision", ("rejected",)), ("reason", ("breaker_open",)))),
            ),
            over_s=WINDOW_S,
        ),
        above=20,
        per="link",
        action=Action.SWITCH_PROVIDER,
    ),
)

JOB_RULES = (
    Rule(
        name="job_failures_spike",
        severity=Severity.WARNING,
        summary="Jobs fail with one code more than {threshold} as often as usual.",
        remedy="Look at the dead letters of this code; the page of the code says what to do.",
        what=Surge(
            of=Counted(names.JOBS_FAILED),
            over_s=WINDOW_S,
            usual_s=HOUR_S,
            minimum=FAILURES_MIN,
            baseline=ENDED,
            baseline_minimum=BASELINE_MIN,
        ),
        above=3,
        per="error_code",
    ),
    Rule(
        name="queue_stuck",
        severity=Severity.WARNING,
        summary="Jobs have been due for more than {threshold}, workers serve the queue, and none is worked on.",
        remedy="Look at what the workers of this queue log, and at handlers that never return.",
        # Not the depth: jobs that are due tomorrow wait too, and nothing is wrong with that.
        what=Level(
            of=names.QUEUE_OLDEST,
            where=(names.QUEUE_WORKERS,),
            unless=(names.JOBS_ACTIVE, names.QUEUE_PAUSED, names.QUEUE_HELD),
        ),
        above=5 * MINUTE_S,
        for_s=5 * MINUTE_S,
        per="queue",
    ),
    Rule(
        name="queue_without_worker",
        severity=Severity.WARNING,
        summary="Jobs have been due for more than {threshold} in a queue that no worker serves.",
        remedy="Start a worker for this queue; if it is misspelt, cancel its jobs.",
        what=Level(of=names.QUEUE_OLDEST, unless=(names.QUEUE_WORKERS, names.QUEUE_PAUSED)),
        above=MINUTE_S,
        for_s=MINUTE_S,
        per="queue",
    ),
    Rule(
        name="queue_held_long",
        severity=Severity.WARNING,
        summary="A breaker has kept jobs back that were due more than {threshold} ago.",
        remedy="Look at what this queue calls; the breaker lets jobs through when that works again.",
        what=Level(of=names.QUEUE_OLDEST, where=(names.QUEUE_HELD, names.QUEUE_WORKERS), unless=(names.QUEUE_PAUSED,)),
        above=15 * MINUTE_S,
        per="queue",
    ),
    Rule(
        name="queue_paused_long",
        severity=Severity.WARNING,
        summary="Jobs were due more than {threshold} ago in a queue that was paused by hand.",
        remedy="Read why it was paused; resume it when that is over.",
        what=Level(of=names.QUEUE_OLDEST, where=(names.QUEUE_PAUSED,)),
        above=HOUR_S,
        per="queue",
    ),
)

RULES = (*FAULT_RULES, *WEBHOOK_RULES, *SERVICE_RULES, *JOB_RULES)
"""All of them."""
