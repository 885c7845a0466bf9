"""Work on many dead letters: begun by a form, done in a thread, written down as it goes.

How far it has come is in the audit row, which each transaction of the work brings up to date: every process can show
it. Whatever stops the work half-way, doing it again does the rest.
"""

from __future__ import annotations

import threading
from typing import Any

from holdfast.catalog import Failure
from holdfast.catalog.core import INTERNAL_ERROR
from holdfast.console.deeds import AuditedStore, Deed, note
from holdfast.console.faults import CONSOLE_BUSY
from holdfast.console.receivers import Reviver
from holdfast.store import Store, Tx
from holdfast.worker import DeadFilter, DeadLetters
from holdfast.worker.dead import Progress

RUNNING_MAX = 4
"""So many at once in this process."""
CLOSE_S_MAX = 10.0


class Stopped(Exception):
    """The process ends; the rest is left for another time."""


class Bulk:
    """The work that this process does. Threads may share it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._running: dict[str, threading.Thread] = {}
        self._stopping = False

    def begin(self, deed: Deed, chosen: DeadFilter) -> None:
        """Write the deed down and begin it.

        Raises:
            Failure: CONSOLE_BUSY when as much as may be is running.
        """
        with self._lock:
            if self._stopping or len(self._running) >= RUNNING_MAX:
                raise CONSOLE_BUSY(retry_after_s=5.0)
            self._store.atomic(lambda tx: note(tx, deed, "", state="running"))
            thread = threading.Thread(target=self._run, args=(deed, chosen), name=f"console-{deed.verb}", daemon=True)
            self._running[deed.id] = thread
        thread.start()

    def close(self) -> None:
        """Stop after the transactions that are under way."""
        self._stopping = True
        with self._lock:
            running = list(self._running.values())
        for thread in running:
            thread.join(CLOSE_S_MAX)

    def _run(self, deed: Deed, chosen: DeadFilter) -> None:
        try:
            state, result = "done", self._work(deed, chosen)
        except Stopped:
            state, result = "refused", "the process was stopped"
        except Failure as failure:
            state, result = "refused", failure.code
        except Exception:  # noqa: BLE001 - whatever it was, the row must not say that the work goes on
            state, result = "refused", INTERNAL_ERROR.code
        try:
            self._store.atomic(lambda tx: tx.run("console.ended", id=deed.id, state=state, result=result))
        except Failure:
            pass  # the row stays as it is, and is shown as interrupted after a while
        finally:
            with self._lock:
                self._running.pop(deed.id, None)

    def _work(self, deed: Deed, chosen: DeadFilter) -> str:
        dead = DeadLetters(AuditedStore(self._store, lambda tx, result: _grow(tx, deed, result)))
        counted = False

        def look(so_far: Progress) -> None:
            nonlocal counted
            if not counted:
                self._store.atomic(lambda tx: tx.run("console.counted", id=deed.id, total=so_far.total))
                counted = True
            if self._stopping:
                raise Stopped

        reviver = Reviver(self._store)
        if deed.verb == "revive":
            ended = dead.each_batch(chosen, reviver, deed.reason, look)
        else:
            ended = dead.discard_all(chosen, reason=deed.reason, progress=look)
        self._store.atomic(lambda tx: tx.run("console.counted", id=deed.id, total=max(ended.total, ended.done)))
        return f"{reviver.left} left: their endpoint is disabled" if reviver.left else "done"


def _grow(tx: Tx, deed: Deed, result: Any) -> None:
    """One batch more; `result` is the letters it held and how many of them it moved."""
    letters, done = result
    if letters:
        tx.run("console.progress", id=deed.id, done=done, refused=len(letters) - done)
