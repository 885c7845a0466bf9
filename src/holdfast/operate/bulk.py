"""Work on many dead letters: begun, done in batches, followed and resumed by its row in the audit.

Each batch is one transaction that moves letters and lets the row grow. Only letters that were dead when the work began
are taken, the newest first: a job that is revived and dies again meanwhile is not taken twice. If the process dies, the
row stands still, and any process can resume the work from it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

from holdfast.base import encode
from holdfast.catalog import Failure
from holdfast.catalog.core import INTERNAL_ERROR
from holdfast.delivery.receivable import blocked
from holdfast.operate.actor import Actor, ActorKind
from holdfast.operate.audit import DONE, REFUSED, RUNNING, Action, new_action, write
from holdfast.operate.audit_log import SILENT_US, entry
from holdfast.operate.faults import ACTION_NOT_RESUMABLE
from holdfast.store import Store, Tx
from holdfast.worker.dead import DeadLetters, Progress
from holdfast.worker.dead_filter import DeadFilter
from holdfast.worker.dead_moves import Letter, discard, revive_free
from holdfast.worker.queues import wake_workers

STOPPED = "the process was stopped"


class Verb(StrEnum):
    """What can be done to many."""

    REVIVE = "revive"
    DISCARD = "discard"

    @property
    def past(self) -> str:
        return {Verb.REVIVE: "revived", Verb.DISCARD: "discarded"}[self]


@dataclass(frozen=True, slots=True)
class Work:
    """Work that has a row in the audit."""

    action: Action
    verb: Verb
    chosen: DeadFilter
    until_us: int
    """Only letters that died before this time."""


@dataclass(frozen=True, slots=True)
class Ended:
    """What came of it."""

    total: int
    """How many matched when it began."""
    done: int
    refused: int
    """Left as they were, those that are blocked among them."""
    blocked: int
    """Left because their endpoint is disabled or removed."""


class Stopped(Exception):
    """The process ends; the rest is left until an operator resumes the work."""


def begin(store: Store, verb: Verb, chosen: DeadFilter, *, actor: Actor, reason: str | None = None) -> Work:
    """Write down that it begins; `run` does it.

    Raises:
        Failure: BAD_REQUEST when the reason is too long, or a time of the filter names no zone.
    """
    chosen.parameters()
    action = new_action(actor, verb.value, chosen.words(), reason)

    def phase(tx: Tx) -> int:
        until_us = tx.now_us() + 1
        work = encode({"filter": chosen.document(), "until_us": until_us})
        write(tx, action, state=RUNNING, result="", work=work)
        return until_us

    return Work(action, verb, chosen, store.atomic(phase, repeatable=True))


def resume(store: Store, action_id: str, *, actor: Actor) -> Work:
    """Take over work that was interrupted; `run` does the rest. One process gets it, and that has a row of its own.

    Raises:
        Failure: ACTION_NOT_FOUND; ACTION_NOT_RESUMABLE when it has ended or another process is at it.
    """

    def phase(tx: Tx) -> Work:
        found = entry(tx, action_id)
        if found.work is None or tx.row("audit.take_over", id=found.id, silent_us=SILENT_US) is None:
            raise ACTION_NOT_RESUMABLE(id=found.id, state=found.state)
        write(tx, new_action(actor, "resume", f"audit:{found.id}", None), state=DONE, result=DONE)
        begun_by = Actor(ActorKind(found.actor_kind), found.actor, found.address)
        action = Action(actor=begun_by, verb=found.verb, subject=found.subject, reason=found.reason, id=found.id)
        held = json.loads(found.work)
        return Work(action, Verb(found.verb), DeadFilter.of_document(held["filter"]), int(held["until_us"]))

    return store.atomic(phase)


def run(
    store: Store,
    work: Work,
    *,
    progress: Callable[[Progress], None] | None = None,
    stopping: Callable[[], bool] = lambda: False,
) -> Ended:
    """Do the work, batch by batch, and end its row.

    Args:
        progress: told after each batch.
        stopping: asked after each batch; the work ends then, and can be resumed.

    Raises:
        Failure: the database's own; the row says how far it came.
        Stopped: `stopping` said so.
    """
    batch = _Batch(store, work)
    counted = False

    def follow(so_far: Progress) -> None:
        nonlocal counted
        if not counted:
            store.atomic(lambda tx: tx.run("audit.counted", id=work.action.id, total=so_far.total), repeatable=True)
            counted = True
        if progress is not None:
            progress(so_far)
        if stopping():
            raise Stopped

    try:
        found = DeadLetters(store).each_batch(work.chosen, batch, work.action.reason, follow, until_us=work.until_us)
    except BaseException as error:
        _end(store, work, REFUSED, _why(error))
        raise
    total = max(found.total, found.done)
    store.atomic(lambda tx: tx.run("audit.counted", id=work.action.id, total=total), repeatable=True)
    left = f"{batch.blocked} left: their endpoint is disabled or removed" if batch.blocked else DONE
    _end(store, work, DONE, left)
    return Ended(total, found.done, found.refused, batch.blocked)


class _Batch:
    """One batch: the letters are moved, and the row of the audit grows, in one transaction."""

    def __init__(self, store: Store, work: Work) -> None:
        self._store = store
        self._work = work
        self.blocked = 0

    def __call__(self, tx: Tx, letters: Sequence[Letter], reason: str | None) -> int:
        if self._work.verb is Verb.REVIVE:
            lost = blocked(tx, [letter.id for letter in letters])
            able = [letter for letter in letters if letter.id not in lost]
            done = revive_free(tx, able, reason) if able else 0
            tx.after_commit.append(lambda: self._follow(able, len(lost)))
        else:
            done = discard(tx, letters, reason)
        tx.run("audit.progress", id=self._work.action.id, done=done, refused=len(letters) - done)
        return done

    def _follow(self, able: Sequence[Letter], lost: int) -> None:
        # Not before the commit: a batch that is run again must not be counted twice.
        self.blocked += lost
        wake_workers(self._store, {letter.queue for letter in able})


def _why(error: BaseException) -> str:
    match error:
        case Failure():
            return error.code
        case Stopped() | KeyboardInterrupt():
            return STOPPED
        case _:
            return INTERNAL_ERROR.code


def _end(store: Store, work: Work, state: str, result: str) -> None:
    # A row that cannot be ended stands still, is shown as interrupted after a while, and can be resumed.
    with suppress(Failure):
        store.atomic(lambda tx: tx.run("audit.ended", id=work.action.id, state=state, result=result), repeatable=True)
