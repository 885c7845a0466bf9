"""Keys of concurrent requests share commits: a request that begins or finishes one while others are being written
joins the next transaction. Each caller still waits until its own key is on disk, and each has a verdict of its own.

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
from holdfast.guard.key_batches import Done, Item, Taken, Write, item, key_of, row_of, token_of
from holdfast.guard.key_ledger import Claim
from holdfast.lifecycle.idempotency import Begun

if TYPE_CHECKING:
    import asyncio

    from holdfast.base.gathering import Gathering
    from holdfast.store import Store, Tx

TOGETHER_MAX = 100
"""Maximum number of keys in one transaction: their rows are locked until it commits."""

Told = Taken | Begun | bool | Failure | None
"""Of a claim its verdict, of a finish whether it was stored; or the database's failure."""


class KeysTogether:
    """Begins and finishes keys, many in a transaction. Threads and event loops may share it."""

    def __init__(self, store: Store, *, lease_us: int, expires_us: int) -> None:
        self._store = store
        self._on_sqlite = store.engine == key_ledger.SQLITE
        self._of_body: Callable[[bytes], str | bytearray] = bytearray if self._on_sqlite else bytes.hex
        self._lease_us = lease_us
        self._expires_us = expires_us
        self._writes: Combiner[Item, Told] = Combiner(self._write_items, most=TOGETHER_MAX)
        # The same for coroutines, which need asyncio: made when there is one.
        self._async: Gathering[Item, Told] | None = None

    def submit(self, write: Write) -> Told:
        """Begin or finish a key; `verdict` reads what comes back."""
        return self._writes.submit(item(write, self._of_body))

    def join(self, write: Write) -> asyncio.Future[Told]:
        """The same for a coroutine, which awaits it."""
        return (self._async or self._gathering()).join(item(write, self._of_body))

    def write_all(self, writes: Sequence[Write]) -> list[Begun | bool | None]:
        """Write these at once, and say of each what `verdict` says."""
        told = self._write_items([item(write, self._of_body) for write in writes])
        return [verdict(write, one) for write, one in zip(writes, told, strict=True)]

    def _write_items(self, items: Sequence[Item]) -> list[Told]:
        return self._prepare(items)()

    def _prepare(self, items: Sequence[Item]) -> Callable[[], list[Told]]:
        """What writes these: the usual ones together, each of the others by itself, so that it concerns nobody else.
        What remains to be done then is nearly all the database's work."""
        usual = self._usual(items)
        write: Callable[[], Done] = dict
        if usual:
            write = key_batches.prepare(self._store, usual, lease_us=self._lease_us, expires_us=self._expires_us)
        return lambda: self._write(items, usual, write)

    def _usual(self, items: Sequence[Item]) -> Sequence[Item]:
        """Those that may be tried together: the first of each key. In one order everywhere, so that two processes never
        wait for each other crosswise; SQLite has one writer, and takes them as they come."""
        usual = list(filter(row_of, items))
        if len(set(map(key_of, map(row_of, usual)))) < len(usual):
            return _each_key_once(usual)
        return usual if self._on_sqlite else sorted(usual, key=row_of)

    def _write(self, items: Sequence[Item], usual: Sequence[Item], write: Callable[[], Done]) -> list[Told]:
        done: Done = {}
        try:
            done = write()
        except Failure as failure:
            if failure.retryable or len(items) == 1:
                return [failure] * len(items)
        if len(done) == len(items):
            return _in_order(items, done)
        return self._write_rest(items, _told(usual, done))

    def _write_rest(self, items: Sequence[Item], found: dict[int, Told]) -> list[Told]:
        """What each is told; those that are not found yet are written now."""
        rest = _each_key_once([one for one in items if id(one) not in found])
        claims = [one for one in rest if isinstance(one[0], Claim)]
        try:
            if len(claims) > 1:
                found |= self._store.atomic(lambda tx: _begin_each(tx, claims), repeatable=True)
        except Failure as failure:
            if failure.retryable:
                found |= dict.fromkeys(map(id, claims), failure)
        return [found[id(one)] if id(one) in found else self._write_alone(one[0]) for one in items]

    def _write_alone(self, write: Write) -> Told:
        """A twin of another in the batch, or one that could not be written with the others."""

        def phase(tx: Tx) -> Told:
            if isinstance(write, Claim):
                return key_ledger.begin(tx, write)
            if key_ledger.finish(tx, write.started, write.kept, expires_us=self._expires_us, code=write.code):
                return True
            key_ledger.note_lost(tx, write.started)
            return False

        try:
            return self._store.atomic(phase, repeatable=True)
        except Failure as failure:
            return failure

    def _gathering(self) -> Gathering[Item, Told]:
        from holdfast.base.gathering import Gathering

        on_loop = None if self._on_sqlite else self._write_items_async
        self._async = Gathering(self._write_items, most=TOGETHER_MAX, flush_async=on_loop, prepare=self._prepare)
        return self._async

    async def _write_items_async(self, items: Sequence[Item]) -> Sequence[Told] | None:
        """The same without a thread; None where that cannot be, or nobody knows what became of it."""
        usual = self._usual(items)
        if not usual:
            return None
        done = await key_batches.write_async(self._store, usual, lease_us=self._lease_us, expires_us=self._expires_us)
        if done is None:
            return None
        if len(done) == len(items):
            return _in_order(items, done)
        import asyncio

        return await asyncio.to_thread(self._write_rest, items, _told(usual, done))


def verdict(write: Write, told: Told) -> Begun | bool | None:
    """Of a claim whether the key was taken, or why not: None when it changed hands in this moment and is worth another
    look. Of a finish whether the answer was stored: False when another caller has the key, which is then written down.

    Raises:
        Failure: the batch's, as one of the caller's own: each raises it in the context of its own request.
    """
    if isinstance(told, Taken):
        assert isinstance(write, Claim)
        return write.started(told.first_seen_us)
    if isinstance(told, Failure):
        mine = copy(told)
        mine.context = current_context()
        raise mine
    return told


def _in_order(items: Sequence[Item], done: Done) -> list[Told]:
    """What each is told, where all of them are done."""
    return list(map(done.__getitem__, map(token_of, map(row_of, items))))


def _told(items: Sequence[Item], done: Done) -> dict[int, Told]:
    """What is known of the writes, by the identity of their items: two with the same key are two."""
    return {id(one): done[one[0].token] for one in items if one[0].token in done}


def _begin_each(tx: Tx, items: Sequence[Item]) -> dict[int, Told]:
    return {id(one): key_ledger.begin(tx, one[0]) for one in items if isinstance(one[0], Claim)}


def _each_key_once(items: Sequence[Item]) -> list[Item]:
    """The first of each key, in the order of their keys."""
    first = {one[0].scope: one for one in reversed(items)}
    return [first[scope] for scope in sorted(first)]
