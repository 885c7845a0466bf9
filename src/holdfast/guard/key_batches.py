"""The usual writes of many keys together: begins of keys that are new, finishes of keys that are held.

Whatever is not usual (a key that was there before, one that somebody else has taken over) is left to the moves of one
key, which leave the same rows. Every key stands for itself: a batch may be done in part.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from holdfast.base import monotonic_s, now_us
from holdfast.catalog import Failure
from holdfast.catalog.core import CONSTRAINT_VIOLATED, DUPLICATE_RECORD
from holdfast.guard import key_ledger
from holdfast.guard.key_ledger import Claim, Stored
from holdfast.lifecycle.idempotency import Started

if TYPE_CHECKING:
    from holdfast.store import Row, Store, Tx

Scope = tuple[str, str, str]
"""Tenant, operation and key."""
Finish = tuple[Started, Stored, str | None]
"""The holder, its answer, and the code of the failure that the answer is."""
Write = Claim | Finish

NO_ANSWER = (None,) * 7
REFUSED = {CONSTRAINT_VIOLATED.code, DUPLICATE_RECORD.code}
"""What SQLite says when a key is there already, or is not held."""

Done = dict[int, Started | bool]
"""What became of the writes that were usual, by their tokens: the key that was taken, or True for a stored answer."""


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
            done.update(dict.fromkeys(_finished(tx.many_rows(*_finishing(finishes), expires_us=expires_us)), True))
        if claims:
            done.update(_begun(claims, tx.many_rows(*_beginning(claims), **_times(claims))))
        return done

    return store.atomic(phase, repeatable=True)


async def begin_async(store: Store, claims: Sequence[Claim]) -> Done | None:
    """Begin on an event loop, in a transaction of its own; None when it is not known what became of it."""
    rows = await store.many_rows_async(*_beginning(claims), **_times(claims))
    return None if rows is None else _begun(claims, rows)


async def finish_async(store: Store, finishes: Sequence[Finish], *, expires_us: int) -> Done | None:
    """Finish on an event loop, as above."""
    rows = await store.many_rows_async(*_finishing(finishes), expires_us=expires_us)
    return None if rows is None else dict.fromkeys(_finished(rows), True)


def scope_of(write: Write) -> Scope:
    """What makes a key one key."""
    held = write if isinstance(write, Claim) else write[0]
    return held.tenant, held.operation, held.key


def token_of(write: Write) -> int:
    """What tells a claim from every other one of its key."""
    return write.token if isinstance(write, Claim) else write[0].token


def _write_at_once(store: Store, claims: Sequence[Claim], finishes: Sequence[Finish], *, expires_us: int) -> Done:
    """All of it in one statement of SQLite, or none of it where something is not usual."""
    now_s, moment_us = monotonic_s(), now_us()
    rows: list[Row] = [
        (
            *(1, started.tenant, started.operation, started.key, None, started.token, None),
            *(kept.status, kept.headers, kept.body, kept.resources),
            *(key_ledger.subject(started), code, _duration_us(started, now_s)),
        )
        for started, kept, code in finishes
    ]
    nothing = (None,) * 7
    rows += [
        (0, one.tenant, one.operation, one.key, one.request_hash, one.token, one.lease_us, *nothing) for one in claims
    ]
    try:
        store.put_many("idempotency.write_keys", rows, repeatable=True, expires_us=expires_us, now_us=moment_us)
    except Failure as refused:
        if refused.code not in REFUSED:
            raise
        return {}
    done: Done = {claim.token: claim.started(moment_us) for claim in claims}
    return done | {started.token: True for started, _, _ in finishes}


def _beginning(claims: Iterable[Claim]) -> tuple[str, list[Row]]:
    """The statement that takes new keys, and its rows."""
    rows = [(claim.tenant, claim.operation, claim.key, claim.request_hash, claim.token) for claim in claims]
    return "idempotency.begin_keys", rows


def _begun(claims: Iterable[Claim], rows: Iterable[Row]) -> Done:
    by_token = {claim.token: claim for claim in claims}
    return {token: by_token[token].started(first_us) for token, first_us in rows}


def _finishing(finishes: Iterable[Finish]) -> tuple[str, list[Row]]:
    """The statement that stores answers and notes them in the journal, and its rows."""
    now_s = monotonic_s()
    rows: list[Row] = [
        (
            *(started.tenant, started.operation, started.key, started.token),
            *(kept.status, kept.headers, kept.body.hex(), kept.resources),
            *(key_ledger.subject(started), code, _duration_us(started, now_s)),
        )
        for started, kept, code in finishes
    ]
    return "idempotency.finish_keys", rows


def _finished(rows: Iterable[Row]) -> list[int]:
    return [row[0] for row in rows]


def _duration_us(started: Started, now_s: float) -> int:
    return round((now_s - started.began_s) * 1_000_000)


def _times(claims: Sequence[Claim]) -> dict[str, int]:
    return {"lease_us": claims[0].lease_us, "expires_us": claims[0].expires_us}
