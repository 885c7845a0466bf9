"""Exit codes: each has one meaning in every command."""

from __future__ import annotations

from enum import IntEnum

from holdfast.catalog import Failure

USAGE_STATUSES = frozenset({400, 413, 415, 422})
NOT_FOUND_STATUSES = frozenset({404, 410})
SERVER_ERROR = 500
DATABASE_CODES = frozenset(
    {
        "DATABASE_NOT_FOUND",
        "DATABASE_UNUSABLE",
        "DRIVER_MISSING",
        "SCHEMA_OUTDATED",
        "DATABASE_CONNECTION_ERROR",
        "DATABASE_POOL_EXHAUSTED",
        "DATABASE_READ_ONLY",
        "DATABASE_TIMEOUT",
        "DATABASE_ERROR",
        "STORAGE_FULL",
    }
)


class ExitCode(IntEnum):
    """What the exit code of a command means."""

    DONE = 0
    """It was done, or there was nothing to do."""
    FAILED = 1
    """It failed: one line says the code of the fault, what happened and what to do."""
    MISUSED = 2
    """The command was used wrongly, or a value is not usable."""
    NOT_FOUND = 3
    """There is no such job, queue, breaker, endpoint, event, key or entry."""
    REFUSED = 4
    """Its present state does not allow it, or the answer to the question was no."""
    NO_DATABASE = 5
    """The database cannot be used: it is not there, does not answer, takes no writes, or has not got our tables."""
    FOUND = 6
    """A check found something: a rule over its threshold, a change that breaks clients."""


def exit_code(failure: Failure) -> ExitCode:
    """The exit code that a failure ends a command with."""
    if failure.code in DATABASE_CODES:
        return ExitCode.NO_DATABASE
    if failure.status in USAGE_STATUSES:
        return ExitCode.MISUSED
    if failure.status in NOT_FOUND_STATUSES:
        return ExitCode.NOT_FOUND
    return ExitCode.FAILED if failure.status >= SERVER_ERROR else ExitCode.REFUSED
