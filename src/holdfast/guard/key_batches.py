"""The usual writes of many keys together: begins of keys that are new, finishes of keys that are held.

Whatever is not usual (a key that was there before, one that another caller has taken over) is left to the moves of one
key, which leave the same rows. Every key stands for itself: a batch may be done in part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from holdfast.base import monotonic_s, now_us
from holdfast.catalog import Failure
from holdfast.catalog.core import CONSTRAINT_VIOLATED, DUPLICATE_RECORD
from holdfast.guard import key_ledger
from holdfast.guard.key_ledger import Claim, Stored
from holdfast.lifecycle.idempotency import Started

if TYPE_CHECKING:
    from holdfast.store import Row, Store


class Finish(NamedTuple):
    """The answer of a holder, as the table takes it."""

    started: Started
    kept: Stored
    code: str | None
    """Of the failure that the answer is."""

    @property
    def token(self) -> int:
        return self.started.token

    @property
    def scope(self) -> tuple[str, ...]:
        """Tenant, operation and key."""
        return self.started.tenant, self.started.operation, self.started.key


Write = Claim | Finish

GROUPED_BYTES_MAX = 16_384
"""Larger answers are stored each with a statement of its own."""
WRITE = "idempotency.write_keys"
REFUSED = {CONSTRAINT_VIOLATED.code, DUPLICATE_RECORD.code}
"""What SQLite says when a key is there already, or is not held."""


Item = tuple[Write, "Row"]
"""A write, and the row that its statement takes; an empty one where the answer is too large to be written with others.

The row is made where the write comes from: the thread that writes a batch would find all of it in the cache of another
processor, and nobody else can run meanwhile. What is done with the items of a batch is done by functions in C.
"""
row_of = itemgetter(1)
"""Of an item."""
key_of, token_of, status_of = itemgetter(2), itemgetter(3), itemgetter(5)
"""Of a row."""
_NO_ANSWER = 0, "", "", "", "", 0


def item(write: Write, of_body: Callable[[bytes], str | bytearray]) -> Item:
    """The write with its row: numbers and texts, and an empty text stands for none. SQLite's driver binds these at
    once, while of None, bool and bytes it asks first whether somebody wants to adapt them; and a column without NULL is
    one `join` for PostgreSQL. Of a begin the status is 0.

    Args:
        of_body: a copy that SQLite's driver binds at once, or hex for PostgreSQL, which is given columns as text.
    """
    if isinstance(write, Claim):
        return write, write[:5] + _NO_ANSWER
    started, (status, headers, body, resources), code = write
    if len(body) > GROUPED_BYTES_MAX:
        return write, ()
    took_us = round((monotonic_s() - started.began_s) * 1_000_000)
    texts = headers, of_body(body), resources or "", code or ""
    return write, (started.tenant, started.operation, started.key, started.token, "", status, *texts, took_us)


class Taken(NamedTuple):
    """A key that was new is the caller's."""

    first_seen_us: int


Done = dict[int, Taken | bool]
"""What became of the writes that were usual, by their tokens: the key was taken, or True for a stored answer."""


def prepare(store: Store, items: Sequence[Item], *, lease_us: int, expires_us: int) -> Callable[[], Done]:
    """A function that writes what is usual, in one transaction, and raises the database's own failures.

    Args:
        items: each of a key of its own, in the order of their keys where other processes write too.
    """
    if store.engine == key_ledger.SQLITE:
        return _prepare_all_or_none(store, items, lease_us=lease_us, expires_us=expires_us)
    rows = list(map(row_of, items))
    return lambda: _done(store.many_rows(WRITE, rows, repeatable=True, lease_us=lease_us, expires_us=expires_us))


async def write_async(store: Store, items: Sequence[Item], *, lease_us: int, expires_us: int) -> Done | None:
    """The same on an event loop; None where that cannot be, or when it is not known what became of it."""
    rows = list(map(row_of, items))
    answered = await store.many_rows_async(WRITE, rows, lease_us=lease_us, expires_us=expires_us)
    return None if answered is None else _done(answered)


def _prepare_all_or_none(store: Store, items: Sequence[Item], *, lease_us: int, expires_us: int) -> Callable[[], Done]:
    """All of it in one statement of SQLite, or none of it where something is not usual."""
    moment_us = now_us()
    rows = list(map(row_of, items))
    put = store.prepare_put(WRITE, rows, lease_us=lease_us, expires_us=expires_us, now_us=moment_us)

    def write() -> Done:
        try:
            put()
        except Failure as refused:
            if refused.code not in REFUSED:
                raise
            # Nearly always a key that was there before: the answers of the others need not suffer from it.
            finishes = [(write, row) for write, row in items if not isinstance(write, Claim)]
            some = 0 < len(finishes) < len(items)
            return _prepare_all_or_none(store, finishes, lease_us=lease_us, expires_us=expires_us)() if some else {}
        taken = Taken(moment_us)
        return {token_of(row): True if status_of(row) else taken for row in rows}

    return write


def _done(rows: Sequence[Row]) -> Done:
    """What became of the writes whose tokens came back, each begin with its moment: it is the same for all of them."""
    told = {first_us: True if first_us is None else Taken(first_us) for first_us in {first for _, first in rows}}
    return {token: told[first_us] for token, first_us in rows}
