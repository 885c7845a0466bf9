"""The mark a link leaves on an exception when it gives up.

It tells the caller why there was no further attempt, and tells an outer link that the retrying has been done, so
that layers do not multiply each other's attempts.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

from holdfast.base import limits
from holdfast.catalog.failure import STAMP, Failure
from holdfast.lifecycle import Stop

_lock = threading.Lock()

latest = 0
"""The number of the newest stamp: a call that starts now can tell newer stamps from stale ones."""


class Stamp(NamedTuple):
    """Who gave up, on what, after how many attempts, and why."""

    link: str
    code: str
    attempts: int
    reason: Stop
    number: int
    failure: Failure | None = None
    """What the link made of an exception that is not a failure itself; without its cause, which carries the stamp."""

    @property
    def retried(self) -> bool:
        """Whether this link, or one inside it, has tried more than once."""
        return self.attempts > 1 or self.reason is Stop.RETRIED_INSIDE


def stamp_of(error: BaseException) -> Stamp | None:
    """The newest stamp on an exception that came out of a link."""
    found = getattr(error, STAMP, None)
    return found if isinstance(found, Stamp) else None


def retried_inside(error: BaseException, *, since: int) -> bool:
    """Whether a link inside has retried this already, since the stamp of that number.

    An exception raised from another, or while handling it, stands for it: wrapping does not wash the stamp off.
    """
    inner: BaseException | None = error
    for _ in range(limits().cause_depth_max):
        if inner is None:
            return False
        stamp = stamp_of(inner)
        if stamp is not None and stamp.number > since and stamp.retried:
            return True
        inner = inner.__cause__ or (None if inner.__suppress_context__ else inner.__context__)
    return False


def refused(refusal: Failure, link: str, reason: Stop) -> Failure:
    """Stamp a refusal: no attempt was made, and the failure itself says all that a note could."""
    refusal.__holdfast__ = Stamp(link, refusal.fault.code, 0, reason, 0)
    return refusal


def put_stamp(
    error: BaseException, *, link: str, code: str, attempts: int, reason: Stop, failure: Failure | None = None
) -> Stamp:
    """Annotate the exception; its type, message and traceback stay as they are."""
    global latest
    with _lock:
        latest += 1
        stamp = Stamp(link, code, attempts, reason, latest, failure)
    try:
        setattr(error, STAMP, stamp)
        _note(error, stamp)
    except Exception:  # noqa: BLE001 - setting an attribute may run the exception's own code
        return stamp  # an exception that takes no attributes passes unmarked
    return stamp


def _note(error: BaseException, stamp: Stamp) -> None:
    if stamp.attempts == 0:
        text = f"holdfast: {stamp.link} made no attempt: {stamp.reason} ({stamp.code})"
    else:
        times = "1 attempt" if stamp.attempts == 1 else f"{stamp.attempts} attempts"
        text = f"holdfast: {stamp.link} gave up after {times}: {stamp.reason} ({stamp.code})"
    if text not in getattr(error, "__notes__", ()):
        error.add_note(text)
