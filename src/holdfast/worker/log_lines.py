"""What became of jobs, in the standard `logging`: a worker tells of failures without being asked.

A retry is a warning, a dead letter an error with its traceback, everything else is for those who ask for it. Where
`holdfast.watch.log_events` writes lines, these are not written a second time.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from holdfast.base import bus, one_line
from holdfast.base.formatting import span
from holdfast.worker.job import Job
from holdfast.worker.settlement import Settlement

if TYPE_CHECKING:
    from logging import Logger

LOGGER = "holdfast.worker"
DEBUG, INFO, WARNING, ERROR = 10, 20, 30, 40
LEVELS = {
    "finished": DEBUG,
    "snoozed": DEBUG,
    "released": INFO,
    "cancelled": INFO,
    "retried": WARNING,
    "reclaimed": WARNING,
    "settled_late": WARNING,
    "failed": ERROR,
}


def are_wanted() -> bool:
    """Whether lines are written at all: by `log_events`, they are told otherwise."""
    return not bus.writers


def wants_finished() -> bool:
    """Whether jobs that went well are told, too: only a program that has set up its logging asks for that."""
    return "logging" in sys.modules and are_wanted() and _logger().isEnabledFor(LEVELS["finished"])


def log_finished(jobs: Iterable[tuple[Job, int | None]], verb: str = "finished") -> None:
    """One line for each job that is done."""
    logger = _logger()
    for job, duration_us in jobs:
        took = "" if duration_us is None else f" in {span(duration_us / 1_000_000)}"
        logger.log(LEVELS[verb], "%s %s%s", _named(job), verb.replace("_", " "), took, extra=_extra(job, verb))


def log_settled(settlements: Iterable[tuple[Settlement, str]]) -> None:
    """One line for each attempt that did not finish its job; a dead letter comes with its traceback."""
    logger = _logger()
    for one, verb in settlements:
        level = LEVELS.get(verb, INFO)
        if not logger.isEnabledFor(level):
            continue
        text = f"{_named(one.job)} {_sentence(one, verb)}"
        extra = {**_extra(one.job, verb), "code": one.code, "place": one.place, "remote_code": one.remote_code}
        logger.log(level, "%s%s", one_line(text), _traceback(one) if verb == "failed" else "", extra=extra)


def log_trouble(worker: str, code: str, technical: str) -> None:
    """The worker itself is in trouble: its database fails, or its handlers never return."""
    if are_wanted():
        _logger().error("worker %s: %s: %s", worker, code, one_line(technical), extra={"code": code, "worker": worker})


def _logger() -> Logger:
    import logging  # loaded by the first line: most programs that come here have loaded it

    return logging.getLogger(LOGGER)


def _named(job: Job) -> str:
    return f"job {job.id} ({one_line(job.kind)} in queue {one_line(job.queue)})"


def _extra(job: Job, verb: str) -> dict[str, object]:
    return {"job_id": job.id, "queue": job.queue, "kind": job.kind, "attempt": job.attempt, "verb": verb}


def _sentence(one: Settlement, verb: str) -> str:
    where = f" at {one.place}" if one.place else ""
    if verb == "failed":
        return f"failed for good on attempt {one.job.attempt}{where}: {_coded(one)}{one.reason or one.technical}"
    if verb == "retried":
        again = span((one.delay_us or 0) / 1_000_000) or "0 s"
        return f"failed on attempt {one.job.attempt}{where}, next in {again}: {_coded(one)}{one.reason}"
    return f"{verb.replace('_', ' ')}: {_coded(one)}{one.reason or ''}".rstrip(": ")


def _coded(one: Settlement) -> str:
    return f"{one.code}: " if one.code else ""


def _traceback(one: Settlement) -> str:
    from holdfast.base.tracebacks import stored_traceback, traceback_text

    chain = stored_traceback(one.traceback)
    return f"\n{traceback_text(chain)}" if chain else ""
