"""One look: whatever a page reads, it reads in one transaction, at one moment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from holdfast.console.page import Desk
from holdfast.store import Store, Tx
from holdfast.watch.series import StoreSeries

T = TypeVar("T")


def at_one_look(desk: Desk, make: Callable[[Desk], T]) -> T:
    """Make something of what the desk reads; dozens of questions then cost one transaction, not dozens."""

    def phase(tx: Tx) -> T:
        store = LookStore(desk.store, LookTx(tx))
        return make(replace(desk, store=store, series=StoreSeries(store)))

    return desk.store.atomic(phase, write=False)


class LookStore(Store):
    """The same store, read through a transaction that is open already."""

    def __init__(self, store: Store, tx: Tx) -> None:
        self.__dict__.update(store.__dict__)
        self._looking = tx

    def atomic(self, phase: Callable[[Tx], T], *, write: bool = True, repeatable: bool = False) -> T:  # noqa: ARG002
        if write:
            raise TypeError("a page only reads")
        return phase(self._looking)


class LookTx(Tx):
    """A transaction in which time stands still: the clock is asked once."""

    __slots__ = ("_now_us",)

    def __init__(self, tx: Tx) -> None:
        super().__init__(tx._execute, tx._statements, tx.engine)
        self._now_us: int | None = None

    def now_us(self) -> int:
        if self._now_us is None:
            self._now_us = super().now_us()
        return self._now_us
