"""Huey on SQLite with `fsync` on and no results kept; its consumer in threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from huey import SqliteHuey

from bench.jobs_peers.contender import Client, Handled, SyncContender

WORKERS = 1


class HueyClient:
    def __init__(self, task: Any) -> None:
        self._task = task

    def one(self, payload: str) -> None:
        self._task(payload)

    def many(self, payloads: Sequence[str]) -> None:
        """There is no call for many: each is enqueued by itself."""
        for payload in payloads:
            self._task(payload)


class Huey(SyncContender):
    unfinished = "SELECT count(*) FROM task"

    def prepare(self, address: str) -> None:
        _queue(address).storage.close()

    @contextmanager
    def client(self, address: str) -> Iterator[Client]:
        queue = _queue(address)

        # Tasks are known by module and name: the same for who enqueues and who works.
        @queue.task()
        def noop(payload: str) -> None: ...

        yield HueyClient(noop)
        queue.storage.close()

    def work(self, address: str, handled: Handled, ready: Callable[[], None]) -> None:
        queue = _queue(address)

        @queue.task()
        def noop(payload: str) -> None:
            handled(payload)

        consumer = queue.create_consumer(
            workers=WORKERS, worker_type="thread", initial_delay=0.005, max_delay=0.02, backoff=1.1, periodic=False
        )
        ready()
        consumer.start()
        threading.Event().wait()


def _queue(address: str) -> Any:
    return SqliteHuey("bench", filename=address, fsync=True, results=False)


CONTENDER = Huey()
