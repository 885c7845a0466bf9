"""What can be done with dead letters, each function a phase of a transaction; the events go with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from holdfast.base import bus
from holdfast.catalog import Failure
from holdfast.catalog.core import DUPLICATE_RECORD
from holdfast.catalog.durable import JOB_NOT_DEAD, JOB_NOT_FOUND, JOB_TWIN_EXISTS
from holdfast.store import Tx
from holdfast.worker import ledger, sequences

T = TypeVar("T")

TWIN_TRIES = 5


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter that this transaction holds."""

    id: str
    tenant: str
    queue: str
    kind: str
    dedupe_key: str | None
    window_over: bool | None
    attempt_count: int
    code: str
    failed_us: int


Act = Callable[[Tx, Sequence[Letter], str | None], int]
"""Does something to the letters that are held, and tells to how many."""


def pick_one(tx: Tx, job_id: str, *, tenant: str | None = None) -> Letter:
    """Hold one letter.

    Args:
        tenant: whose it has to be; None is everybody's.

    Raises:
        Failure: JOB_NOT_FOUND; JOB_NOT_DEAD.
    """
    row = tx.row("dead.pick_one", id=job_id, tenant=tenant)
    if row is None:
        outcome = tx.row("job.outcome", id=job_id, tenant=tenant)
        raise JOB_NOT_FOUND(job_id=job_id) if outcome is None else JOB_NOT_DEAD(job_id=job_id, state=outcome[0])
    return Letter(*row)


def pick_these(tx: Tx, job_ids: Sequence[str]) -> list[Letter]:
    """Hold those of the letters that are still dead, in the order that was given."""
    found = {row[0]: Letter(*row) for row in tx.rows("dead.pick_these", ids=job_ids)} if job_ids else {}
    return [found[job_id] for job_id in job_ids if job_id in found]


def twins_of(tx: Tx, letters: Sequence[Letter]) -> dict[str, str]:
    """The letters whose dedupe key another job holds, and that job."""
    ids = [letter.id for letter in letters if letter.dedupe_key is not None]
    if not ids:
        return {}
    tx.run("dead.free_keys", ids=ids)
    return dict(tx.rows("dead.twins", ids=ids))


def revive_one(tx: Tx, letter: Letter, reason: str | None) -> None:
    """Put a letter that is held back into its queue.

    Raises:
        Failure: JOB_TWIN_EXISTS when another job with its dedupe key does the work already.
    """
    twins = twins_of(tx, [letter])
    if twins:
        raise JOB_TWIN_EXISTS(job_id=letter.id, twin_id=twins[letter.id])
    revive(tx, [letter], reason)


def revive_free(tx: Tx, letters: Sequence[Letter], reason: str | None) -> int:
    """Revive those whose key is free; of several with the same key the first, which is the newest."""
    kept_out = twins_of(tx, letters)
    taken: set[tuple[str, str, str]] = set()
    free = []
    for letter in letters:
        key = (letter.tenant, letter.queue, letter.dedupe_key or "")
        if letter.id in kept_out or key in taken:
            continue
        if letter.dedupe_key is not None and not letter.window_over:
            taken.add(key)
        free.append(letter)
    return revive(tx, free, reason) if free else 0


def revive(tx: Tx, letters: Sequence[Letter], reason: str | None) -> int:
    """Put them back into their queues; how many."""
    moved = {row[0] for row in tx.rows("dead.revive", ids=[letter.id for letter in letters])}
    sequences.rejoin(tx, sorted(moved))
    return _note(tx, "revived", [letter for letter in letters if letter.id in moved], reason)


def discard(tx: Tx, letters: Sequence[Letter], reason: str | None) -> int:
    """Delete them; how many."""
    gone = {row[0] for row in tx.rows("dead.discard", ids=[letter.id for letter in letters])}
    return _note(tx, "discarded", [letter for letter in letters if letter.id in gone], reason)


def _note(tx: Tx, verb: str, letters: Sequence[Letter], reason: str | None) -> int:
    events = [ledger.event(one.id, verb, one.queue, one.kind, one.attempt_count, one.code, reason) for one in letters]
    ledger.journal(tx, "", events)
    if bus.listeners:
        tx.after_commit.append(lambda: _tell(verb, letters, reason))
    return len(letters)


def _tell(verb: str, letters: Sequence[Letter], reason: str | None) -> None:
    for one in letters:
        bus.tell(
            f"job.{verb}",
            id=one.id,
            tenant=one.tenant,
            queue=one.queue,
            kind=one.kind,
            attempt=one.attempt_count,
            code=one.code,
            reason=reason,
        )


def past_twins(attempt: Callable[[], T]) -> T:
    """Try again when somebody enqueued a twin between the look and the move; the next look sees it."""
    for _ in range(TWIN_TRIES - 1):
        try:
            return attempt()
        except Failure as failure:
            if failure.code != DUPLICATE_RECORD.code:
                raise
    return attempt()
