"""The moves of idempotency keys, written down: each function is one phase of a transaction, and its event goes with it.

Every claim has a token of its own, drawn by chance, so that a phase that is repeated after a lost reply recognises
its own work. Zero rows back means *lost it*, never *ok*.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.base import Json, decode, encode, limits, monotonic_s, world
from holdfast.base.codec import canonical_list
from holdfast.base.ids import random_64
from holdfast.catalog.core import TRANSACTION_ROLLED_BACK
from holdfast.catalog.fault import NEVER_REPLAYED
from holdfast.lifecycle.idempotency import (
    NOBODY,
    STATUSES,
    Answer,
    AnswerInvalid,
    Begun,
    Free,
    KeyState,
    Sighting,
    Started,
    judged,
)

if TYPE_CHECKING:
    from holdfast.store import Row, Store, Tx

_TOKEN_MASK = (1 << 62) - 1
SQLITE = "sqlite"
"""The engine that writes one row in one statement: there the journal has a statement of its own."""
HEADER_TEXTS_MAX = 256
LOCK_TRIES = 5
LOCK_WAIT_S = 0.01
"""Number of tries, and seconds between two of them, for a row that a twin may have locked for a moment."""


class Claim(NamedTuple):
    """What a caller comes with."""

    tenant: str
    operation: str
    key: str
    token: int
    request_hash: str
    lease_us: int
    expires_us: int

    @property
    def scope(self) -> tuple[str, ...]:
        """Tenant, operation and key."""
        return self[:3]

    def started(self, first_seen_us: int) -> Started:
        return Started(
            tenant=self.tenant,
            operation=self.operation,
            key=self.key,
            token=self.token,
            first_seen_us=first_seen_us,
            began_s=monotonic_s(),
        )


class Stored(NamedTuple):
    """An answer as the table takes it."""

    status: int
    headers: str
    body: bytes
    resources: str | None


class Renewal(StrEnum):
    """What became of an attempt to extend a lease."""

    EXTENDED = "extended"
    LOCKED = "locked"
    """Another transaction has the row: a twin that was just seen, or the holder's own finish."""
    DONE = "done"
    LOST = "lost"


class Outcome(StrEnum):
    """What became of an answer that was stored in a transaction of the caller's."""

    STORED = "stored"
    ROLLED_BACK = "rolled_back"
    OPEN = "open"
    """The transaction still goes on."""


def new_token() -> int:
    """A token that no other claim has; never the one of a released key."""
    return NOBODY + 1 + (random_64() & _TOKEN_MASK)


def stored(answer: Answer, headers_kept: Iterable[str]) -> Stored:
    """What is kept of an answer: the headers on the list, and everything else of it.

    Raises:
        AnswerInvalid: it is not an answer, it refuses the caller, or its body is too large.
        SecretLeak: a kept header or a resource is a `Secret`.
    """
    if not isinstance(answer, Answer):
        raise AnswerInvalid(f"an Answer is stored, not {type(answer).__name__}")
    if answer.status in NEVER_REPLAYED:
        raise AnswerInvalid(f"a {answer.status} is not kept: the caller may be let in the next time; release the key")
    most = limits().answer_bytes_max
    if len(answer.body) > most:
        raise AnswerInvalid(f"the body has {len(answer.body)} bytes; at most {most} are kept")
    headers = tuple([pair for pair in answer.headers if pair[0].lower() in headers_kept])
    return Stored(answer.status, _header_text(headers), answer.body, _resources_text(answer.resources))


def stored_reply(
    status: int,
    headers: Iterable[tuple[bytes, bytes]],
    body: bytes,
    resources: Mapping[str, str],
    headers_kept: Collection[bytes],
) -> Stored:
    """The same for a reply as ASGI writes it, which refuses nobody and has a body that is not too large.

    Raises:
        AnswerInvalid: there is no such status.
        SecretLeak, TypeError, ValueError: the resources have no JSON form.
    """
    if status not in STATUSES:
        raise AnswerInvalid(f"{status} is not an HTTP status")
    kept = tuple([(name, value) for name, value in headers if name.lower() in headers_kept])
    return Stored(status, _raw_header_text(kept), body, _resources_text(resources))


def _resources_text(resources: Mapping[str, str]) -> str | None:
    return encode(dict(resources)) if resources else None


@lru_cache(maxsize=HEADER_TEXTS_MAX)
def _header_text(headers: tuple[tuple[str, str], ...]) -> str:
    """Most answers of a service have the same headers."""
    return encode(headers)


@lru_cache(maxsize=HEADER_TEXTS_MAX)
def _raw_header_text(headers: tuple[tuple[bytes, bytes], ...]) -> str:
    return encode([(str(name, "latin-1"), str(value, "latin-1")) for name, value in headers])


def begin(tx: Tx, claim: Claim) -> Begun | None:
    """Take the key, or say why not; None when it changed hands in this moment and is worth another look."""
    scope = _scope(claim)
    # Looking comes first: on PostgreSQL, an insert that meets a row waits for the transaction that changes the row.
    found = tx.row("idempotency.look", **scope)
    if found is None:
        return insert(tx, claim)
    seen = _sighting(found)
    if seen.token == claim.token:
        return claim.started(seen.first_seen_us)  # the reply to an earlier commit of this very claim was lost
    verdict = judged(seen, request_hash=claim.request_hash)
    if not isinstance(verdict, Free):
        tx.run("idempotency.touch", **scope)
        return verdict
    as_seen = {"seen_state": seen.state, "seen_token": seen.token}
    return _begin(tx, "idempotency.begin_again", claim, reason=verdict.reason, **as_seen)


def insert(tx: Tx, claim: Claim) -> Started | None:
    """Take a key that is new; None when it is there already. On PostgreSQL it waits for a change to the row to end."""
    return _begin(tx, "idempotency.begin", claim)


def _begin(tx: Tx, statement: str, claim: Claim, *, reason: str | None = None, **as_seen: Any) -> Started | None:
    row = tx.row(
        statement,
        **_scope(claim),
        request_hash=claim.request_hash,
        token=claim.token,
        lease_us=claim.lease_us,
        expires_us=claim.expires_us,
        **as_seen,
    )
    if row is None:
        return None
    if reason is not None:
        _note(tx, claim, "key.begun_again", reason=reason)
    return claim.started(row[0])


def finish(tx: Tx, started: Started, answer: Stored, *, expires_us: int, code: str | None = None) -> bool:
    """Store the answer; False when another caller has the key. The same answer again, by the same holder, is stored."""
    scope = _scope(started)
    kept = {"status": answer.status, "headers": answer.headers, "body": answer.body, "resources": answer.resources}
    noted = {"subject": subject(started), "code": code, "duration_us": _duration_us(started)}
    if tx.row("idempotency.finish", **scope, **kept, **noted, token=started.token, expires_us=expires_us) is None:
        found = tx.row("idempotency.look", **scope)
        return (
            found is not None
            and found[1:3] == (KeyState.DONE, started.token)
            and (found[4], found[5], bytes(found[6]), found[7]) == tuple(kept.values())
        )
    if tx.engine == SQLITE:
        _note(tx, started, "key.finished", code=code)
    return True


def note_lost(tx: Tx, started: Started) -> None:
    """Write down that a holder came too late."""
    _note(tx, started, "key.lost")


def release(tx: Tx, started: Started, *, code: str | None = None) -> bool:
    """Let the next caller begin at once; False when the key was no longer held."""
    if tx.row("idempotency.release", **_scope(started), token=started.token) is None:
        return False
    _note(tx, started, "key.released", code=code)
    return True


def renew(tx: Tx, started: Started, *, lease_us: int) -> Renewal:
    """Extend the lease, if the key is still held."""
    scope = _scope(started)
    if tx.row("idempotency.renew", **scope, token=started.token, lease_us=lease_us) is not None:
        return Renewal.EXTENDED
    found = tx.row("idempotency.look", **scope)
    if found is None or found[2] != started.token:
        return Renewal.LOST
    return Renewal.DONE if found[1] == KeyState.DONE else Renewal.LOCKED


def outcome(store: Store, started: Started) -> Outcome:
    """Look up what became of the answer that the holder has stored in a transaction of its own."""
    from holdfast.store import Engine

    assert started.within is not None
    if not started.within() or store.engine is Engine.SQLITE:
        # What is over can be seen. On SQLite nothing may be locked here: the transaction may be this very thread's.
        return store.atomic(lambda tx: _outcome(tx, started), write=False)
    # The connection has a transaction, but maybe a later one: then the row is free.
    for tries in range(LOCK_TRIES):
        if tries:
            world().sleep(LOCK_WAIT_S)
        if store.atomic(lambda tx: tx.row("idempotency.free", **_scope(started))) is not None:
            started.within = None
            return store.atomic(lambda tx: _outcome(tx, started), write=False)
    return Outcome.OPEN


def settle_open(tx: Tx, started: Started) -> Outcome:
    """Release the key if the transaction that finished it is gone without a commit.

    Always in a transaction that writes: on SQLite there is no other one beside it, on PostgreSQL the row is locked for
    as long as another one holds an answer for it.
    """
    if tx.row("idempotency.free", **_scope(started)) is None:
        return Outcome.OPEN
    return Outcome.ROLLED_BACK if release(tx, started, code=TRANSACTION_ROLLED_BACK.code) else Outcome.STORED


def _outcome(tx: Tx, started: Started) -> Outcome:
    found = tx.row("idempotency.look", **_scope(started))
    if found is not None and found[1:3] == (KeyState.DONE, started.token):
        return Outcome.STORED
    return Outcome.OPEN if started.within is not None and started.within() else Outcome.ROLLED_BACK


def _scope(held: Claim | Started) -> dict[str, str]:
    return {"tenant": held.tenant, "operation": held.operation, "key": held.key}


def _sighting(row: Row) -> Sighting:
    request_hash, state, token, lease_until_us, status, headers, body, resources, first_us, expires_us, now_us = row
    answer = None
    if state == KeyState.DONE:
        pairs = tuple((name, value) for name, value in _json(headers))
        answer = Answer(status, pairs, bytes(body), _json(resources) if resources else {})
    return Sighting(
        request_hash=request_hash,
        state=state,
        token=token,
        lease_until_us=lease_until_us,
        answer=answer,
        first_seen_us=first_us,
        expires_us=expires_us,
        now_us=now_us,
    )


def _json(text: str) -> Json:
    return decode(text, bytes_max=len(text) * 4)  # it was ours to bound when it was stored


def _note(tx: Tx, held: Claim | Started, verb: str, *, code: str | None = None, reason: str | None = None) -> None:
    tx.run(
        "idempotency.note",
        subject=subject(held),
        verb=verb,
        operation=held.operation,
        code=code,
        duration_us=_duration_us(held),
        reason=reason,
    )


def subject(held: Claim | Started) -> str:
    """How the journal names a key."""
    return canonical_list(held.tenant, held.operation, held.key)


def _duration_us(held: Claim | Started) -> int | None:
    return round((monotonic_s() - held.began_s) * 1_000_000) if isinstance(held, Started) else None
