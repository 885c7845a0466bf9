"""Sequences: jobs of one name run one after the other, in the order in which they were enqueued.

Only the head of a sequence is ready; the others are blocked and cost a worker nothing. What ends the head (done, given
up, cancelled) unblocks the next job in the same transaction, so that a process that dies leaves either both or neither.
A job that is tried again stays the head. One that is revived comes after all that wait.

Who ends a head does not wait for those who add to the sequence, whose transactions may be long. On PostgreSQL the two
can miss each other: each looks again after its commit (`recheck`), and the sweep of every worker finds what is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from holdfast.store import Engine, Store, Tx
from holdfast.worker.job import Job
from holdfast.worker.retention import DAY_S, also_prune

LANE_BLOCKED = "blocked"
NAME_CHARS_MAX = 400
SWEEP_MAX = 500
"""The number of sequences that one sweep looks at; the next one goes on behind them."""
NAME = "job sequences"
KEPT_S = 7 * DAY_S

Member = tuple[str, str]
"""The id of a job and the name of its sequence."""


def join(tx: Tx, members: Sequence[Member]) -> None:
    """Put new jobs at the end of their sequences."""
    _placed(tx, "sequence.join", members)


def rejoin(tx: Tx, job_ids: Sequence[str]) -> None:
    """Put revived jobs at the end of their sequences, in the order in which they were there before."""
    members = tx.rows("sequence.of_jobs", ids=job_ids) if job_ids else []
    if members:
        _placed(tx, "sequence.rejoin", members)


def reserve(tx: Tx, counts: Counter[str]) -> dict[str, int]:
    """Lock the sequences and take this many positions of each; returns the last position of each."""
    # Everyone locks in one order, so that two who add to the same sequences never wait for each other.
    return dict(tx.many_rows("sequence.reserve", sorted(counts.items())))


def advance(tx: Tx, ended: Iterable[Job]) -> None:
    """Unblock what comes after these heads, which have ended in this transaction."""
    heads = {job.sequence: job.sequence_position for job in ended if job.sequence is not None}
    if heads:
        tx.many("sequence.next", list(heads.items()))


def next_of(tx: Tx, name: str, position: int) -> None:
    """Unblock what comes after the head that was at this position."""
    tx.many("sequence.next", [(name, position)])


def recheck(store: Store, names: Iterable[str]) -> bool:
    """After the commit of a transaction that has ended heads or added jobs: whether a sequence had to be started."""
    asked = sorted(set(names))
    if not asked or store.engine is Engine.SQLITE:
        return False  # one writer at a time: nobody is missed
    stalled = [row[0] for row in store.look("sequence.stalled", names=asked)]
    return bool(stalled) and store.atomic(lambda tx: start(tx, stalled))


def start(tx: Tx, names: Sequence[str]) -> bool:
    """Unblock the first job of each sequence that has jobs and no head; whether there was one."""
    free = [row[0] for row in tx.rows("sequence.lock", names=names)]
    return bool(free) and bool(tx.rows("sequence.start", names=free))


def sweep(tx: Tx, after: str) -> tuple[bool, str]:
    """Start what stands still, among the sequences after this name; whether anything did, and where to go on."""
    names = [row[0] for row in tx.rows("sequence.waiting", after=after, count=SWEEP_MAX)]
    stalled = [row[0] for row in tx.rows("sequence.stalled", names=names)] if names else []
    started = bool(stalled) and start(tx, stalled)
    return started, names[-1] if len(names) == SWEEP_MAX else ""


def prune(store: Store, older_s: float, count: int) -> int:
    """Forget sequences that are empty and were not used for this long, at most this many; returns how many."""
    asked = {"older_us": int(older_s * 1_000_000), "count": count}
    return store.atomic(lambda tx: tx.run("sequence.prune", **asked), repeatable=True)


def _placed(tx: Tx, statement: str, members: Sequence[Member]) -> None:
    counts = Counter(name for _, name in members)
    last = reserve(tx, counts)
    next_position = {name: last[name] - count + 1 for name, count in counts.items()}
    rows = []
    for job_id, name in members:
        rows.append((job_id, name, next_position[name]))
        next_position[name] += 1
    tx.many(statement, rows)
    tx.rows("sequence.start", names=sorted(counts))


also_prune(NAME, prune, kept_s=KEPT_S)
