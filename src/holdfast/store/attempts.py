"""Attempts to connect to PostgreSQL: whether the server is away, since when, and why.

A caller that gets no connection must learn the true cause: all of them are in use, or none can be made. The last
attempt shows which. If the pool was full and made no attempt, one is made to find out; and while a server is away, a
thread keeps trying, so that callers need not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from holdfast.base import monotonic_s

if TYPE_CHECKING:
    from psycopg import OperationalError

TRY_S = 0.2
"""Time between two attempts to reach a server that is away."""
SILENT_SHARE = 1 / 3
"""An attempt that has had no answer for this share of the time that callers wait means that the server is away."""
AWAY_WAIT_S = 0.05
"""Maximum time to wait for a connection to a server that is known to be away."""


class Attempts:
    """The latest attempts of one process to connect to one server, and their results."""

    def __init__(self, connect: Callable[[], object], wait_s: float) -> None:
        """
        Args:
            connect: makes one attempt, inside `recorded`, and gives the connection back.
            wait_s: maximum time that a caller waits for a server that is away.
        """
        self._connect = connect
        self._wait_s = wait_s
        self._lock = threading.Lock()
        self._under_way: dict[object, float] = {}
        self._error: Exception | None = None
        self._away_since_s: float | None = None
        self._trying = False
        self._closed = threading.Event()

    @property
    def wait_s(self) -> float:
        """How long a caller waits: long enough for a server to restart, and hardly at all for one that is away for
        longer."""
        since_s = self._away_since_s
        away = since_s is not None and monotonic_s() - since_s >= self._wait_s
        return min(AWAY_WAIT_S, self._wait_s) if away else self._wait_s

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Record the attempt that is made within the block."""
        mine = object()
        with self._lock:
            self._under_way[mine] = monotonic_s()
        try:
            yield
        except BaseException as error:
            with self._lock:
                del self._under_way[mine]
                if isinstance(error, Exception):
                    self._error = error
                    self._set_away()
            raise
        with self._lock:
            del self._under_way[mine]
            self._error, self._away_since_s = None, None

    def look(self) -> None:
        """Try to connect, in a thread, until the server can be reached."""
        with self._lock:
            if self._trying or self._closed.is_set():
                return
            self._trying = True
        threading.Thread(target=self._try, name="holdfast-connect", daemon=True).start()

    def cause(self) -> OperationalError | None:
        """Why no connection can be made; None when one could be."""
        from psycopg import OperationalError

        with self._lock:
            if self._error is not None:
                return OperationalError(str(self._error))
            waited_s = monotonic_s() - min(self._under_way.values(), default=float("inf"))
            if waited_s < self._wait_s * SILENT_SHARE:
                return None  # there is none, or it has only just begun
            self._set_away()
        return OperationalError(f"connection failed: the server has not answered for {waited_s:.1f} s")

    def close(self) -> None:
        """Stop trying."""
        self._closed.set()

    def _set_away(self) -> None:
        if self._away_since_s is None:
            self._away_since_s = monotonic_s()

    def _try(self) -> None:
        try:
            while not self._closed.is_set():
                with suppress(Exception):
                    self._connect()
                if self._error is None:
                    return
                self._closed.wait(TRY_S)
        finally:
            self._trying = False
