"""The ledger on the store: concurrent operations share a transaction, and each has an answer of its own.

Always true: wallets are locked in the order of their ids before anything about their reservations is believed, and a
row that is not as it was read means that nothing is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

from holdfast.base.combiner import Combiner
from holdfast.base.gathering import Gathering
from holdfast.catalog import Failure
from holdfast.catalog.context import current_context
from holdfast.catalog.core import TRANSACTION_ROLLED_BACK
from holdfast.store import Store, Tx
from holdfast_systems.commerce.control_plane.billing import (
    Answer,
    Authorize,
    Book,
    Expire,
    Instance,
    Operation,
    Reservation,
    Wallet,
)

TOGETHER_MAX = 200
"""Operations in one transaction at most: their wallets are locked until it commits."""
SWEPT_MAX = 200
"""Expired reservations in one transaction."""
SWEEPS_MAX = 500
"""Transactions of one sweep; what is left then is for the next."""


class Ledger:
    """Authorizes, settles and releases. Threads and event loops may share it."""

    def __init__(self, store: Store, *, reservation_s: float) -> None:
        """
        Args:
            reservation_s: how long a run may hold its credits, on the database's clock.
        """
        self._store = store
        self._lasting_us = round(reservation_s * 1_000_000)
        self._threads: Combiner[Operation, Answer | Failure] = Combiner(self._book_all, most=TOGETHER_MAX)
        self._coroutines: Gathering[Operation, Answer | Failure] = Gathering(self._book_all, most=TOGETHER_MAX)

    def book(self, operation: Operation) -> Answer:
        """Do one operation and commit it, alone or with those of other threads.

        Raises:
            Failure: why it was refused; or the database's own.
        """
        return _told(self._threads.submit(operation))

    async def book_async(self, operation: Operation) -> Answer:
        """The same, for coroutines."""
        return _told(await self._coroutines.submit(operation))

    def sweep(self) -> int:
        """Give back what runs hold that were not settled in time; how many reservations that were."""
        swept = 0
        for _ in range(SWEEPS_MAX):
            expired = [str(row[0]) for row in self._store.look("ledger.expired", count=SWEPT_MAX)]
            answers = self._book_all([Expire(reservation_id) for reservation_id in expired])
            swept += sum(not isinstance(answer, Failure) for answer in answers)
            if len(expired) < SWEPT_MAX:
                break
        return swept

    def _book_all(self, operations: Sequence[Operation]) -> list[Answer | Failure]:
        if not operations:
            return []
        try:
            return self._store.atomic(lambda tx: self._phase(tx, operations), repeatable=True)
        except Failure as failure:
            if failure.retryable or len(operations) == 1:
                return [failure] * len(operations)
        # One that the database refuses must not concern the others.
        return [self._book_all([operation])[0] for operation in operations]

    def _phase(self, tx: Tx, operations: Sequence[Operation]) -> list[Answer | Failure]:
        book = load(tx, operations)
        before = {wallet.id: copy(wallet) for wallet in book.wallets.values()}
        answers = [book.apply(operation) for operation in operations]
        self._write(tx, book, before)
        return answers

    def _write(self, tx: Tx, book: Book, before: dict[str, Wallet]) -> None:
        if book.held:
            # One that was held and ended in the same batch is written as it began, and then as it ended.
            rows = [(one.id, one.instance_id, one.run_id, one.wallet_id, one.budget) for one in book.held]
            _expect(len(rows), tx.many("ledger.hold", rows, lasting_us=self._lasting_us))
        if book.ended:
            moved = [(book.reservations[identifier], was) for identifier, was in book.ended.items()]
            ends = [(one.id, was, one.state, one.charged, one.asked, one.late, one.entry_id) for one, was in moved]
            _expect(len(ends), tx.many("ledger.end_reservations", ends))
        moves = [_move(before[now.id], now) for now in book.wallets.values() if now != before[now.id]]
        if moves:
            _expect(len(moves), tx.many("ledger.move_credits", moves))
        if book.entries:
            _expect(len(book.entries), tx.many("ledger.charge", book.entries))


def load(tx: Tx, operations: Sequence[Operation]) -> Book:
    """The rows that the operations concern, with their wallets locked."""
    runs = {(one.instance_id, one.run_id): None for one in operations if isinstance(one, Authorize)}
    wanted = list(dict.fromkeys(one.reservation_id for one in operations if not isinstance(one, Authorize)))
    instances: dict[str, Instance] = {}
    wallet_ids: set[str] = set()
    if runs:
        names = list(dict.fromkeys(instance_id for instance_id, _ in runs))
        instances = {row[0]: Instance(*row) for row in tx.rows("ledger.instances", ids=names)}
        wallet_ids |= {one.wallet_id for one in instances.values()}
    if wanted:
        wallet_ids |= {str(row[0]) for row in tx.rows("ledger.wallets_of_reservations", ids=wanted)}
    wallets = {}
    if wallet_ids:
        wallets = {row[0]: Wallet(*row) for row in tx.rows("ledger.lock_wallets", ids=sorted(wallet_ids))}
    # Read after the locks are held: before that, what they say may be changing.
    found = [Reservation(*row) for row in tx.rows("ledger.reservations", ids=wanted)] if wanted and wallets else []
    of_runs = []
    if instances:
        of_runs = [Reservation(*row) for row in tx.many_rows("ledger.reservations_of_runs", list(runs))]
    known = {one.id: one for one in (*found, *of_runs)}
    return Book(
        instances=instances,
        wallets=wallets,
        reservations=known,
        runs={(one.instance_id, one.run_id): one for one in known.values()},
    )


def _move(was: Wallet, now: Wallet) -> tuple[str | int, ...]:
    left = (now.id, was.available, was.held, was.entry_count)
    return (*left, now.available, now.held, now.spent, now.paid_in, now.entry_count)


def _expect(rows: int, changed: int) -> None:
    """Nothing may have moved under a lock; if it has, nothing is written and the batch runs again.

    Raises:
        Failure: TRANSACTION_ROLLED_BACK.
    """
    if rows != changed:
        raise TRANSACTION_ROLLED_BACK()


def _told(answer: Answer | Failure) -> Answer:
    if isinstance(answer, Failure):
        # Each caller raises one of its own, with the context of its own request.
        mine = copy(answer)
        mine.context = current_context()
        raise mine
    return answer
