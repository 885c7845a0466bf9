"""persist-queue: `SQLiteQueue` whose rows are deleted by `task_done` after each job; WAL, `synchronous=FULL`.

It brings no worker. One process alone may take from a file: it keeps its place in memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from persistqueue import SQLiteQueue
from persistqueue.exceptions import Empty

from bench.jobs_peers.contender import Client, Handled, SyncContender

IDLE_S = 0.005
LOCK_WAIT_S = 60


class PersistQueueClient:
    def __init__(self, queue: SQLiteQueue) -> None:
        self._queue = queue

    def one(self, payload: str) -> None:
        self._queue.put(payload)

    def many(self, payloads: Sequence[str]) -> None:
        """There is no call for many: each is enqueued by itself."""
        for payload in payloads:
            self._queue.put(payload)


class PersistQueue(SyncContender):
    unfinished = "SELECT count(*) FROM queue_default"

    def prepare(self, address: str) -> None:
        _queue(address).close()

    @contextmanager
    def client(self, address: str) -> Iterator[Client]:
        queue = _queue(address)
        yield PersistQueueClient(queue)
        queue.close()

    def work(self, address: str, handled: Handled, ready: Callable[[], None]) -> None:
        queue = _queue(address)
        pause = threading.Event()
        ready()
        while True:
            try:
                payload = queue.get(block=False)
            except Empty:
                pause.wait(IDLE_S)
                continue
            handled(payload)
            queue.task_done()


def _queue(address: str) -> SQLiteQueue:
    place = Path(address)
    queue = SQLiteQueue(
        str(place.parent), db_file_name=place.name, auto_commit=False, multithreading=True, timeout=LOCK_WAIT_S
    )
    for connection in (queue._getter, queue._putter):
        connection.execute("PRAGMA synchronous = FULL")
    return queue


CONTENDER = PersistQueue()
