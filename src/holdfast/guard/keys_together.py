"""Keys of concurrent requests share commits: whoever begins or finishes one while others are being written goes with
the next transaction. Each caller still waits until its own key is on disk, and each has a verdict of its own.

A batch holds begins and finishes alike, in one statement: SQLite is written to in a thread, PostgreSQL by the event
loop itself. Two callers with the same key never share a batch: the second would see what is not committed yet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import TYPE_CHECKING

from holdfast.base.combiner import Combiner
from holdfast.catalog import Failure
from holdfast.catalog.context import current_context
from holdfast.guard import key_batches, key_ledger
from holdfast.guard.key_batches import Done, Write, scope_of
from holdfast.guard.key_ledger import Claim, Stored
from holdfast.lifecycle.idempotency import Begun

if TYPE_CHECKING:
    import asyncio

    from holdfast.base.gathering import Gathering
    from holdfast.store import Store, Tx

TOGETHER_MAX = 100
"""Maximum number of keys in one transaction: their rows are locked until it commits."""
GROUPED_BYTES_MAX = 16_384
"""Larger answers are stored each with a statement of its own."""

Told = Begun | bool | Failure | None
"""Of a claim its verdict, of a finish whether it was stored; or the database's failure."""


class KeysTogether:
    """Begins and finishes keys, many in a transaction. Threads and event loops may share it."""

    def __init__(self, store: Store, *, lease_us: int, expires_us: int) -> None:
        self._store = store
        self._lease_us = lease_us
        self._expires_us = expires_us
        self._writes: Combiner[Write, Told] = Combiner(self.write_all, most=TOGETHER_MAX)
        # The same for coroutines, which need asyncio: made when there is one.
        self._async: Gathering[Write, Told] | None = None

    def submit(self, write: Write) -> Told:
        """Begin or finish a key; `verdict` reads what comes back."""
        return self._writes.submit(write)

    def join(self, write: Write) -> asyncio.Future[Told]:
        """The same for a coroutine, which awaits it."""
        return (self._async or self._gathering()).join(write)

    def write_all(self, writes: Sequence[Write]) -> list[Told]:
        """Write these: the usual ones together, each of the others by itself, so that it concerns nobody else."""
        return self.prepare(writes)()

    def prepare(self, writes: Sequence[Write]) -> Callable[[], list[Told]]:
        """The same in two steps: what remains to be done is nearly all the database's work."""
        usual = _usual(_each_key_once(writes))
        write: Callable[[], Done] = dict
        if usual:
            write = key_batches.prepare(self._store, usual, lease_us=self._lease_us, expires_us=self._expires_us)
        return lambda: self._write(writes, usual, write)

    def _write(self, writes: Sequence[Write], usual: Sequence[Write], write: Callable[[], Done]) -> list[Told]:
        done: Done = {}
        try:
            done = write()
        except Failure as failure:
            if failure.retryable or len(writes) == 1:
                return [failure] * len(writes)
        if len(done) == len(writes):
            return [done[one.token] for one in writes]
        return self._write_rest(writes, _told(usual, done))

    def _write_rest(self, writes: Sequence[Write], found: dict[int, Told]) -> list[Told]:
        """What each is told; those that are not found yet are written now."""
        rest = _each_key_once([one for one in writes if id(one) not in found])
        claims = [one for one in rest if isinstance(one, Claim)]
        try:
            if len(claims) > 1:
                found |= self._store.atomic(lambda tx: _begin_each(tx, claims), repeatable=True)
        except Failure as failure:
            if failure.retryable:
                found |= dict.fromkeys(map(id, claims), failure)
        return [found[id(one)] if id(one) in found else self._write_alone(one) for one in writes]

    def _write_alone(self, write: Write) -> Told:
        """A twin of another in the batch, or one that could not be written with the others."""

        def phase(tx: Tx) -> Told:
            if isinstance(write, Claim):
                return key_ledger.begin(tx, write)
            kept = Stored(write.status, write.headers, write.body, write.resources)
            if key_ledger.finish(tx, write.started, kept, expires_us=self._expires_us, code=write.code):
                return True
            key_ledger.note_lost(tx, write.started)
            return False

        try:
            return self._store.atomic(phase, repeatable=True)
        except Failure as failure:
            return failure

    def _gathering(self) -> Gathering[Write, Told]:
        from holdfast.base.gathering import Gathering
        from holdfast.store import Engine

        on_loop = None if self._store.engine is Engine.SQLITE else self._write_all_async
        self._async = Gathering(self.write_all, most=TOGETHER_MAX, flush_async=on_loop, prepare=self.prepare)
        return self._async

    async def _write_all_async(self, writes: Sequence[Write]) -> Sequence[Told] | None:
        """The same without a thread; None where that cannot be, or nobody knows what became of it."""
        usual = _usual(_each_key_once(writes))
        if not usual:
            return None
        done = await key_batches.write_async(self._store, usual, lease_us=self._lease_us, expires_us=self._expires_us)
        if done is None:
            return None
        if len(done) == len(writes):
            return [done[one.token] for one in writes]
        import asyncio

        return await asyncio.to_thread(self._write_rest, writes, _told(usual, done))


def verdict(told: Told) -> Begun | bool | None:
    """Of a claim whether the key was taken, or why not: None when it changed hands in this moment and is worth another
    look. Of a finish whether the answer was stored: False when the key is somebody else's, which is then written down.

    Raises:
        Failure: the batch's, as one of the caller's own: each raises it in the context of its own request.
    """
    if isinstance(told, Failure):
        mine = copy(told)
        mine.context = current_context()
        raise mine
    return told


def _told(writes: Sequence[Write], done: Done) -> dict[int, Told]:
    """What is known of the writes, by their identity: two with the same key are two."""
    return {id(one): done[one.token] for one in writes if one.token in done}


def _begin_each(tx: Tx, claims: Sequence[Claim]) -> dict[int, Told]:
    return {id(claim): key_ledger.begin(tx, claim) for claim in claims}


def _each_key_once(writes: Sequence[Write]) -> list[Write]:
    """The first of each key, in one order everywhere, so that two processes never wait for each other crosswise."""
    first = {scope_of(write): write for write in reversed(writes)}
    return sorted(first.values(), key=scope_of)


def _usual(writes: Sequence[Write]) -> list[Write]:
    """Those that may be tried together."""
    return [one for one in writes if isinstance(one, Claim) or len(one.body) <= GROUPED_BYTES_MAX]
