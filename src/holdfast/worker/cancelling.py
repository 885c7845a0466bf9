"""Cancelling a job, as a phase of a transaction: at once when it is queued, on request when it runs."""

from __future__ import annotations

from typing import Any

from holdfast.base import bus
from holdfast.catalog.durable import JOB_CANCELLED, JOB_NOT_FOUND
from holdfast.store import Tx
from holdfast.worker import ledger, sequences, telling
from holdfast.worker.fingerprint import fingerprint
from holdfast.worker.joined import FIRST_SEEN, Seen

CANCELLED, CANCEL_ASKED = "cancelled", "cancel_asked"


def cancel_job(tx: Tx, job_id: str, *, tenant: str | None = None, reason: str | None = None) -> str | None:
    """Stop a job; `cancelled`, or `cancel_asked` when its handler still has to look; None when it has ended.

    Args:
        tenant: whose it has to be; None is everybody's.

    Raises:
        Failure: JOB_NOT_FOUND.
    """
    failure = JOB_CANCELLED()
    kind = tx.row("job.kind", id=job_id)
    stopped = tx.row(
        "job.cancel_queued",
        id=job_id,
        tenant=tenant,
        code=failure.code,
        message=failure.message,
        technical="cancelled while it was queued",
        fingerprint=fingerprint(failure.code, kind[0] if kind else "", "cancelled"),
    )
    verb = CANCELLED
    if stopped is None:
        stopped, verb = tx.row("job.ask_cancel", id=job_id, tenant=tenant), CANCEL_ASKED
    if stopped is None:
        if tx.row("job.outcome", id=job_id, tenant=tenant) is None:
            raise JOB_NOT_FOUND(job_id=job_id)
        return None
    if verb == CANCELLED and stopped[5] is not None and stopped[4] != sequences.LANE_BLOCKED:
        sequences.next_of(tx, stopped[5], stopped[6])
    ledger.journal(tx, "", [ledger.event(job_id, verb, stopped[1], stopped[2], stopped[3], failure.code, reason)])
    if verb == CANCELLED and bus.listeners:
        # Of one that runs, the worker tells when it has stopped.
        shown = tx.records("job.show", id=job_id, tenant=None)[0]
        tx.after_commit.append(lambda: _tell(shown, reason))
    return verb


def _tell(job: dict[str, Any], reason: str | None) -> None:
    known = {name: job[name] for name in ("id", "tenant", "queue", "kind", "trace")}
    if job["token"] == FIRST_SEEN:
        telling.seen([Seen(**known, delay_us=None)])
    bus.tell(
        "job.cancelled",
        **known,
        attempt=job["attempt_count"],
        worker="",
        code=job["error_code"],
        message=job["error_message"],
        technical=job["error_technical"],
        reason=reason,
        upstream_status=None,
        duration_us=None,
        delay_us=None,
    )
