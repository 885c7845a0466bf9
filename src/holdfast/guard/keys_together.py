"""Keys of concurrent requests share commits: whoever begins or finishes one while others are being written goes with
the next transaction. Each caller still waits until its own key is on disk, and each has a verdict of its own.

On SQLite, which has one writer, a batch holds begins and finishes alike. PostgreSQL commits several transactions at
once: there the two have batches of their own. The usual ones of one tenant and operation take few statements for all of
them. Two callers with the same key never share a batch: the second would see what is not committed yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, TypeVar, cast

from holdfast.base.combiner import Combiner
from holdfast.catalog import Failure
from holdfast.catalog.context import current_context
from holdfast.guard import key_ledger
from holdfast.guard.key_batches import Finish, NotAll, begin_new, finish_all
from holdfast.guard.key_ledger import Claim, Stored
from holdfast.lifecycle.idempotency import Begun, Started

if TYPE_CHECKING:
    from holdfast.base.gathering import Gathering
    from holdfast.store import Store, Tx

TOGETHER_MAX = 100
"""Maximum number of keys in one transaction: their rows are locked until it commits."""
GROUPED_BYTES_MAX = 16_384
"""Larger answers are stored each with a statement of its own."""

Write = Claim | Finish
Told = Begun | bool | Failure | None
"""Of a claim its verdict, of a finish whether it was stored; or the database's failure."""
W = TypeVar("W", Claim, Finish)
T = TypeVar("T")


class KeysTogether:
    """Begins and finishes keys, many in a transaction. Threads and event loops may share it."""

    def __init__(self, store: Store, *, expires_us: int) -> None:
        self._store = store
        self._expires_us = expires_us
        self._writes: Combiner[Write, Told] = Combiner(self.write_all, most=TOGETHER_MAX)
        self._begins = self._writes if _has_one_writer(store) else Combiner(self.write_all, most=TOGETHER_MAX)
        # The same for coroutines, which need asyncio: made when there is one.
        self._async: tuple[Gathering[Write, Told], Gathering[Write, Told]] | None = None

    def begin(self, claim: Claim) -> Begun | None:
        """Take the key, or say why not; None when it changed hands in this moment and is worth another look.

        Raises:
            Failure: the database's own.
        """
        return cast("Begun | None", _raised(self._begins.submit(claim)))

    async def begin_async(self, claim: Claim) -> Begun | None:
        """The same, for coroutines."""
        return cast("Begun | None", _raised(await self._gatherings()[0].submit(claim)))

    def finish(self, started: Started, kept: Stored, code: str | None) -> bool:
        """Store the answer; False when the key is somebody else's, which is then written down.

        Raises:
            Failure: the database's own.
        """
        return cast("bool", _raised(self._writes.submit((started, kept, code))))

    async def finish_async(self, started: Started, kept: Stored, code: str | None) -> bool:
        """The same, for coroutines."""
        return cast("bool", _raised(await self._gatherings()[1].submit((started, kept, code))))

    def write_all(self, writes: Sequence[Write]) -> list[Told]:
        """Write these in one transaction; those that cannot go together, each in one of its own."""
        first: dict[tuple[str, str, str], Write] = {}
        for write in writes:
            first.setdefault(_scope(write), write)
        # In one order everywhere, so that two processes never wait for each other crosswise.
        ordered = [first[scope] for scope in sorted(first)]
        found: dict[int, Told] = {}
        try:
            found = self._store.atomic(lambda tx: self._write(tx, ordered), repeatable=True)
        except NotAll:
            pass  # each for itself, so that whoever came too late concerns nobody else
        except Failure as failure:
            if failure.retryable or len(writes) == 1:
                return [failure] * len(writes)
        return [found[id(one)] if id(one) in found else self._write_alone(one) for one in writes]

    def _gatherings(self) -> tuple[Gathering[Write, Told], Gathering[Write, Told]]:
        """That of begins and that of finishes."""
        if self._async is None:
            from holdfast.base.gathering import Gathering

            writes: Gathering[Write, Told] = Gathering(self.write_all, most=TOGETHER_MAX)
            begins = writes if _has_one_writer(self._store) else Gathering(self.write_all, most=TOGETHER_MAX)
            self._async = begins, writes
        return self._async

    def _write(self, tx: Tx, writes: Sequence[Write]) -> dict[int, Told]:
        """What became of each, by its identity.

        Raises:
            NotAll: the transaction is to be rolled back.
        """
        found: dict[int, Told] = {}
        for finishes in _groups([one for one in writes if not isinstance(one, Claim)]):
            self._finish(tx, finishes)
            found |= dict.fromkeys(map(id, finishes), True)
        for claims in _groups([one for one in writes if isinstance(one, Claim)]):
            found |= _begin(tx, claims)
        return found

    def _finish(self, tx: Tx, finishes: Sequence[Finish]) -> None:
        grouped = [one for one in finishes if len(one[1].body) <= GROUPED_BYTES_MAX] if len(finishes) > 1 else []
        if grouped:
            finish_all(tx, grouped, expires_us=self._expires_us)
        for one in finishes:
            if (not grouped or len(one[1].body) > GROUPED_BYTES_MAX) and not self._finish_one(tx, one):
                raise NotAll

    def _finish_one(self, tx: Tx, finish: Finish) -> bool:
        started, kept, code = finish
        return key_ledger.finish(tx, started, kept, expires_us=self._expires_us, code=code)

    def _write_alone(self, write: Write) -> Told:
        """A twin of another in the batch, or one of a batch that could not be written: it concerns nobody else."""

        def phase(tx: Tx) -> Told:
            if isinstance(write, Claim):
                return key_ledger.begin(tx, write)
            if self._finish_one(tx, write):
                return True
            key_ledger.note_lost(tx, write[0])
            return False

        try:
            return self._store.atomic(phase, repeatable=True)
        except Failure as failure:
            return failure


def _has_one_writer(store: Store) -> bool:
    from holdfast.store import Engine

    return store.engine is Engine.SQLITE


def _raised(told: T | Failure) -> T:
    """What a caller was told.

    Raises:
        Failure: the batch's, as one of the caller's own: each raises it in the context of its own request.
    """
    if isinstance(told, Failure):
        mine = copy(told)
        mine.context = current_context()
        raise mine
    return told


def _begin(tx: Tx, claims: Sequence[Claim]) -> dict[int, Told]:
    if len(claims) == 1:
        return {id(claims[0]): key_ledger.begin(tx, claims[0])}
    began, there = begin_new(tx, claims)
    found: dict[int, Told] = {}
    for claim in claims:
        # One that was neither there nor taken is being begun by somebody else just now: worth another look.
        known = began.get(claim.token)
        found[id(claim)] = key_ledger.begin(tx, claim) if known is None and claim.key in there else known
    return found


def _groups(writes: Sequence[W]) -> list[list[W]]:
    """Those of one tenant and operation together, in the order that they have."""
    groups: dict[tuple[str, str], list[W]] = {}
    for write in writes:
        groups.setdefault(_scope(write)[:2], []).append(write)
    return list(groups.values())


def _scope(write: Write) -> tuple[str, str, str]:
    held = write if isinstance(write, Claim) else write[0]
    return held.tenant, held.operation, held.key
