"""Wake-ups: a worker need not wait for its next look at the queue. They may be lost; polling is the contract.

The enqueuer tells after its commit, and not more often than every few milliseconds: a notification for each insert
would make every commit of the database wait in line.
"""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.base import REAL
from holdfast.catalog import Failure
from holdfast.store import Engine, Store

if TYPE_CHECKING:
    from holdfast.store.database import Follow
    from holdfast.store.postgresql import PostgresqlDatabase
    from holdfast.store.sqlite import SqliteDatabase

CHANNEL = "holdfast"
DEBOUNCE_S = 0.003
DEBOUNCE_S_MAX = 0.01
LOOK_S = 0.02
"""How often a worker looks whether another process has written to the SQLite file."""
POOLED_LOOK_S = 0.25
"""How often a worker looks for jobs behind a pooler, where it cannot listen."""
LISTEN_S = 1.0
RECONNECT_S = 1.0


class Notifier:
    """Tells workers that a queue has work. Telling never fails and never waits for anything."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._queues: set[str] = set()
        self._something = threading.Event()
        self._thread: threading.Thread | None = None
        self._closed = False
        # By the real clock, whatever the world of the caller: it spares a real database.
        self._rest_s = DEBOUNCE_S
        self._next_s = 0.0

    def wake(self, queue: str) -> None:
        """Work was committed to this queue; a thread tells of it."""
        self._store.woken(queue)
        if self._store.engine is not Engine.POSTGRESQL:
            return  # other processes see the file change
        with self._lock:
            self._queues.add(queue)
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="holdfast-notify", daemon=True)
                self._thread.start()
        self._something.set()

    def turn(self, queue: str) -> Follow | None:
        """The statement that tells of this queue, where nobody told a moment ago: to be sent right behind the commit.

        A lone job is begun the sooner. The caller then calls `store.woken` if the statement was sent, else `wake`.
        """
        with self._lock:
            now_s = REAL.monotonic_s()
            if self._queues or now_s < self._next_s or self._store.engine is not Engine.POSTGRESQL:
                return None
            self._rest_s = DEBOUNCE_S
            self._next_s = now_s + DEBOUNCE_S
        return "store.notify", {"channel": CHANNEL, "queue": queue}

    def close(self) -> None:
        """Send what is left, and stop."""
        self._closed = True
        self._something.set()
        if self._thread is not None:
            self._thread.join(timeout=LISTEN_S)

    def _run(self) -> None:
        while not self._closed or self._queues:
            self._something.wait()
            self._something.clear()
            REAL.sleep(max(0.0, self._next_s - REAL.monotonic_s()))
            self._send()

    def _send(self) -> None:
        with self._lock:
            queues, self._queues = self._queues, set()
            now_s = REAL.monotonic_s()
            # Those that come one after the other are told less often: who is woken by the first finds the rest.
            follows = now_s - self._next_s < DEBOUNCE_S
            self._rest_s = min(self._rest_s * 2, DEBOUNCE_S_MAX) if follows else DEBOUNCE_S
            self._next_s = now_s + self._rest_s
        try:
            for queue in queues:
                self._store.put("store.notify", channel=CHANNEL, queue=queue)
        except Failure:
            return  # the workers poll anyway


class Listener:
    """Calls back when somebody, here or in another process, may have enqueued something."""

    def __init__(self, store: Store, tell: Callable[[], None], *, at: Store) -> None:
        """
        Args:
            store: tells what is enqueued through it in this process.
            at: where other processes are listened to; it knows when a server was left, because it is used all the time.
        """
        self._store = store
        self._tell = tell
        self._at = at
        self._stopping = threading.Event()
        self._stop: socket.socket | None = None
        self._thread = threading.Thread(target=self._run, name="holdfast-listen", daemon=True)

    def start(self) -> None:
        self._store.on_wake(self._tell)
        self._stop, self._stopped = socket.socketpair()
        self._thread.start()

    def stop(self) -> None:
        """Listen no more; returns when the connection is given back."""
        if self._stop is None:
            return
        self._store.off_wake(self._tell)
        self._stopping.set()
        self._stop.close()  # the thread that waits at the other end sees it at once
        self._thread.join(timeout=2 * LISTEN_S)

    def _run(self) -> None:
        with self._stopped:
            while not self._stopping.is_set():
                try:
                    if self._at.engine is Engine.SQLITE:
                        self._look(self._at.database)  # type: ignore[arg-type]  # the engine says which it is
                    else:
                        self._listen(self._at.database)  # type: ignore[arg-type]  # the engine says which it is
                except Exception:  # noqa: BLE001 - whatever broke the connection, a new one is tried; polling goes on
                    self._stopping.wait(RECONNECT_S)

    def _look(self, database: SqliteDatabase) -> None:
        last = database.changes()
        self._tell()  # something may have come while nobody looked
        while not self._stopping.wait(LOOK_S):
            now = database.changes()
            if now != last:
                last = now
                self._tell()

    def _listen(self, database: PostgresqlDatabase) -> None:
        if database.pooled:
            while not self._stopping.wait(POOLED_LOOK_S):
                self._tell()
            return
        left = database.left
        with database.connect() as connection:
            connection.execute(f"LISTEN {CHANNEL}")
            self._tell()  # something may have come while nobody listened
            either = select.poll()
            either.register(connection, select.POLLIN)
            either.register(self._stopped, select.POLLIN)
            # A server that hangs tells nothing, and its socket stays open.
            while not self._stopping.is_set() and database.left == left:
                either.poll(LISTEN_S * 1_000)
                connection.pgconn.consume_input()
                told = False
                while connection.pgconn.notifies() is not None:
                    told = True
                if told:
                    self._tell()
