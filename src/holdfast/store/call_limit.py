"""A time limit for every call to PostgreSQL, because a server that hangs keeps its sockets open and never answers.

The kernel notices the loss of a machine, not a process that is suspended. So a thread watches the calls in progress and
shuts down the socket of a call that takes too long: its caller gets the error of a lost connection.
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
"""Drivers that raise an exception of their own when a connection no longer has a socket."""


class CallLimit:
    """Watches the calls of one process to one database. Threads may share it."""

    def __init__(self, limit_s: float, hung: Callable[[list[Connection[tuple[Any, ...]]]], None]) -> None:
        """
        Args:
            limit_s: maximum time of a call.
            hung: called, in the thread that watches, with the connections whose calls are about to be aborted.
        """
        self._limit_s = limit_s
        self._hung = hung
        self._under_way: dict[int, tuple[Connection[tuple[Any, ...]], float]] = {}
        """The calls in progress, each with the time at which it is aborted."""
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()

    def begin(self, connection: Connection[tuple[Any, ...]], within_s: float | None = None) -> None:
        """A call begins, or continues after a part of it was done.

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
        """Stop watching; returns when the thread has ended."""
        self._stopped.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(STOP_S)

    def look(self) -> None:
        """Abort the calls that have taken too long."""
        now_s = REAL.monotonic_s()
        late = [call for call in list(self._under_way.values()) if call[1] < now_s]
        if not late:
            return
        # Before the sockets are shut down: from then on their callers connect again.
        self._hung([connection for connection, _ in late])
        for call in late:
            connection = call[0]
            if self._under_way.get(id(connection)) is call:  # not a later call on the same connection
                self._under_way.pop(id(connection), None)
                shut_socket(connection)


class NoLimit(CallLimit):
    """For calls that may take any time, such as migrations."""

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
    """Shut down the socket that a caller waits on; the caller itself closes the connection."""
    try:
        with socket.socket(fileno=os.dup(connection.fileno())) as same:
            same.shutdown(socket.SHUT_RDWR)
    except (OSError, ValueError, AttributeError):
        return  # it has just been closed
    except Exception as gone:
        if type(gone).__module__.split(".")[0] not in DRIVERS:
            raise
