"""How an attempt ended, as a value, and what follows from it. Nothing here touches the store."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from holdfast.base import encode, limits, redacted_text, world
from holdfast.catalog import Blame, Failure, Severity
from holdfast.catalog.core import INTERNAL_ERROR
from holdfast.catalog.durable import COMMIT_UNKNOWN, JOB_CANCELLED
from holdfast.lifecycle import Cancel, HandlerAnswer, RetryAfter, RetryIn, Snooze
from holdfast.policy import Backoff, Retry, Spread, decide
from holdfast.worker.fingerprint import fingerprint
from holdfast.worker.job import Job

if TYPE_CHECKING:
    from holdfast.base.tracebacks import Traceback

JOB_RETRY = Retry(attempts=3, attempts_unknown=3, backoff=Backoff.listed(5, 15, 45, jitter=Spread(0.2)))
"""How jobs are retried unless their handler or their code says otherwise."""

NO_WAIT = Backoff.constant(0)
ASKED = "Retry-After"
"""How the reason of a retry begins for which the other side named a time."""
ASKED_S = "asked_s"
"""The detail of a failure that says how long the other side asked for, where its `retry_after_s` is our own word."""
UNSPENT_S = "unspent_s"
"""The detail of a failure that spends no attempt, because the other side works and asked for time: how long after the
first attempt it is still tried again."""


class AskedTooOften(Exception):
    """The handler returned RetryIn from its last attempt, or for a time that is too late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """What is to be written about an attempt that did not finish its job."""

    job: Job
    verb: str
    """The move: retry, snooze, release, reclaim, fail or cancel."""
    code: str | None = None
    message: str | None = None
    technical: str | None = None
    fingerprint: str | None = None
    place: str | None = None
    """The innermost call of the user's own code."""
    traceback: str | None = None
    """As `Traceback.stored` writes it."""
    code_counts: str | None = None
    upstream_status: int | None = None
    remote_code: str | None = None
    remote_message: str | None = None
    delay_us: int | None = None
    returned: int = 0
    """How many attempts are given back."""
    pardoned: int = 0
    """How many attempts are not held against the job."""
    timed: bool = False
    """Whether the time of the job goes on, though its first attempt is given back."""
    duration_us: int | None = None
    reason: str | None = None
    severity: Severity | None = None
    """How severe the failure's fault is."""
    blame: Blame | None = None
    """Whom the failure blames, where it speaks against what the job calls; a breaker counts those."""

    def __post_init__(self) -> None:
        # These come from exceptions and handlers: no text of theirs may keep a settlement from being stored.
        for name in ("message", "technical", "reason", "remote_code", "remote_message"):
            text = getattr(self, name)
            if text is not None:
                object.__setattr__(self, name, storable(text))


def storable(text: object) -> str:
    """The text as any database takes it and anyone may read it: bounded, redacted, in whole characters."""
    kept = redacted_text(str(text), limits().message_chars_max)
    return kept if kept.isascii() else kept.encode("utf-8", "replace").decode()


def answered(job: Job, answer: HandlerAnswer, duration_us: int, retry: Retry | None = None) -> Settlement:
    """The handler asked for something else than success or failure."""
    match answer:
        case Snooze(delay_s, reason, timed):
            delay_us = _us(delay_s)
            put_off = Settlement(job=job, verb="snooze", delay_us=delay_us, reason=reason, duration_us=duration_us)
            return replace(put_off, returned=1, timed=timed)
        case RetryIn(delay_s, reason):
            refused = _refused(job, _rule(job, retry), delay_s)
            if refused is not None:
                asked = AskedTooOften(f"the handler asked for another attempt {refused}: {storable(reason)}")
                return failed(job, _caused(asked), retry, duration_us, blamed=False)
            return Settlement(job=job, verb="retry", delay_us=_us(delay_s), reason=reason, duration_us=duration_us)
        case Cancel(reason):
            return cancelled(job, reason, duration_us)


def cancelled(job: Job, reason: str, duration_us: int | None) -> Settlement:
    """The work is no longer wanted."""
    return _failed(job, "cancel", JOB_CANCELLED(), None, duration_us, reason)


def rejected(job: Job, failure: Failure) -> Settlement:
    """An open breaker fails the job without an attempt."""
    return _failed(job, "fail", failure, None, None, "the breaker is open")


def released(job: Job, reason: str) -> Settlement:
    """The worker stops; the job goes back as if it had not been touched."""
    return Settlement(job=job, verb="release", delay_us=0, returned=1, reason=reason)


def failed(
    job: Job,
    failure: Failure,
    retry: Retry | None,
    duration_us: int | None,
    *,
    blamed: bool,
    traceback: Traceback | None = None,
) -> Settlement:
    """The attempt failed; the code's rule and the handler's decide whether another follows."""
    whole = _rule(job, retry)
    if ASKED_S in failure.details:
        whole = replace(whole, backoff=NO_WAIT)  # the time is our own word, and has the schedule in it
    counts = _counts(job, failure.code)
    unspent = UNSPENT_S in failure.details
    if unspent:
        whole = replace(whole, within_s=failure.details[UNSPENT_S])
    decision = decide(
        whole,
        _judged(failure),
        0 if unspent else job.attempt,
        job.elapsed_s,
        limits().delay_s_max,
        world().dice,
        code_attempt=0 if unspent else counts[failure.code],
    )
    if not isinstance(decision, RetryAfter):
        settlement = _failed(job, "fail", failure, encode(counts), duration_us, str(decision.reason), traceback)
        return replace(settlement, blame=failure.blame if blamed else None)
    return Settlement(
        job=job,
        verb="retry",
        code=failure.code,
        severity=failure.fault.severity,
        message=failure.message_retrying,
        code_counts=encode(counts),
        **_origin(failure, traceback),
        delay_us=_us(decision.delay_s),
        returned=1 if unspent else 0,
        timed=unspent,
        duration_us=duration_us,
        reason=_asked_for(failure) + failure.technical,
        blame=failure.blame if blamed else None,
    )


def _asked_for(failure: Failure) -> str:
    """How long the other side asked for, where it did; the rule may wait for less, or not care."""
    asked_s = failure.details.get(ASKED_S, failure.retry_after_s)
    return f"{ASKED} {asked_s:g} s: " if isinstance(asked_s, int | float) else ""


def _origin(failure: Failure, traceback: Traceback | None) -> dict[str, Any]:
    """Where a failure came from: the place in the code, and what the upstream said."""
    remote = failure.remote
    return {
        "place": None if traceback is None else traceback.place or None,
        "traceback": None if traceback is None else traceback.stored(),
        "upstream_status": _upstream_status(failure),
        "remote_code": None if remote is None else remote.code or None,
        "remote_message": None if remote is None else remote.message or None,
    }


def _failed(
    job: Job,
    verb: str,
    failure: Failure,
    counts: str | None,
    duration_us: int | None,
    reason: str,
    traceback: Traceback | None = None,
) -> Settlement:
    technical = failure.technical
    alike = fingerprint(
        failure.code,
        job.kind,
        technical,
        place="" if traceback is None else traceback.place,
        source="" if traceback is None else traceback.source,
        remote_code="" if failure.remote is None else failure.remote.code,
    )
    return Settlement(
        job=job,
        verb=verb,
        code=failure.code,
        severity=failure.fault.severity,
        message=failure.message,
        technical=technical,
        fingerprint=alike,
        **_origin(failure, traceback),
        code_counts=counts,
        duration_us=duration_us,
        reason=reason if verb == "cancel" else f"{reason}: {technical}",
    )


def _judged(failure: Failure) -> Failure:
    """The failure by which another attempt is decided.

    A job is done at least once: had its worker died in the moment of the commit, it would be tried again as well. Who
    needs its effect once finishes the job inside the same transaction.
    """
    if failure.code != COMMIT_UNKNOWN.code or failure.fault.rule is not False:
        return failure
    judged = Failure(replace(failure.fault, retry=True))
    judged.__cause__ = failure.__cause__
    return judged


def _rule(job: Job, retry: Retry | None) -> Retry:
    whole = retry or JOB_RETRY
    if job.attempts_max is None:
        return whole
    return replace(whole, attempts=job.attempts_max, attempts_unknown=job.attempts_max)


def _refused(job: Job, rule: Retry, delay_s: float) -> str | None:
    """Why the attempt that the handler asks for cannot be; None when it can."""
    if job.attempt >= rule.attempts:
        return "after its last one"
    if rule.within_s is not None and job.elapsed_s + delay_s > rule.within_s:
        return f"later than {rule.within_s:g} s after the first"
    return None


def _caused(by: Exception) -> Failure:
    failure = INTERNAL_ERROR()
    failure.__cause__ = by
    return failure


def _counts(job: Job, code: str) -> dict[str, int]:
    import json

    counts: dict[str, int] = json.loads(job.code_counts) if job.code_counts else {}
    counts[code] = counts.get(code, 0) + 1
    return counts


def _upstream_status(failure: Failure) -> int | None:
    status = failure.details.get("upstream_status") if failure.remote is None else failure.remote.status
    return status if isinstance(status, int) and 100 <= status <= 999 else None


def _us(seconds: float) -> int:
    return int(max(0.0, min(seconds, limits().delay_s_max)) * 1_000_000)
