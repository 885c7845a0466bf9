"""A time limit for a function that blocks.

Python cannot stop a thread, so the function runs in another one and is left behind when its time is up: the caller
goes on, the function ends when it ends. While too many are left behind, no further one is started. A thread whose
function has ended waits a while for the next one, because to start a thread costs more than all the rest.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.base.world import limits
from holdfast.catalog.core import CONCURRENCY_EXCEEDED
from holdfast.guard.gate import Crowded
from holdfast.policy.deadline import left_s, within

if TYPE_CHECKING:
    from queue import SimpleQueue

R = TypeVar("R")

IDLE_S = 10.0
"""Maximum time that an idle thread waits for another call before it ends."""
IDLE_MAX = 64

_lock = threading.Lock()
_left_behind = 0
_idle: list[_Thread] = []
"""Threads without a call, the last one to become idle first in turn, so that those too many end."""


def call_within(seconds: float, function: Callable[..., R], *args: Any, **kwargs: Any) -> R:
    """Call the function in another thread and wait for it no longer than this, or than the deadline allows.

    Raises:
        TimeoutError: it did not end in time; what it was doing may still happen.
        Crowded: too many earlier calls have not ended yet.
    """
    _refuse_when_crowded()
    seconds = min(seconds, left_s())
    call = _Call()

    def run() -> tuple[bool, Any]:
        try:
            with within(seconds):
                return True, function(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001 - carried over to the caller's thread as it is
            return False, error

    _thread().take(call, copy_context(), run)
    good, value = call.outcome(seconds)
    if good:
        return value  # type: ignore[no-any-return]
    try:
        raise value
    finally:
        del value  # as above


async def await_within(seconds: float, function: Callable[..., Awaitable[R]], *args: Any, **kwargs: Any) -> R:
    """Await the coroutine no longer than this, or than the deadline allows; then it is cancelled.

    Raises:
        TimeoutError: it did not end in time; what it was doing may have happened.
    """
    import asyncio  # sync programs should not pay for loading it

    seconds = min(seconds, left_s())
    try:
        async with asyncio.timeout(None if seconds == inf else seconds):
            with within(seconds):
                return await function(*args, **kwargs)
    except TimeoutError as late:
        # The time limit's own exception says nothing by itself; one that the function raised stays as it is.
        if not late.args and isinstance(late.__cause__, asyncio.CancelledError):
            late.args = (f"no result within {seconds:g} s; the call was cancelled",)
        raise


class _Thread:
    """A thread for one call after another."""

    def __init__(self) -> None:
        self._given = threading.Lock()
        self._given.acquire()
        self._work: tuple[_Call, Context, Callable[[], tuple[bool, Any]]] | None = None
        threading.Thread(target=self._serve, name="holdfast-timed", daemon=True).start()

    def take(self, call: _Call, context: Context, run: Callable[[], tuple[bool, Any]]) -> None:
        """In the caller: hand a call over."""
        self._work = call, context, run
        self._given.release()

    def _serve(self) -> None:
        while True:
            if not self._given.acquire(timeout=IDLE_S):
                with _lock:
                    if self not in _idle:
                        continue  # it was chosen at the last moment, and its call is on the way
                    _idle.remove(self)
                return
            if not self._answer():
                return

    def _answer(self) -> bool:
        """Run the call, and be idle before its caller knows; False when enough others are. Keeps nothing of it."""
        assert self._work is not None
        (call, context, run), self._work = self._work, None
        outcome = context.run(run)
        with _lock:
            wanted = len(_idle) < IDLE_MAX
            if wanted:
                _idle.append(self)
        call.end(outcome)
        del outcome  # an exception's traceback holds this frame: without this the two would keep each other alive
        return wanted


def _thread() -> _Thread:
    with _lock:
        if _idle:
            return _idle.pop()
    return _Thread()


def _after_fork() -> None:
    """A child has none of its parent's threads, and must not wait for a lock that one of them held."""
    global _lock, _left_behind
    _lock = threading.Lock()
    _left_behind = 0
    _idle.clear()


os.register_at_fork(after_in_child=_after_fork)


class _Call:
    """One call in a thread: its outcome, or that nobody waits for it any more."""

    def __init__(self) -> None:
        from queue import SimpleQueue  # loaded by the first call that is timed

        self._box: SimpleQueue[tuple[bool, Any]] = SimpleQueue()
        self._left = False

    def end(self, outcome: tuple[bool, Any]) -> None:
        """In the thread: hand the outcome over, or drop it when the caller has gone on."""
        global _left_behind
        with _lock:
            if self._left:
                _left_behind -= 1
            else:
                self._box.put(outcome)

    def outcome(self, seconds: float) -> tuple[bool, Any]:
        """In the caller: wait for the outcome.

        Raises:
            TimeoutError: it did not come in time.
        """
        from queue import Empty

        try:
            return self._box.get(timeout=min(max(seconds, 0.0), threading.TIMEOUT_MAX))
        except Empty:
            late = self._leave_behind()
        except BaseException:
            self._leave_behind()  # the caller was interrupted; the thread goes on all the same
            raise
        if late is not None:
            return late
        raise TimeoutError(f"no result within {seconds:g} s; the call goes on in the background")

    def _leave_behind(self) -> tuple[bool, Any] | None:
        """Wait no longer; an outcome that came at the last moment still counts."""
        global _left_behind
        with _lock:
            if not self._box.empty():
                return self._box.get()
            self._left = True
            _left_behind += 1
            return None


def _refuse_when_crowded() -> None:
    if _left_behind >= limits().abandoned_calls_max:
        raise Crowded(
            CONCURRENCY_EXCEEDED,
            "Too many calls that ran out of time are still running.",
            details={"abandoned": _left_behind},
            retry_after_s=1.0,
        )
