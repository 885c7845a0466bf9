"""A worker in a process of its own: it works until a signal, or the parent, says stop.

The first word stops it gracefully: what runs is finished within the grace time. The second gives everything back and
does not wait. A parent that is gone counts as the first word.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from holdfast.catalog import Failure
from holdfast.store import Store
from holdfast.worker import ledger
from holdfast.worker.lifeline import Ask, Lifeline
from holdfast.worker.signals import STOPPING, Bell, Words
from holdfast.worker.worker import Worker

LOOK_S = 1.0
"""Interval between checks that the worker is still alive."""
STOPPING_LOOK_S = 0.05


class Ended(Enum):
    """How the work came to its end."""

    STOPPED = "stopped"
    """Everything was finished, or released after the grace time."""
    LEFT = "left"
    """Somebody was in a hurry: what ran was released, and its threads may still run."""
    BROKEN = "broken"
    """The worker ended without having been asked."""


def attend(
    store: Store, worker: Worker, lifeline: Lifeline | None = None, *, started: Callable[[], None] | None = None
) -> Ended:
    """Start the worker and stay with it until its end.

    Raises:
        Failure: the database cannot be reached.
    """
    with Bell(STOPPING) as bell:
        worker.start()
        if lifeline is not None:
            lifeline.ready()
        if started is not None:
            started()
        asked = _Asked(bell, lifeline)
        stopping = False
        while not worker.join(0):
            asked.listen(STOPPING_LOOK_S if stopping else LOOK_S)
            if asked.leave:
                worker.stop()
                _give_back(store, worker)
                return Ended.LEFT
            if asked.stop and not stopping:
                stopping = True
                worker.stop()
        return Ended.STOPPED if stopping else Ended.BROKEN


class _Asked:
    """What was asked so far, by signals and by the parent."""

    def __init__(self, bell: Bell, lifeline: Lifeline | None) -> None:
        self._bell = bell
        self._lifeline = lifeline
        self._words = Words()
        self.stop = False
        self.leave = False

    def listen(self, seconds: float) -> None:
        self._bell.wait(seconds, *([] if self._lifeline is None else [self._lifeline]))
        self._words.hear(self._bell.rung())
        if self._lifeline is not None:
            self._heed(self._lifeline, self._lifeline.heard())
        self.stop = self.stop or self._words.said
        self.leave = self.leave or self._words.again

    def _heed(self, lifeline: Lifeline, heard: bytes | None) -> None:
        # A service manager may signal parent and child alike: the parent's word does not count as a second one.
        if heard is None:
            lifeline.close()
            self._lifeline = None
            self.stop = True
        else:
            self.stop = self.stop or bool(heard)
            self.leave = self.leave or Ask.LEAVE.value in heard


def _give_back(store: Store, worker: Worker) -> None:
    """Release every job that is held; a handler that goes on holds a token that no longer counts.

    The lease itself is left to run out: should a claim be under way this very moment, others find its jobs then.
    """
    held_by = worker.id

    reason = "the worker was told to leave at once"
    try:
        store.atomic(lambda tx: ledger.release_all(tx, held_by, reason), repeatable=True)
    except Failure:
        return  # the lease runs out, and others take the jobs back
