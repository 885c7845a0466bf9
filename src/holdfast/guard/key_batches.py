"""The usual writes of many keys together: begins of keys that are new, finishes of keys that are held.

Whatever is not usual (a key that was there before, one that somebody else has taken over) is left to the moves of one
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

    tenant: str
    operation: str
    key: str
    token: int
    status: int
    headers: str
    body: bytes
    resources: str | None
    code: str | None
    """Of the failure that the answer is."""
    started: Started

    @classmethod
    def of(cls, started: Started, kept: Stored, code: str | None) -> Finish:
        return cls(started.tenant, started.operation, started.key, started.token, *kept, code, started)


Write = Claim | Finish
scope_of = itemgetter(0, 1, 2)
"""Tenant, operation and key of a write."""

Done = dict[int, Started | bool]
"""What became of the writes that were usual, by their tokens: the key that was taken, or True for a stored answer."""

WRITE = "idempotency.write_keys"
REFUSED = {CONSTRAINT_VIOLATED.code, DUPLICATE_RECORD.code}
"""What SQLite says when a key is there already, or is not held."""


def prepare(store: Store, writes: Sequence[Write], *, lease_us: int, expires_us: int) -> Callable[[], Done]:
    """A function that writes what is usual, in one transaction, and raises the database's own failures.

    Args:
        writes: each of a key of its own, in the order of their keys.
    """
    if store.engine == key_ledger.SQLITE:
        return _prepare_all_or_none(store, writes, lease_us=lease_us, expires_us=expires_us)
    rows = _rows(writes, bytes.hex)
    return lambda: _done(
        writes, store.many_rows(WRITE, rows, repeatable=True, lease_us=lease_us, expires_us=expires_us)
    )


async def write_async(store: Store, writes: Sequence[Write], *, lease_us: int, expires_us: int) -> Done | None:
    """The same on an event loop; None where that cannot be, or when it is not known what became of it."""
    rows = await store.many_rows_async(WRITE, _rows(writes, bytes.hex), lease_us=lease_us, expires_us=expires_us)
    return None if rows is None else _done(writes, rows)


def _prepare_all_or_none(
    store: Store, writes: Sequence[Write], *, lease_us: int, expires_us: int
) -> Callable[[], Done]:
    """All of it in one statement of SQLite, or none of it where something is not usual."""
    moment_us = now_us()
    put = store.prepare_put(WRITE, _rows(writes, bytearray), lease_us=lease_us, expires_us=expires_us, now_us=moment_us)

    def write() -> Done:
        try:
            put()
        except Failure as refused:
            if refused.code not in REFUSED:
                raise
            # Nearly always a key that was there before: the answers of the others need not suffer from it.
            finishes = [one for one in writes if not isinstance(one, Claim)]
            some = 0 < len(finishes) < len(writes)
            return _prepare_all_or_none(store, finishes, lease_us=lease_us, expires_us=expires_us)() if some else {}
        return {one.token: one.started(moment_us) if isinstance(one, Claim) else True for one in writes}

    return write


def _rows(writes: Sequence[Write], of_body: Callable[[bytes], str | bytearray]) -> list[Row]:
    """The writes as their statement takes them; of a begin the status is 0.

    All of it is numbers and texts, and an empty text stands for none: SQLite's driver binds these at once, while of
    None, bool and bytes it asks first whether somebody wants to adapt them; and a column without NULL is one `join`
    for PostgreSQL.

    Args:
        of_body: a copy that SQLite's driver binds at once, or hex for PostgreSQL, which is given columns as text.
    """
    now_s = monotonic_s()
    no_answer = (0, "", of_body(b""), "", "", 0)
    return [
        (one.tenant, one.operation, one.key, one.token, one.request_hash, *no_answer)
        if isinstance(one, Claim)
        else (
            *(*one[:4], "", one.status, one.headers, of_body(one.body), one.resources or "", one.code or ""),
            round((now_s - one.started.began_s) * 1_000_000),
        )
        for one in writes
    ]


def _done(writes: Sequence[Write], rows: Sequence[Row]) -> Done:
    """What became of the writes whose tokens came back."""
    by_token = {one.token: one for one in writes}
    return {
        token: one.started(first_us) if isinstance(one := by_token[token], Claim) else True for token, first_us in rows
    }
