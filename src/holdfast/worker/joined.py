"""Jobs and transactions that somebody else commits: how the worker learns what became of them.

Nobody is told of such a commit, so the row itself is the record. A job that a handler has finished in a transaction of
its own is looked up by its token when the handler has ended. A job that was enqueued in one carries a mark, which the
first worker that sees it takes off: that worker reports the job, once, and a job that was rolled back has no row to
be seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from holdfast.lifecycle import JobState
from holdfast.store import Tx

if TYPE_CHECKING:
    from holdfast.worker.job import Job
    from holdfast.worker.settlement import Settlement

UNSEEN = -1
"""The token of a job that came with somebody else's transaction."""
FIRST_SEEN = UNSEEN + 1
"""The token of its first claim, where nobody has taken the mark off before."""
SEE_MAX = 1_000
LEFT_US = 500_000
"""Time in microseconds for which a claimable job keeps its mark, so that the worker that claims it takes it off."""


class Judged(NamedTuple):
    """Settlements, by what became of the transactions of their handlers."""

    finished: list[tuple[Job, None, int | None]]
    """The transaction was committed: the job is complete."""
    open: list[Settlement]
    """The transaction still goes on and decides later."""
    rest: list[Settlement]
    """There was none, or it was rolled back: they are to be written."""


class Seen(NamedTuple):
    """A job that was enqueued in somebody else's transaction."""

    id: str
    tenant: str
    queue: str
    kind: str
    trace: str | None
    delay_us: int | None


def token_of(tx: Tx) -> int:
    """The token of a new job: marked where nobody would tell of it after the commit."""
    return 0 if tx.sees_commit else UNSEEN


def judged(tx: Tx, settlements: Sequence[Settlement]) -> Judged:
    """Look up what became of the jobs that their handlers have finished in transactions of their own."""
    ids = [one.job.id for one in settlements if one.job.finishing]
    if not ids:
        return Judged([], [], list(settlements))
    free = {row[0]: row[1:] for row in tx.rows("job.finishing", ids=ids)}
    result = Judged([], [], [])
    for one in settlements:
        if not one.job.finishing:
            result.rest.append(one)
        elif free.get(one.job.id) == (one.job.token + 1, JobState.COMPLETE):
            result.finished.append((one.job, None, one.job.took_us))
        elif one.job.id in free or tx.row("job.kind", id=one.job.id) is None:
            result.rest.append(one)
        else:
            result.open.append(one)
    return result


def see(tx: Tx) -> list[Seen]:
    """Take the mark off jobs that nobody has seen; the caller tells of them after the commit."""
    return [Seen(*row) for row in tx.rows("job.see", count=SEE_MAX, left_us=LEFT_US)]
