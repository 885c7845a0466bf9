"""Keys of concurrent requests share commits: whoever begins or finishes one while others are being written goes with
the next transaction. Each caller still waits until its own key is on disk, and each has a verdict of its own.

A batch is the phases of its callers in one transaction; the usual ones of one tenant and operation take few statements
for all of them. Two callers with the same key never share a batch: the second would see what is not committed yet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import TYPE_CHECKING, TypeVar

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
"""So many keys in one transaction at most: their rows are locked until it commits."""
GROUPED_BYTES_MAX = 16_384
"""Larger answers are stored each with a statement of its own."""

T = TypeVar("T")
Verdict = Begun | None | Failure
Settled = bool | Failure


class KeysTogether:
    """Begins and finishes keys, many in a transaction. Threads and event loops may share it."""

    def __init__(self, store: Store, *, expires_us: int) -> None:
        self._store = store
        self._expires_us = expires_us
        self._begins: Combiner[Claim, Verdict] = Combiner(self._begin_all, most=TOGETHER_MAX)
        self._finishes: Combiner[Finish, Settled] = Combiner(self._finish_all, most=TOGETHER_MAX)
        # The same for coroutines, which need asyncio: made when there is one.
        self._begins_async: Gathering[Claim, Verdict] | None = None
        self._finishes_async: Gathering[Finish, Settled] | None = None

    def begin(self, claim: Claim) -> Begun | None:
        """Take the key, or say why not; None when it changed hands in this moment and is worth another look.

        Raises:
            Failure: the database's own.
        """
        return _told(self._begins.submit(claim))

    async def begin_async(self, claim: Claim) -> Begun | None:
        """The same, for coroutines."""
        if self._begins_async is None:
            from holdfast.base.gathering import Gathering

            self._begins_async = Gathering(self._begin_all, most=TOGETHER_MAX)
        return _told(await self._begins_async.submit(claim))

    def finish(self, started: Started, kept: Stored, code: str | None) -> bool:
        """Store the answer; False when the key is somebody else's, which is then written down.

        Raises:
            Failure: the database's own.
        """
        return _told(self._finishes.submit((started, kept, code)))

    async def finish_async(self, started: Started, kept: Stored, code: str | None) -> bool:
        """The same, for coroutines."""
        if self._finishes_async is None:
            from holdfast.base.gathering import Gathering

            self._finishes_async = Gathering(self._finish_all, most=TOGETHER_MAX)
        return _told(await self._finishes_async.submit((started, kept, code)))

    def _begin_all(self, claims: Sequence[Claim]) -> list[Verdict]:
        first: dict[tuple[str, str, str], Claim] = {}
        for claim in claims:
            first.setdefault(_scope(claim), claim)
        # In one order everywhere, so that two processes never wait for each other crosswise.
        ordered = [first[scope] for scope in sorted(first)]
        found: dict[int, Verdict] = {}
        try:
            found = self._store.atomic(lambda tx: _begin(tx, ordered), repeatable=True)
        except Failure as failure:
            if failure.retryable or len(claims) == 1:
                return [failure] * len(claims)
        return [found[one.token] if one.token in found else self._begin_alone(one) for one in claims]

    def _begin_alone(self, claim: Claim) -> Verdict:
        """A twin of another in the batch, or one of a batch that could not be written: it concerns nobody else."""
        try:
            return self._store.atomic(lambda tx: key_ledger.begin(tx, claim), repeatable=True)
        except Failure as failure:
            return failure

    def _finish_all(self, finishes: Sequence[Finish]) -> list[Settled]:
        if len(finishes) == 1:
            return [self._finish_alone(finishes[0])]
        ordered = sorted(finishes, key=lambda one: _scope(one[0]))
        if len({_scope(started) for started, _, _ in ordered}) == len(ordered):
            try:
                self._store.atomic(lambda tx: self._finish_groups(tx, ordered), repeatable=True)
                return [True] * len(finishes)
            except NotAll:
                pass  # each for itself, so that whoever came too late concerns nobody else
            except Failure as failure:
                if failure.retryable:
                    return [failure] * len(finishes)
        return [self._finish_alone(one) for one in finishes]

    def _finish_groups(self, tx: Tx, finishes: Sequence[Finish]) -> None:
        for group in _groups(finishes, lambda one: one[0]):
            small = [one for one in group if len(one[1].body) <= GROUPED_BYTES_MAX]
            if small:
                finish_all(tx, small, expires_us=self._expires_us)
            for started, kept, code in group:
                large = len(kept.body) > GROUPED_BYTES_MAX
                if large and not key_ledger.finish(tx, started, kept, expires_us=self._expires_us, code=code):
                    raise NotAll

    def _finish_alone(self, finish: Finish) -> Settled:
        try:
            return self._store.atomic(lambda tx: self._finish(tx, *finish), repeatable=True)
        except Failure as failure:
            return failure

    def _finish(self, tx: Tx, started: Started, kept: Stored, code: str | None) -> bool:
        done = key_ledger.finish(tx, started, kept, expires_us=self._expires_us, code=code)
        if not done:
            key_ledger.note_lost(tx, started)
        return done


def _told(result: T | Failure) -> T:
    if isinstance(result, Failure):
        # The failure of a batch is everybody's; each caller raises one of its own, of its own request.
        mine = copy(result)
        mine.context = current_context()
        raise mine
    return result


def _begin(tx: Tx, claims: Sequence[Claim]) -> dict[int, Verdict]:
    """What became of each claim, by its token."""
    found: dict[int, Verdict] = {}
    for group in _groups(claims, lambda claim: claim):
        if len(group) == 1:
            found[group[0].token] = key_ledger.begin(tx, group[0])
            continue
        began, there = begin_new(tx, group)
        for claim in group:
            # One that was neither there nor taken is being begun by somebody else just now: worth another look.
            known = began.get(claim.token)
            found[claim.token] = key_ledger.begin(tx, claim) if known is None and claim.key in there else known
    return found


def _groups(items: Sequence[T], held: Callable[[T], Claim | Started]) -> list[list[T]]:
    """Those of one tenant and operation together, in the order that they have."""
    groups: dict[tuple[str, str], list[T]] = {}
    for item in items:
        groups.setdefault((held(item).tenant, held(item).operation), []).append(item)
    return list(groups.values())


def _scope(held: Claim | Started) -> tuple[str, str, str]:
    return held.tenant, held.operation, held.key
