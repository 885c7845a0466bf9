"""Queues: pause, resume, and let one job through an open breaker."""

from __future__ import annotations

from holdfast.catalog.core import BAD_REQUEST
from holdfast.operate.actor import Actor
from holdfast.operate.audit import Outcome, new_action, perform
from holdfast.operate.faults import QUEUE_NOT_FOUND
from holdfast.store import Store, Tx
from holdfast.worker.breakers import allow_one
from holdfast.worker.queues import is_known, pause_queue, resume_queue, wake_workers


def pause(store: Store, name: str, *, actor: Actor, reason: str | None) -> Outcome:
    """Let no job of the queue be claimed until it is resumed; what runs goes on. Pausing again changes the reason.

    Raises:
        Failure: BAD_REQUEST names the field.
    """
    action = new_action(actor, "pause", f"queue:{name}", reason)
    if not reason:
        raise BAD_REQUEST("{field} is missing: everybody who looks at the queue reads it.", field="reason")
    perform(store, action, lambda tx: pause_queue(tx, name, reason))
    return Outcome(action.id)


def resume(store: Store, name: str, *, actor: Actor, reason: str | None = None) -> Outcome:
    """Let jobs be claimed again.

    Raises:
        Failure: QUEUE_NOT_FOUND.
    """
    action = new_action(actor, "resume", f"queue:{name}", reason)

    def change(tx: Tx) -> bool:
        resumed = resume_queue(tx, name, reason)
        if resumed:
            tx.after_commit.append(lambda: wake_workers(store, [name]))
        elif not is_known(tx, name):
            raise QUEUE_NOT_FOUND(name=name)
        return resumed

    return Outcome(action.id, perform(store, action, change))


def probe(store: Store, name: str, *, actor: Actor, reason: str | None = None) -> Outcome:
    """Let one job through the open breaker of a queue, to test whether what it calls works again.

    Raises:
        Failure: QUEUE_NOT_FOUND when there is neither a queue nor a breaker of this name.
    """
    action = new_action(actor, "probe", f"queue:{name}", reason)

    def change(tx: Tx) -> bool:
        probed = allow_one(tx, name)
        if probed:
            tx.after_commit.append(lambda: wake_workers(store, [name]))
        elif not is_known(tx, name):
            raise QUEUE_NOT_FOUND(name=name)
        return probed

    return Outcome(action.id, perform(store, action, change))
