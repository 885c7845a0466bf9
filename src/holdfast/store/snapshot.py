"""A snapshot: every read of one thread in one transaction, at one moment."""

from __future__ import annotations

import threading

from holdfast.store.transaction import Tx


class SnapshotTx(Tx):
    """A transaction in which time stands still: the clock is asked once."""

    __slots__ = ("_now_us",)

    def __init__(self, tx: Tx) -> None:
        super().__init__(tx._execute, tx._statements, tx.engine)
        self._now_us: int | None = None

    def now_us(self) -> int:
        if self._now_us is None:
            self._now_us = super().now_us()
        return self._now_us


class Snapshots(threading.local):
    """The snapshot that this thread reads from; None where it reads from the store."""

    tx: SnapshotTx | None = None
