"""Work on many dead letters that a form began: done by threads of this process, followed by its row in the audit."""

from __future__ import annotations

import threading
from contextlib import suppress

from holdfast.catalog import Failure
from holdfast.console.faults import CONSOLE_BUSY
from holdfast.operate import Actor, bulk
from holdfast.store import Store
from holdfast.worker import DeadFilter

RUNNING_MAX = 4
"""The number of works that this process does at once."""
CLOSE_S_MAX = 10.0


class Background:
    """The work that this process does. Threads may share it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._running: dict[str, threading.Thread] = {}
        self._stopping = False

    def begin(self, verb: bulk.Verb, chosen: DeadFilter, *, actor: Actor, reason: str | None) -> str:
        """Write the work down and begin it; the id of its row.

        Raises:
            Failure: CONSOLE_BUSY; BAD_REQUEST when the reason is too long.
        """
        with self._lock:
            self._check_room()
            return self._start(bulk.begin(self._store, verb, chosen, actor=actor, reason=reason))

    def resume(self, action_id: str, *, actor: Actor) -> str:
        """Go on with work that was interrupted; the id of its row.

        Raises:
            Failure: CONSOLE_BUSY; ACTION_NOT_FOUND; ACTION_NOT_RESUMABLE.
        """
        with self._lock:
            self._check_room()
            return self._start(bulk.resume(self._store, action_id, actor=actor))

    def close(self) -> None:
        """Stop after the transactions that are under way; what is left can be resumed."""
        self._stopping = True
        with self._lock:
            running = list(self._running.values())
        for thread in running:
            thread.join(CLOSE_S_MAX)

    def _check_room(self) -> None:
        if self._stopping or len(self._running) >= RUNNING_MAX:
            raise CONSOLE_BUSY(retry_after_s=5.0)

    def _start(self, work: bulk.Work) -> str:
        thread = threading.Thread(target=self._run, args=(work,), name=f"console-{work.verb}", daemon=True)
        self._running[work.action.id] = thread
        thread.start()
        return work.action.id

    def _run(self, work: bulk.Work) -> None:
        try:
            # Whatever stopped it stands in its row, where the operator reads it.
            with suppress(Failure, bulk.Stopped):
                bulk.run(self._store, work, stopping=lambda: self._stopping)
        finally:
            with self._lock:
                self._running.pop(work.action.id, None)
