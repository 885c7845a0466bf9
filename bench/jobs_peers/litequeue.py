"""litequeue with `synchronous=FULL`: it brings no worker, so the loop that its documentation shows is run here."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from litequeue import LiteQueue

from bench.jobs_peers.contender import Client, Handled, SyncContender

IDLE_S = 0.005
LOCK_WAIT_S = 60


class LitequeueClient:
    def __init__(self, queue: LiteQueue) -> None:
        self._queue = queue

    def one(self, payload: str) -> None:
        self._queue.put(payload)

    def many(self, payloads: Sequence[str]) -> None:
        """There is no call for many, but a transaction can be put around them."""
        with self._queue.transaction(mode="IMMEDIATE"):
            for payload in payloads:
                self._queue.put(payload)


class Litequeue(SyncContender):
    unfinished = "SELECT count(*) FROM Queue WHERE status < 2"

    def prepare(self, address: str) -> None:
        _queue(address).close()

    @contextmanager
    def client(self, address: str) -> Iterator[Client]:
        queue = _queue(address)
        yield LitequeueClient(queue)
        queue.close()

    def work(self, address: str, handled: Handled, ready: Callable[[], None]) -> None:
        queue = _queue(address)
        pause = threading.Event()
        ready()
        while True:
            message = queue.pop()
            if message is None:
                pause.wait(IDLE_S)
                continue
            handled(message.data)
            queue.done(message.message_id)


def _queue(address: str) -> LiteQueue:
    queue = LiteQueue(address, timeout=LOCK_WAIT_S)
    queue.conn.execute("PRAGMA synchronous = FULL")
    return queue


CONTENDER = Litequeue()
