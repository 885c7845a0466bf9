"""Ends joined connections that lead to a server which the store no longer uses.

A server that hangs keeps its sockets open and never answers. The store's own calls have a time limit, the connections
of the user's code usually have none: a thread that commits on one waits for as long as the server hangs. So once the
store has found the server that takes writes now, the joined connections that lead to another one are ended. They fail
like every lost connection, and the work on them is tried again.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from weakref import WeakKeyDictionary, WeakSet

from holdfast.base import REAL
from holdfast.catalog.failure import Failure
from holdfast.store.call_limit import shut_socket

PAUSE_S = 0.25
"""Interval between attempts to find a server that accepts writes."""
LOOK_S_MAX = 600.0
"""Maximum time to look for one; the next change of the server starts another look."""

_listing = threading.Lock()
_all: WeakSet[JoinedConnections] = WeakSet()
"""Those of all stores of this process: the store that notices is often not the one whose connections wait."""


class JoinedConnections:
    """The connections that were joined to one store, each with the start time of its server. Threads may share it."""

    def __init__(self, target: str, find: Callable[[], int]) -> None:
        """
        Args:
            target: the address of the database.
            find: returns the start time of the server that accepts writes; raises a Failure while there is none.
        """
        self._target = target
        self._find = find
        self._lock = threading.Lock()
        self._servers: WeakKeyDictionary[object, int] = WeakKeyDictionary()
        self._looking = False
        self._changed = threading.Event()
        """Whether the server has changed since the last look for it began."""
        self._closed = threading.Event()
        with _listing:
            _all.add(self)

    def __contains__(self, driver: object) -> bool:
        with self._lock:
            return driver in self._servers

    def add(self, driver: object, started_us: int) -> None:
        """Remember that the connection leads to the server with this start time."""
        with self._lock, suppress(TypeError):  # a connection without weak references is asked again each time
            self._servers[driver] = started_us

    def end_stale(self) -> None:
        """Close the connections to all servers but the one that accepts writes, as soon as one does; in a thread."""
        self._changed.set()
        with self._lock:
            if self._looking or not any(one._servers for one in self._alike()):
                return
            self._looking = True
        threading.Thread(target=self._look, name="holdfast-stale", daemon=True).start()

    def close(self) -> None:
        """Stop looking for the server that takes writes."""
        self._closed.set()

    def _look(self) -> None:
        until_s = REAL.monotonic_s() + LOOK_S_MAX
        try:
            while REAL.monotonic_s() < until_s and not self._closed.is_set():
                self._changed.clear()
                with suppress(Failure):
                    self._end_all_but(self._find())
                    if self._is_over():
                        return
                self._closed.wait(PAUSE_S)
        except BaseException:
            self._looking = False
            raise
        self._looking = False

    def _is_over(self) -> bool:
        """Whether the look is over. Where the server has changed meanwhile, it found the one that was left."""
        with self._lock:
            self._looking = self._changed.is_set()
            return not self._looking

    def _end_all_but(self, started_us: int) -> None:
        ended = sum(one._end_others(started_us) for one in self._alike())
        if ended:
            logging.getLogger("holdfast.store").warning(
                "%d joined connections led to a server that was left, and were ended", ended
            )

    def _end_others(self, started_us: int) -> int:
        with self._lock:
            stale = [driver for driver, started in self._servers.items() if started != started_us]
            for driver in stale:
                del self._servers[driver]
        for driver in stale:
            shut_socket(driver)
        return len(stale)

    def _alike(self) -> list[JoinedConnections]:
        with _listing:
            return [one for one in _all if one._target == self._target]

    def _forget(self) -> None:
        """In a forked process the connections are the parent's, and the thread does not exist."""
        self._lock = threading.Lock()
        self._servers = WeakKeyDictionary()
        self._looking = False
        self._changed = threading.Event()


def _after_fork() -> None:
    global _listing
    _listing = threading.Lock()
    for one in _all:
        one._forget()


os.register_at_fork(after_in_child=_after_fork)
