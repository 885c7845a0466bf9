"""Many keys of one tenant and operation in one phase of a transaction.

It has statements of its own beside those for one key, because each statement is a round trip to PostgreSQL: the others
take two for every key, these take one for hundreds of keys. A test holds that both leave the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.base import encode, monotonic_s
from holdfast.guard import key_ledger
from holdfast.guard.key_ledger import Claim, Stored
from holdfast.lifecycle.idempotency import Started

if TYPE_CHECKING:
    from holdfast.store import Row, Tx

Finish = tuple[Started, Stored, str | None]
"""Who has finished, with which answer, and the code of the failure that the answer is."""


class NotAll(Exception):
    """Some of them are no longer held, or were stored before: nothing of it is done."""


def begin_new(tx: Tx, claims: Sequence[Claim]) -> tuple[dict[int, Started], set[str]]:
    """Take the keys that are new: those that were taken, by token, and which keys were there before.

    Args:
        claims: of one tenant and operation, each with a key of its own, in the order of their keys.
    """
    scope = {"tenant": claims[0].tenant, "operation": claims[0].operation}
    tokens = {claim.token: claim for claim in claims}
    fresh = {token: tokens[token].started(first_us) for token, first_us in _insert(tx, scope, claims)}
    if len(fresh) == len(claims):
        return fresh, set()
    missing = [claim.key for claim in claims if claim.token not in fresh]
    there = tx.rows("idempotency.known_keys", **scope, keys=missing)
    # Those that are there under our own tokens: an earlier try of this very call came through.
    ours = {token: tokens[token].started(first_us) for _, token, first_us in there if token in tokens}
    return fresh | ours, {row[0] for row in there}


def _insert(tx: Tx, scope: dict[str, str], claims: Sequence[Claim]) -> list[Row]:
    """Insert the keys that are new; the token and the first sight of each."""
    from holdfast.store import Engine

    times = {"lease_us": claims[0].lease_us, "expires_us": claims[0].expires_us}
    if tx.engine is not Engine.SQLITE:
        rows = [(claim.key, claim.request_hash, claim.token) for claim in claims]
        return tx.many_rows("idempotency.begin_keys", rows, **scope, **times)
    made: list[Row] = []
    for claim in claims:  # there is no round trip to save, and SQLite reads rows of JSON slowly
        started = key_ledger.insert(tx, claim)
        if started is not None:
            made.append((claim.token, started.first_seen_us))
    return made


def finish_all(tx: Tx, finishes: Sequence[Finish], *, expires_us: int) -> None:
    """Store the answers.

    Args:
        finishes: of one tenant and operation, each with a key of its own, in the order of their keys.

    Raises:
        NotAll: the transaction is to be rolled back.
    """
    from holdfast.store import Engine

    if tx.engine is Engine.SQLITE:
        for started, kept, code in finishes:  # there is no round trip to save
            if not key_ledger.finish(tx, started, kept, expires_us=expires_us, code=code):
                raise NotAll
        return
    scope = {"tenant": finishes[0][0].tenant, "operation": finishes[0][0].operation}
    now_s = monotonic_s()
    held = {
        started.key: (
            *(started.token, kept.status, kept.headers, kept.body.hex(), kept.resources),
            *(key_ledger.subject(started), code, round((now_s - started.began_s) * 1_000_000)),
        )
        for started, kept, code in finishes
    }
    found = tx.row("idempotency.finish_keys", **scope, keys=list(held), held=encode(held), expires_us=expires_us)
    if found is None or found[0] != len(finishes):
        raise NotAll
