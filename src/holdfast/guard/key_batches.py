"""The usual writes of many keys together: begins of keys that are new, finishes of keys that are held.

Whatever is not usual (a key that was there before, one that somebody else has taken over) is left to the moves of one
key, which leave the same rows. Every key stands for itself: a batch may be done in part.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from holdfast.base import monotonic_s, now_us
from holdfast.base.codec import canonical_list
from holdfast.catalog import Failure
from holdfast.catalog.core import CONSTRAINT_VIOLATED, DUPLICATE_RECORD
from holdfast.guard import key_ledger
from holdfast.guard.key_ledger import Claim, Stored
from holdfast.lifecycle.idempotency import Started

if TYPE_CHECKING:
    from holdfast.store import Row, Store, Tx


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

BEGIN, FINISH, WRITE = "idempotency.begin_keys", "idempotency.finish_keys", "idempotency.write_keys"
NO_ANSWER = (None,) * 7
REFUSED = {CONSTRAINT_VIOLATED.code, DUPLICATE_RECORD.code}
"""What SQLite says when a key is there already, or is not held."""


def write(store: Store, writes: Sequence[Write], *, expires_us: int) -> Done:
    """Write what is usual, in one transaction.

    Args:
        writes: each of a key of its own and all with the same times, in the order of their keys.

    Raises:
        Failure: the database's own.
    """
    claims = [one for one in writes if isinstance(one, Claim)]
    finishes = [one for one in writes if not isinstance(one, Claim)]
    if store.engine == key_ledger.SQLITE:
        return _write_at_once(store, claims, finishes, expires_us=expires_us)

    def phase(tx: Tx) -> Done:
        done: Done = {}
        if finishes:
            done |= dict.fromkeys(_firsts(tx.many_rows(FINISH, _finish_rows(finishes), expires_us=expires_us)), True)
        if claims:
            done |= _begun(claims, tx.many_rows(BEGIN, _begin_rows(claims), **_times(claims)))
        return done

    return store.atomic(phase, repeatable=True)


async def begin_async(store: Store, claims: Sequence[Claim]) -> Done | None:
    """Begin on an event loop, in a transaction of its own; None when it is not known what became of it."""
    rows = await store.many_rows_async(BEGIN, _begin_rows(claims), **_times(claims))
    return None if rows is None else _begun(claims, rows)


async def finish_async(store: Store, finishes: Sequence[Finish], *, expires_us: int) -> Done | None:
    """Finish on an event loop, as above."""
    rows = await store.many_rows_async(FINISH, _finish_rows(finishes), expires_us=expires_us)
    return None if rows is None else dict.fromkeys(_firsts(rows), True)


def _write_at_once(store: Store, claims: Sequence[Claim], finishes: Sequence[Finish], *, expires_us: int) -> Done:
    """All of it in one statement of SQLite, or none of it where something is not usual."""
    now_s, moment_us = monotonic_s(), now_us()
    rows: list[Row] = [
        (1, *one[:3], None, one.token, None, *one[4:8], canonical_list(*one[:3]), one.code, _taken_us(one, now_s))
        for one in finishes
    ]
    rows += [(0, *one[:6], *NO_ANSWER) for one in claims]
    try:
        store.put_many(WRITE, rows, repeatable=True, expires_us=expires_us, now_us=moment_us)
    except Failure as refused:
        if refused.code not in REFUSED:
            raise
        return {}
    done: Done = {claim.token: claim.started(moment_us) for claim in claims}
    done.update([(one.token, True) for one in finishes])
    return done


def _begin_rows(claims: Sequence[Claim]) -> list[Row]:
    return [claim[:5] for claim in claims]


def _begun(claims: Sequence[Claim], rows: Sequence[Row]) -> Done:
    by_token = {claim.token: claim for claim in claims}
    return {token: by_token[token].started(first_us) for token, first_us in rows}


def _finish_rows(finishes: Sequence[Finish]) -> list[Row]:
    """The answers as PostgreSQL takes them, with what the journal tells of them."""
    now_s = monotonic_s()
    return [
        (*one[:6], one.body.hex(), one.resources, canonical_list(*one[:3]), one.code, _taken_us(one, now_s))
        for one in finishes
    ]


def _firsts(rows: Sequence[Row]) -> list[int]:
    return [row[0] for row in rows]


def _taken_us(finish: Finish, now_s: float) -> int:
    """How long the holder has worked."""
    return round((now_s - finish.started.began_s) * 1_000_000)


def _times(claims: Sequence[Claim]) -> dict[str, int]:
    return {"lease_us": claims[0].lease_us, "expires_us": claims[0].expires_us}
