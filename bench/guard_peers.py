"""The work to protect, and the peers of `Link`: three attempts, `ConnectionError` retried, no delay, no logging.

All peers are used as decorators and re-raise the last error. `bench/README.md` says why each is set up as it is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import backoff
import redress
import stamina
import tenacity

ATTEMPTS = 3

Work = Callable[[int], Any]
Decorator = Callable[[Work], Work]


def steady(value: int) -> int:
    """Always works."""
    return value


async def steady_async(value: int) -> int:
    """Always works."""
    return value


def flaky() -> Work:
    """A function that fails every other time, so that each guarded call takes one retry."""
    failed = False

    def work(value: int) -> int:
        nonlocal failed
        failed = not failed
        if failed:
            raise ConnectionError("refused")
        return value

    return work


def flaky_async() -> Work:
    """The same, awaited."""
    failed = False

    async def work(value: int) -> int:
        nonlocal failed
        failed = not failed
        if failed:
            raise ConnectionError("refused")
        return value

    return work


WORKS: dict[tuple[str, str], Callable[[], Work]] = {
    ("success", "sync"): lambda: steady,
    ("success", "async"): lambda: steady_async,
    ("one retry", "sync"): flaky,
    ("one retry", "async"): flaky_async,
}
"""Which work each path takes."""


def loop(work: Work) -> Work:
    """What one writes without a library."""

    def guarded(value: int) -> Any:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return work(value)
            except ConnectionError:
                if attempt == ATTEMPTS:
                    raise
        return None

    return guarded


def loop_async(work: Work) -> Work:
    """The same, awaited."""

    async def guarded(value: int) -> Any:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await work(value)
            except ConnectionError:
                if attempt == ATTEMPTS:
                    raise
        return None

    return guarded


def _transient(error: BaseException) -> redress.ErrorClass:
    return redress.ErrorClass.TRANSIENT if isinstance(error, ConnectionError) else redress.ErrorClass.PERMANENT


def _no_delay(context: redress.BackoffContext) -> float:
    return 0.0


PEERS: dict[str, Decorator] = {
    "tenacity": tenacity.retry(
        stop=tenacity.stop_after_attempt(ATTEMPTS),
        wait=tenacity.wait_none(),
        retry=tenacity.retry_if_exception_type(ConnectionError),
        reraise=True,
    ),
    "stamina": stamina.retry(
        on=ConnectionError, attempts=ATTEMPTS, timeout=None, wait_initial=0, wait_jitter=0, wait_max=0
    ),
    "redress": redress.retry(classifier=_transient, strategy=_no_delay, max_attempts=ATTEMPTS),
    "backoff": backoff.on_exception(
        backoff.constant, ConnectionError, max_tries=ATTEMPTS, interval=0, jitter=None, logger=None
    ),
}
"""Each decorates sync and async functions alike."""

stamina.instrumentation.set_on_retry_hooks([])


async def _no_pause(seconds: float, result: Any = None) -> Any:
    return result


@contextmanager
def sleepless() -> Iterator[None]:
    """Make a sleep of zero seconds free for every peer.

    Most of them sleep even when the delay is zero. That is a system call, or a turn of the event loop, whose price
    is the machine's and not the library's.
    """
    with patch.object(time, "sleep", lambda seconds: None), patch.object(asyncio, "sleep", _no_pause):
        yield
