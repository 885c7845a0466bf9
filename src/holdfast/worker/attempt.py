"""One attempt at a job: call the handler, and read whatever comes of it as an outcome."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from holdfast.base import Json, bus, encode, limits, monotonic_s
from holdfast.base.codec import why_no_json
from holdfast.catalog import Failure, continued, enriched
from holdfast.catalog.core import DEADLINE_EXCEEDED, INTERNAL_ERROR, TRANSACTION_ROLLED_BACK
from holdfast.catalog.durable import JOB_RESULT_INVALID, JOB_TIMEOUT, KIND_UNKNOWN
from holdfast.lifecycle import Cancel, RetryIn, Snooze
from holdfast.policy import Breaker, within
from holdfast.worker import log_lines, telling
from holdfast.worker.handlers import Handler
from holdfast.worker.job import Job, JobLost
from holdfast.worker.ledger import Finished
from holdfast.worker.settlement import Settlement, answered, cancelled, failed

if TYPE_CHECKING:
    from types import FrameType

    from holdfast.base.tracebacks import Traceback

Outcome = Finished | Settlement | None
"""How an attempt ended; None when the handler has settled the job inside its own transaction."""


NOT_HELD = "the handler finished the job where it was not held"
NOT_COMMITTED = "the handler finished the job in a transaction that was not committed"


class ResultRefused(ValueError):
    """What the handler returned cannot be kept: it has no JSON form, or is too large."""


def attempt(handler: Handler | None, job: Job) -> Outcome:
    """Run a handler that blocks."""
    started_s = job.started_s = monotonic_s()
    if job.cancelled:
        return cancelled(job, "cancelled before it ran", 0)
    try:
        if handler is None:
            raise KIND_UNKNOWN(kind=job.kind)
        limit_s = time_limit_s(handler, job)
        if limit_s is None and job.trace is None:
            result = handler.function(job)
        else:
            with within(limit_s), enriched(**_trace(job)):
                result = handler.function(job)
        return settled(handler, job, result, started_s)
    except BaseException as error:  # noqa: BLE001 - here an attempt is settled, even if it tried to end the thread
        return unsettled(handler, job, error, started_s)


async def attempt_async(handler: Handler, job: Job) -> Outcome:
    """Run a handler that is a coroutine function; past its time limit it is cancelled."""
    import asyncio

    started_s = job.started_s = monotonic_s()
    if job.cancelled:
        return cancelled(job, "cancelled before it ran", 0)
    limit_s = time_limit_s(handler, job)
    clock = asyncio.timeout(limit_s)
    try:
        if limit_s is None and job.trace is None:
            result = await handler.function(job)
        else:
            async with clock:
                with within(limit_s), enriched(**_trace(job)):
                    result = await handler.function(job)
        return settled(handler, job, result, started_s)
    except BaseException as error:  # noqa: BLE001 - here an attempt is settled, even if it tried to end the loop
        if isinstance(error, TimeoutError) and limit_s is not None and clock.expired():
            return overdue(handler, job, limit_s, started_s, stopped_at=error)
        return unsettled(handler, job, error, started_s)


def _trace(job: Job) -> dict[str, str]:
    """The trace in which the job was enqueued, with a span for this attempt."""
    if job.trace is None:
        return {}
    known = continued(job.trace)
    job.span = known["span_id"]
    return known


def settled(handler: Handler, job: Job, result: Any, started_s: float) -> Outcome:
    """The handler returned."""
    if job.finished:
        _tell_finished(job)
        return None
    if job.finishing:
        # Only the store knows whether the transaction came through; if it did, the job is told as finished.
        lost = replace(TRANSACTION_ROLLED_BACK, technical=NOT_COMMITTED)
        return failed(job, lost(), handler.retry, elapsed_us(started_s), blamed=False)
    if result is None:
        return job, None, elapsed_us(started_s)
    if isinstance(result, Snooze | Cancel | RetryIn):
        return answered(job, result, elapsed_us(started_s), handler.retry)
    return job, result_text(result), elapsed_us(started_s)


def unsettled(handler: Handler | None, job: Job, error: BaseException, started_s: float) -> Outcome:
    """The handler raised; what it finished inside its own transaction stays finished."""
    if job.finished:
        _tell_finished(job)
        return None
    # Reading a traceback is not the handler's time.
    took_us = elapsed_us(started_s)
    if job.cancelled:
        return cancelled(job, "cancelled while it ran", took_us)
    retry = None if handler is None else handler.retry
    try:
        failure = _read(handler, error)
        if failure.code == DEADLINE_EXCEEDED.code and handler is not None:
            limit_s = time_limit_s(handler, job)
            if limit_s is not None and monotonic_s() - started_s >= limit_s:
                return overdue(handler, job, limit_s, started_s, stopped_at=error)
        traceback = _traceback(handler, error)
        return failed(job, failure, retry, took_us, blamed=Breaker.blames(failure), traceback=traceback)
    except Exception as broken:  # noqa: BLE001 - a broken rule or classifier must not leave the attempt unsettled
        traceback = _traceback(handler, broken)
        return failed(job, _our_own(broken), None, took_us, blamed=False, traceback=traceback)


def overdue(
    handler: Handler,
    job: Job,
    limit_s: float,
    started_s: float,
    *,
    stopped_at: BaseException | FrameType | None = None,
) -> Outcome:
    """The handler ran out of time: where it was stopped, or where its thread still is."""
    if job.finished:
        _tell_finished(job)
        return None
    took_us = elapsed_us(started_s)
    failure = JOB_TIMEOUT(kind=job.kind, timeout_s=limit_s)
    traceback = None if stopped_at is None else _traceback(handler, stopped_at)
    return failed(job, failure, handler.retry, took_us, blamed=True, traceback=traceback)


def _tell_finished(job: Job) -> None:
    """The handler's own transaction has settled the job: all that is left is to tell."""
    if bus.listeners or log_lines.wants_finished():
        telling.settled([(job, None, job.took_us)], (), ([], []))


def time_limit_s(handler: Handler, job: Job) -> float | None:
    """How long this attempt may take."""
    return handler.timeout_s if job.timeout_us is None else job.timeout_us / 1_000_000


def result_text(result: Json) -> str:
    """The result as it is stored.

    Raises:
        ResultRefused: it has no JSON form, or is larger than `limits().result_bytes_max`.
    """
    try:
        text = encode(result)
    except (TypeError, ValueError, RecursionError) as error:
        raise ResultRefused(f"the result cannot be kept: {why_no_json(result, error)}") from error
    size, most = len(text.encode()), limits().result_bytes_max
    if size > most:
        raise ResultRefused(f"the result has {size} bytes; at most {most} are kept: store it as an artifact")
    return text


def _read(handler: Handler | None, error: BaseException) -> Failure:
    """The failure that an error is."""
    from holdfast.catalog.classify import DEFAULT_CLASSIFIER

    if isinstance(error, ResultRefused):
        # The work is done: another attempt would do it twice and end the same.
        failure = JOB_RESULT_INVALID()
        failure.__cause__ = error
        return failure
    if isinstance(error, JobLost):
        # If another worker has the job now, that worker settles it, and this settlement comes too late. If none has it,
        # the job was ours, and only the transaction went to a server that did not know it yet, or no longer: that
        # passes.
        failure = replace(TRANSACTION_ROLLED_BACK, technical=NOT_HELD).occur()
        failure.__cause__ = error
        return failure
    return (DEFAULT_CLASSIFIER if handler is None else handler.classifier).classify(error)


def _traceback(handler: Handler | None, error: BaseException | FrameType) -> Traceback | None:
    """Where it was raised; nothing for a declared failure that Holdfast itself raised, as a delivery's are."""
    from holdfast.base.tracebacks import passes_own_code, read_stack, read_traceback

    module = "" if handler is None else getattr(handler.function, "__module__", None) or ""
    home = module.partition(".")[0]
    try:
        if not isinstance(error, BaseException):
            return read_stack(error, JOB_TIMEOUT.code, home=home)
        if isinstance(error, Failure) and not passes_own_code(error, home=home):
            return None
        return read_traceback(error, home=home)
    except Exception:  # noqa: BLE001 - whatever an exception is made of, the attempt is settled
        return None


def _our_own(error: Exception) -> Failure:
    failure = INTERNAL_ERROR()
    failure.__cause__ = error
    return failure


def elapsed_us(started_s: float) -> int:
    return int((monotonic_s() - started_s) * 1_000_000)
