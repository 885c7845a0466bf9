"""Concurrent callers share one flush: a caller that arrives while a flush is under way joins the next one.

There is no timer: a lone caller is flushed at once, and a hundred callers need few commits instead of a hundred.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context
from copy import copy
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class _Waiting(Generic[T, R]):
    __slots__ = ("done", "error", "item", "result")

    def __init__(self, item: T) -> None:
        self.item = item
        # A bare lock, held until the result is there: an Event costs ten times as much, and a caller waits only once.
        self.done = threading.Lock()
        self.done.acquire()
        self.result: R
        self.error: BaseException | None = None


class Combiner(Generic[T, R]):
    """Gathers items of many threads and hands them to `flush`, which answers one result for each."""

    def __init__(self, flush: Callable[[Sequence[T]], Sequence[R]], *, most: int) -> None:
        self._flush = flush
        self._most = most
        self._lock = threading.Lock()
        self._pending: list[_Waiting[T, R]] = []
        self._leading = False

    def submit(self, item: T) -> R:
        """Flush the item, alone or in company, and return its result.

        Raises:
            Exception: whatever the flush raised; everyone in the same flush gets it.
        """
        with self._lock:
            if not self._leading:
                self._leading = True
                mine = None
            else:
                mine = _Waiting[T, R](item)
                self._pending.append(mine)
        if mine is None:
            return self._lead(item)
        mine.done.acquire()
        if mine.error is not None:
            # Each caller raises one of its own: an exception that several threads raise mixes up their traces.
            raise _own(mine.error)
        return mine.result

    def _lead(self, item: T) -> R:
        """Flush the own item, then pass the lead on to a thread that works off who came meanwhile."""
        try:
            return self._flush([item])[0]
        finally:
            self._hand_over()

    def _hand_over(self) -> None:
        with self._lock:
            if not self._pending:
                self._leading = False
                return
        # The caller has its result and must not work for others: a thread takes what has gathered.
        thread = threading.Thread(
            target=copy_context().run, args=(self._work_off,), name="holdfast-combiner", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:
            self._work_off()  # no thread can be had; those who wait must not wait for ever

    def _work_off(self) -> None:
        while True:
            with self._lock:
                batch, self._pending = self._pending[: self._most], self._pending[self._most :]
                if not batch:
                    self._leading = False
                    return
            self._flush_all(batch)

    def _flush_all(self, batch: list[_Waiting[T, R]]) -> None:
        try:
            results = self._flush([waiting.item for waiting in batch])
        except BaseException as error:  # noqa: BLE001 - everyone in the batch gets it
            for waiting in batch:
                waiting.error = error
                waiting.done.release()
            return
        for waiting, result in zip(batch, results, strict=True):
            waiting.result = result
            waiting.done.release()


def _own(error: BaseException) -> BaseException:
    try:
        mine = copy(error)
    except Exception:  # noqa: BLE001 - exceptions with arguments of their own need not be copyable
        return error
    mine.__cause__, mine.__traceback__ = error.__cause__, error.__traceback__
    return mine
