"""Logs: one line for each thing that happened, JSON for machines or aligned text for a terminal.

The whole technical reason is in the line, redacted; `message` is what people are shown. structlog's own configuration
is neither read nor changed.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, MutableMapping
from math import inf
from typing import TYPE_CHECKING, Any, TextIO

from holdfast.base import Facts, bus, encode, monotonic_s, now_us, one_line, redacted_facts, utc_text
from holdfast.base.lazy import name_extra
from holdfast.base.tracebacks import stored_traceback, traceback_text
from holdfast.catalog import current_context
from holdfast.catalog.fault import Severity
from holdfast.watch.counting import HUNG_UP
from holdfast.watch.log_records import LEVELS, write_unhandled

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor, WrappedLogger

QUIET = frozenset({"link.succeeded"})
"""Too many to tell at `info`."""
WARNED = frozenset({
    "job.retried", "job.reclaimed", "job.settled_late", "job.released", "link.retried", "link.gave_up", "link.rejected",
    "breaker.opened", "queue.paused", "switch.flipped", "step.failed",
})  # fmt: skip
WRONG = frozenset({"job.failed", "worker.trouble", "alert.trouble", "exception.caught"})
REPEATED = frozenset({"worker.trouble", "alert.trouble"})
"""What a process meets several times a second while its database is away."""
EVERY_S = 10.0
"""Time in which the same one of these is logged once."""
_CONTEXT = ("request_id", "trace_id", "span_id")


def log_events(
    *, json: bool | None = None, stream: TextIO | None = None, level: str = "info", unhandled: bool = False
) -> Callable[[], None]:
    """Log what the bus tells from now on; what is returned ends it.

    Args:
        json: one JSON object a line, or text for people; unless given, text when the stream is a terminal.
        stream: standard error unless given.
        level: the least that is logged: debug, info, warning or error.
        unhandled: also log records of the standard `logging` that no handler of the program's takes.

    Raises:
        ValueError: there is no such level.
    """
    try:
        import structlog
    except ModuleNotFoundError as missing:
        name_extra(missing)
        raise

    if level not in LEVELS:
        raise ValueError(f"{level!r} is not a level; levels: {', '.join(LEVELS)}")
    out = sys.stderr if stream is None else stream
    as_json = not out.isatty() if json is None else json
    logger = structlog.wrap_logger(
        structlog.PrintLogger(out),
        processors=_processors(as_json=as_json, colours=not as_json and out.isatty()),
        wrapper_class=structlog.BoundLogger,
        context_class=dict,
        cache_logger_on_first_use=False,
    )
    least = LEVELS[level]
    repeats = _Repeats()

    def hear(verb: str, facts: Facts) -> None:
        called = level_of(verb, facts)
        if LEVELS[called] >= least:
            if verb in REPEATED:
                held_back = repeats.held_back(verb, facts.get("code"), facts.get("queue"))
                if held_back is None:
                    return
                facts = {**facts, "held_back": held_back} if held_back else facts
            where = {name: value for name in _CONTEXT if (value := getattr(current_context(), name))}
            getattr(logger, called)(verb, facts={**where, **facts})

    end = bus.listen(hear, writes_log=True)
    if not unhandled:
        return end
    end_records = write_unhandled(lambda called, verb, facts: getattr(logger, called)(verb, facts=facts), level)

    def end_both() -> None:
        end()
        end_records()

    return end_both


def level_of(verb: str, facts: Facts) -> str:
    """How loudly it is told."""
    if verb == "request.served":
        status = facts.get("status") or 0
        if status == HUNG_UP:
            return "debug"
        if status >= 500:
            return "error"
        # Anyone can cause a refusal: it is a warning only where its fault says that it asks for a person.
        return "info" if facts.get("severity") in (None, Severity.NONE) else "warning"
    if verb == "delivery.attempted":
        return {"delivered": "info", "retried": "warning"}.get(str(facts.get("outcome")), "error")
    if verb == "webhook.received":
        return "info" if facts.get("code") is None else "warning"
    if verb == "alert.fired":
        return "error" if facts.get("severity") == Severity.CRITICAL else "warning"
    if verb in WRONG:
        return "error"
    return "warning" if verb in WARNED else "debug" if verb in QUIET else "info"


class _Repeats:
    """When each line was logged last, and how many of its kind were held back since. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[tuple[object, ...], tuple[float, int]] = {}

    def held_back(self, *kind: object) -> int | None:
        """How many were held back before the one that is to be logged now; None holds this one back too."""
        with self._lock:
            logged_s, count = self._seen.get(kind, (-inf, 0))
            now_s = monotonic_s()
            again = now_s - logged_s >= EVERY_S
            self._seen[kind] = (now_s, 0) if again else (logged_s, count + 1)
        return count if again else None


def _processors(*, as_json: bool, colours: bool) -> list[Processor]:
    import structlog

    last: Processor
    if as_json:
        last = structlog.processors.JSONRenderer(serializer=_line)
    else:
        last = structlog.dev.ConsoleRenderer(colors=colours)
    return [structlog.processors.add_log_level, _stamp, _unfold, *([] if as_json else [_one_line]), last]


def _stamp(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    event["timestamp"] = utc_text(now_us())
    return event


def _unfold(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """The facts as fields of their own; none takes the place of what the line itself says."""
    told = event.pop("facts")
    # That of an attempt that is made again is in the journal.
    if event["event"] != "job.retried" and (chain := stored_traceback(told.get("traceback"))):
        event["exception"] = traceback_text(chain)
    facts = redacted_facts({name: value for name, value in told.items() if name != "traceback"})
    for name, value in facts.items():
        event[f"{name}_" if name in ("event", "level", "timestamp", "exception") else name] = value
    return event


def _one_line(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """What others wrote must neither begin a line nor speak to the terminal."""
    return {
        one_line(name): one_line(value) if isinstance(value, str) and name != "exception" else value
        for name, value in event.items()
    }


def _line(event: MutableMapping[str, Any], **_unused: Any) -> str:
    return encode(dict(event))
