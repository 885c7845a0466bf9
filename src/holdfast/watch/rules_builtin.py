"""The rules that Holdfast comes with. Every number here can be changed in a policy file."""

from __future__ import annotations

from holdfast.catalog.core import (
    DATABASE_CONNECTION_ERROR,
    DATABASE_ERROR,
    DATABASE_POOL_EXHAUSTED,
    DATABASE_TIMEOUT,
    STORAGE_FULL,
    TRANSACTION_ROLLED_BACK,
)
from holdfast.catalog.durable import COMMIT_UNKNOWN
from holdfast.catalog.fault import Severity
from holdfast.watch import names
from holdfast.watch.rules import Action, Rule
from holdfast.watch.rules_measure import Average, Count, Counted, Level, Ratio, Surge

MINUTE_S = 60.0
WINDOW_S = 5 * MINUTE_S
HOUR_S = 60 * MINUTE_S

SIGNATURE_CODES = ("INVALID_SIGNATURE_FORMAT", "SIGNATURE_EXPIRED", "UNAUTHORIZED")
DATABASE_CODES = tuple(
    sorted(
        fault.code
        for fault in (
            COMMIT_UNKNOWN,
            DATABASE_CONNECTION_ERROR,
            DATABASE_ERROR,
            DATABASE_POOL_EXHAUSTED,
            DATABASE_TIMEOUT,
            STORAGE_FULL,
            TRANSACTION_ROLLED_BACK,
        )
    )
)
CALLER_CODES = (
    "BAD_REQUEST", "CONFLICT", "GONE", "METHOD_NOT_ALLOWED", "NOT_FOUND", "PAYLOAD_TOO_LARGE", "UNPROCESSABLE",
    "UNSUPPORTED_MEDIA_TYPE",
)  # fmt: skip
"""What a service answers when it works and the question was wrong."""

SUCCESS_RATE = Ratio(part=Counted(names.DELIVERIES_GOOD), whole=Counted(names.DELIVERIES), over_s=WINDOW_S)
ERROR_RATE = Ratio(part=Counted(names.REQUEST_ERRORS), whole=Counted(names.REQUESTS), over_s=WINDOW_S)
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
        summary="More than {threshold} of requests are answered with an error.",
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
                Counted(names.LINK_FAILURES, never=(("error_code", CALLER_CODES),)),
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
        what=Surge(of=Counted(names.JOBS_FAILED), over_s=WINDOW_S, usual_s=HOUR_S, least=10),
        above=3,
        per="error_code",
    ),
    Rule(
        name="queue_stuck",
        severity=Severity.WARNING,
        summary="Jobs have been due for more than {threshold} and none is worked on.",
        remedy="Look at whether workers run, whether the queue is paused or held, and at leases that do not end.",
        # Not the depth: jobs that are due tomorrow wait too, and nothing is wrong with that.
        what=Level(of=names.QUEUE_OLDEST, unless=names.JOBS_ACTIVE),
        above=5 * MINUTE_S,
        for_s=5 * MINUTE_S,
        per="queue",
    ),
)

RULES = (*WEBHOOK_RULES, *SERVICE_RULES, *JOB_RULES)
"""All of them."""
