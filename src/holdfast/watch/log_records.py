"""Records of the standard `logging` that no handler takes, written as lines of our own log.

Python itself writes such a record as bare text, which in a log of JSON is not a line that a machine can read. Where the
program has set up `logging`, its handlers take the records, and nothing comes here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from holdfast.base import Facts
from holdfast.base.tracebacks import read_traceback

VERB = "log.written"
OURS = "holdfast"
"""The logger above all of our own."""
LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

Write = Callable[[str, str, Facts], None]
"""Writes one line: its level, its event, its facts."""


class _Unhandled(logging.Handler):
    """What Python asks as a last resort."""

    def __init__(self, write: Write, level: str) -> None:
        super().__init__(LEVELS[level])
        self._write = write

    def emit(self, record: logging.LogRecord) -> None:
        try:
            facts: dict[str, Any] = {"area": record.name, "technical": record.getMessage()}
            if record.exc_info and record.exc_info[1] is not None:
                facts["traceback"] = read_traceback(record.exc_info[1]).stored()
            self._write(_level(record.levelno), VERB, facts)
        except Exception:  # noqa: BLE001 - as every handler of `logging`: a line that cannot be written stops nobody
            self.handleError(record)


def write_unhandled(write: Write, level: str) -> Callable[[], None]:
    """Write them from now on; what is returned ends it.

    Args:
        level: the least that is written; our own loggers let pass what is as loud as this.
    """
    end = _resort_to(_Unhandled(write, level))
    ours = logging.getLogger(OURS)
    before = ours.level
    if LEVELS[level] < ours.getEffectiveLevel():
        ours.setLevel(LEVELS[level])

    def ended() -> None:
        end()
        ours.setLevel(before)

    return ended


def drop_unhandled() -> Callable[[], None]:
    """Write none of them from now on; what is returned ends it."""
    return _resort_to(logging.NullHandler())


def _resort_to(handler: logging.Handler) -> Callable[[], None]:
    before, logging.lastResort = logging.lastResort, handler

    def end() -> None:
        if logging.lastResort is handler:
            logging.lastResort = before

    return end


def _level(number: int) -> str:
    """The name of the loudest level that is not above this number."""
    return next((name for name, least in reversed(LEVELS.items()) if number >= least), "debug")
