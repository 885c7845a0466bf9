"""Dead letters one by one: revive, discard. Many at once are in `bulk`."""

from __future__ import annotations

from holdfast.delivery.receivable import check_receivable
from holdfast.operate.actor import Actor
from holdfast.operate.audit import Outcome, new_action, perform
from holdfast.store import Store, Tx
from holdfast.worker.dead_moves import discard as discard_letters
from holdfast.worker.dead_moves import past_twins, pick_one, revive_one
from holdfast.worker.queues import wake_workers


def revive(store: Store, job_id: str, *, actor: Actor, reason: str | None = None, tenant: str | None = None) -> Outcome:
    """Put a dead letter back into its queue; its attempts start anew.

    Raises:
        Failure: JOB_NOT_FOUND; JOB_NOT_DEAD; JOB_TWIN_EXISTS when another job with its dedupe key does the work;
            ENDPOINT_DISABLED or ENDPOINT_REMOVED when it is a delivery that would only die again. It then stays as it
            was, with its cause.
    """
    action = new_action(actor, "revive", f"job:{job_id}", reason)

    def change(tx: Tx) -> None:
        letter = pick_one(tx, job_id, tenant=tenant)
        check_receivable(tx, job_id)
        revive_one(tx, letter, reason)
        tx.after_commit.append(lambda: wake_workers(store, [letter.queue]))

    perform(store, action, change, atomic=lambda phase: past_twins(lambda: store.atomic(phase)))
    return Outcome(action.id)


def discard(
    store: Store, job_id: str, *, actor: Actor, reason: str | None = None, tenant: str | None = None
) -> Outcome:
    """Delete a dead letter; its history stays for as long as the journal is kept.

    Raises:
        Failure: JOB_NOT_FOUND; JOB_NOT_DEAD.
    """
    action = new_action(actor, "discard", f"job:{job_id}", reason)
    perform(store, action, lambda tx: discard_letters(tx, [pick_one(tx, job_id, tenant=tenant)], reason))
    return Outcome(action.id)
