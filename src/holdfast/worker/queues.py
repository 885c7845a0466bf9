"""Queues, as an operator sees them: how deep, how late, whether they are held, and the two verbs pause and resume."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.base import bus, limits
from holdfast.catalog import Failure
from holdfast.store import Engine, Store, Tx
from holdfast.worker.breakers import allow_one
from holdfast.worker.ledger import LANE_WAITING
from holdfast.worker.prepared import check_name
from holdfast.worker.sequences import LANE_BLOCKED
from holdfast.worker.wake import CHANNEL

DEPTH_MAX = 10_000
"""Maximum number of jobs that are counted; a deeper queue is shown as at least this deep."""
HEADS_MAX = 10_000
QUEUES_MAX = 1_000
WORKERS_MAX = 10_000
SUBJECT = "queue:"
"""What happens to a queue is in the journal under this and its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerStatus:
    """A breaker that all processes share."""

    name: str
    state: str
    mode: str
    reason: str | None
    opened_us: int | None
    until_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatus:
    """How a queue stands."""

    name: str
    ready: int
    """Due and not yet claimed."""
    waiting: int
    """Due later."""
    more: bool
    """Whether counting stopped at the maximum: there may be more jobs than `ready` and `waiting` say."""
    processing: int
    oldest_ready_s: float | None
    """For how long the oldest of the ready jobs has been due."""
    paused_us: int | None
    paused_reason: str | None
    breaker: BreakerStatus | None
    """The queue's own breaker, if it has ever moved."""
    workers: int
    """How many workers serve it now."""

    @property
    def paused(self) -> bool:
        return self.paused_us is not None

    @property
    def held(self) -> bool:
        """Whether a breaker keeps its jobs back until their target works again."""
        return self.breaker is not None and self.breaker.state != "closed" and self.breaker.mode == "hold"

    @property
    def state(self) -> str:
        """In a word or two. Not `open`: that is what a breaker is when nothing goes through."""
        if self.paused:
            return "paused"
        if not self.workers:
            return "no worker"
        if self.breaker is not None and self.breaker.state != "closed":
            return "holding" if self.held else "failing fast"
        return "running"

    @property
    def why(self) -> str | None:
        """What keeps its jobs from being worked on, where something does."""
        if self.paused:
            return self.paused_reason
        if not self.workers:
            return "no worker serves this queue"
        return self.breaker.reason if self.breaker is not None and self.breaker.state != "closed" else None


class Queues:
    """The queues of a store. Threads may share it."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def pause(self, name: str, reason: str) -> None:
        """Let no job of the queue be claimed until it is resumed; what runs goes on. Pausing again changes the reason.

        Raises:
            Failure: BAD_REQUEST names the field.
        """
        self.store.atomic(lambda tx: pause_queue(tx, name, reason))

    def resume(self, name: str) -> bool:
        """Let jobs be claimed again; False when the queue was not paused."""
        resumed = self.store.atomic(lambda tx: resume_queue(tx, name, None))
        if resumed:
            wake_workers(self.store, [name])
        return resumed

    def status(self, *, depth_max: int = DEPTH_MAX) -> Sequence[QueueStatus]:
        """Every queue that is registered or has unfinished jobs, by name. However deep they are, it costs little."""
        return self.store.atomic(lambda tx: _status(tx, depth_max), write=False)

    def probe(self, name: str) -> bool:
        """Let one job through an open breaker, to test; False when it is closed."""
        probed = self.store.atomic(lambda tx: allow_one(tx, name))
        if probed:
            wake_workers(self.store, [name])
        return probed

    def breakers(self) -> Sequence[BreakerStatus]:
        """Every breaker that has ever moved, of queues and of targets, by name."""
        return list(self.store.atomic(_breakers, write=False).values())


def pause_queue(tx: Tx, name: str, reason: str) -> None:
    """Let no job of the queue be claimed.

    Raises:
        Failure: BAD_REQUEST names the field.
    """
    check_name("name", name)
    check_name("reason", reason, most=limits().message_chars_max)
    tx.run("queue.pause", name=name, reason=reason)
    tx.run("queue.note", subject=SUBJECT + name, verb="paused", queue=name, reason=reason)
    tx.after_commit.append(lambda: bus.tell("queue.paused", queue=name, reason=reason))


def resume_queue(tx: Tx, name: str, reason: str | None) -> bool:
    """Let jobs of the queue be claimed again; False when it was not paused. The caller wakes the workers."""
    if tx.row("queue.resume", name=name) is None:
        return False
    tx.run("queue.note", subject=SUBJECT + name, verb="resumed", queue=name, reason=reason)
    tx.after_commit.append(lambda: bus.tell("queue.resumed", queue=name, reason=reason))
    return True


def is_known(tx: Tx, name: str) -> bool:
    """Whether there is a queue of this name, or a breaker that queues share."""
    return tx.row("queue.known", name=name) is not None


def wake_workers(store: Store, queues: Iterable[str]) -> None:
    """Tell workers, here and elsewhere, that these queues may have work. Telling never fails: workers also look."""
    for queue in queues:
        store.woken(queue)
        if store.engine is not Engine.POSTGRESQL:
            continue  # other processes see the file change
        try:
            store.single("store.notify", channel=CHANNEL, queue=queue)
        except Failure:
            return


def _status(tx: Tx, depth_max: int) -> list[QueueStatus]:
    now_us = tx.now_us()
    paused = {name: (paused_us, reason) for name, paused_us, reason in tx.rows("queue.registered", most=QUEUES_MAX)}
    oldest: dict[str, int | None] = {}
    for queue, lane, due_us in tx.rows("queue.heads", most=HEADS_MAX):
        before = oldest.setdefault(queue, None)
        if lane not in {LANE_WAITING, LANE_BLOCKED}:
            oldest[queue] = due_us if before is None else min(before, due_us)
    processing: dict[str, int] = dict(tx.rows("queue.processing"))
    breakers = _breakers(tx)
    workers = Counter(name for (names,) in tx.rows("queue.workers", most=WORKERS_MAX) for name in names.split(","))
    return [
        _one(
            tx,
            name,
            depth_max,
            processing=processing.get(name, 0),
            oldest_ready_s=None if (due_us := oldest.get(name)) is None else max(0, now_us - due_us) / 1_000_000,
            paused_us=paused.get(name, (None, None))[0],
            paused_reason=paused.get(name, (None, None))[1],
            breaker=breakers.get(name),
            workers=workers[name],
        )
        for name in sorted({*paused, *oldest, *processing, *workers})
    ]


def _one(tx: Tx, name: str, depth_max: int, **known: Any) -> QueueStatus:
    counted = tx.row("queue.depth", name=name, most=depth_max)
    assert counted is not None
    ready, alone, waiting, blocked = counted
    more = depth_max in counted
    return QueueStatus(name=name, ready=ready + alone, waiting=waiting + blocked, more=more, **known)


def _breakers(tx: Tx) -> dict[str, BreakerStatus]:
    return {one["name"]: BreakerStatus(**one) for one in tx.records("queue.breakers", most=QUEUES_MAX)}
