"""One job: find it by the beginning of its id, look at everything about it, cancel it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.catalog.durable import JOB_NOT_FOUND
from holdfast.operate.actor import Actor
from holdfast.operate.audit import Outcome, new_action, perform
from holdfast.operate.faults import ID_AMBIGUOUS, JOB_ENDED
from holdfast.store import Store, Tx
from holdfast.worker.cancelling import CANCELLED, cancel_job

ID_CHARS = 36
CANDIDATES_MAX = 5
"""Maximum number of ids that are named when a given beginning fits several."""
EVENTS_MAX = 500
"""Of a longer history only the end is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """A job with its history, read at one moment."""

    id: str
    now_us: int
    job: dict[str, Any] | None
    """None when the job is gone: pruned or discarded, and only its history is there."""
    events: Sequence[dict[str, Any]]
    """The end of its history, in order."""
    left_out: bool
    """Whether there are earlier events."""
    delivery: dict[str, Any] | None
    """The event and the endpoint, where the job is a delivery."""


def cancel(
    store: Store, job_id: str, *, actor: Actor, reason: str | None = None, tenant: str | None = None
) -> tuple[Outcome, bool]:
    """Stop a job: at once when it is queued, at its handler's next look when it runs; whether it has stopped.

    Raises:
        Failure: JOB_NOT_FOUND; JOB_ENDED.
    """
    action = new_action(actor, "cancel", f"job:{job_id}", reason)

    def change(tx: Tx) -> str:
        verb = cancel_job(tx, job_id, tenant=tenant, reason=reason)
        if verb is None:
            found = tx.row("job.outcome", id=job_id, tenant=tenant)
            raise JOB_ENDED(job_id=job_id, state=None if found is None else found[0])
        return verb

    return Outcome(action.id), perform(store, action, change) == CANCELLED


def view(tx: Tx, job_id: str, *, events_max: int = EVENTS_MAX) -> JobView:
    """Everything about one job.

    Raises:
        Failure: JOB_NOT_FOUND, unless its history is still there.
    """
    events = tx.records("job.last_events", subject=job_id, count=events_max + 1)
    found, deliveries = tx.records("job.show", id=job_id, tenant=None), tx.records("delivery.of_job", job_id=job_id)
    if not found and not events:
        raise JOB_NOT_FOUND(job_id=job_id)
    return JobView(
        id=job_id,
        now_us=tx.now_us(),
        job=found[0] if found else None,
        events=events[:events_max][::-1],
        left_out=len(events) > events_max,
        delivery=deliveries[0] if deliveries else None,
    )


def find(tx: Tx, beginning: str) -> str:
    """The id of the one job whose id begins like this.

    Raises:
        Failure: JOB_NOT_FOUND; ID_AMBIGUOUS names the candidates.
    """
    if not beginning or len(beginning) >= ID_CHARS:
        return beginning
    found = [row[0] for row in tx.rows("job.beginning", beginning=beginning, count=CANDIDATES_MAX + 1)]
    if not found:
        raise JOB_NOT_FOUND(job_id=beginning)
    if len(found) > 1:
        more = ["…"] if len(found) > CANDIDATES_MAX else []
        candidates = ", ".join([*found[:CANDIDATES_MAX], *more])
        raise ID_AMBIGUOUS(prefix=beginning, candidates=candidates)
    return str(found[0])
