"""Whether a dead delivery can be tried again: one whose endpoint is disabled or removed would only die again."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.catalog import Failure
from holdfast.delivery.faults import ENDPOINT_DISABLED, ENDPOINT_REMOVED
from holdfast.store import Tx


def blocked(tx: Tx, job_ids: Sequence[str]) -> dict[str, Failure]:
    """Which of these jobs are deliveries that no endpoint would receive, and why; other jobs are never among them."""
    if not job_ids:
        return {}
    return {
        job_id: ENDPOINT_REMOVED(endpoint_id=endpoint_id)
        if removed
        else ENDPOINT_DISABLED(endpoint_id=endpoint_id, reason=reason)
        for job_id, endpoint_id, removed, reason in tx.rows("delivery.blocked", ids=job_ids)
    }


def check_receivable(tx: Tx, job_id: str) -> None:
    """Raise for a delivery that no endpoint would receive.

    Raises:
        Failure: ENDPOINT_DISABLED or ENDPOINT_REMOVED, which name the endpoint.
    """
    found = blocked(tx, [job_id])
    if found:
        raise found[job_id]
