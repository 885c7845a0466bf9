"""A time limit for every call to PostgreSQL: a server that hangs keeps its sockets open and never answers.

The kernel notices a machine that is gone, not a process that stands still. So a thread watches the calls under way, and
shuts the socket of one that takes too long: the caller that waits for it gets the error of a lost connection.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import ref

from holdfast.base import REAL

if TYPE_CHECKING:
    from psycopg import Connection

LOOKS_PER_LIMIT = 15
STOP_S = 5.0
DRIVERS = {"psycopg", "psycopg2"}
"""Drivers that say by an exception of their own that a connection has no socket any more."""


class CallLimit:
    """Watches the calls of one process to one database."""

    def __init__(self, limit_s: float, hung: Callable[[list[Connection[tuple[Any, ...]]]], None]) -> None:
        """Watch; `hung` is called, in a thread of its own, with the connections whose calls are ended."""
        self._limit_s = limit_s
        self._hung = hung
        self._under_way: dict[int, tuple[Connection[tuple[Any, ...]], float]] = {}
        """The calls under way, each with the time at which it is ended."""
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()

    def begin(self, connection: Connection[tuple[Any, ...]], within_s: float | None = None) -> None:
        """A call begins, or goes on after a part of it was done.

        Args:
            within_s: the limit of this call, where it is shorter than that of all others.
        """
        limit_s = self._limit_s if within_s is None else min(within_s, self._limit_s)
        self._under_way[id(connection)] = connection, REAL.monotonic_s() + limit_s
        if self._thread is None:
            self._start()

    def end(self, connection: Connection[tuple[Any, ...]]) -> None:
        """The call is over."""
        self._under_way.pop(id(connection), None)

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                look_s = self._limit_s / LOOKS_PER_LIMIT
                arguments = (ref(self), self._stopped, look_s)
                self._thread = threading.Thread(target=_watch, args=arguments, name="holdfast-call-limit", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """Watch no more; returns when the thread has ended."""
        self._stopped.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(STOP_S)

    def look(self) -> None:
        """End the calls that have taken too long."""
        now_s = REAL.monotonic_s()
        late = [call for call in list(self._under_way.values()) if call[1] < now_s]
        if not late:
            return
        # First of all: the callers that wait on them connect anew as soon as they are shut.
        self._hung([connection for connection, _ in late])
        for call in late:
            connection = call[0]
            if self._under_way.get(id(connection)) is call:  # and no other one on the same connection
                self._under_way.pop(id(connection), None)
                shut_socket(connection)


class NoLimit(CallLimit):
    """For calls that may take any time."""

    def __init__(self) -> None:
        super().__init__(float("inf"), lambda _: None)

    def begin(
        self,
        connection: Connection[tuple[Any, ...]],  # noqa: ARG002 - as it is declared
        within_s: float | None = None,  # noqa: ARG002 - as it is declared
    ) -> None:
        return

    def end(self, connection: Connection[tuple[Any, ...]]) -> None:  # noqa: ARG002 - as it is declared
        return


def _watch(watched: ref[CallLimit], stopped: threading.Event, look_s: float) -> None:
    """Look now and then, as long as there is something to watch over."""
    while not stopped.wait(look_s):
        limit = watched()
        if limit is None:
            return
        limit.look()
        del limit


def shut_socket(connection: Any) -> None:
    """Shut the socket under a caller that waits on it; the connection itself is the caller's to close."""
    try:
        with socket.socket(fileno=os.dup(connection.fileno())) as same:
            same.shutdown(socket.SHUT_RDWR)
    except (OSError, ValueError, AttributeError):
        return  # it has ended at this very moment
    except Exception as gone:
        if type(gone).__module__.split(".")[0] not in DRIVERS:
            raise
