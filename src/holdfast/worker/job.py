"""A job as it is asked for, as it is claimed, and as its handler sees it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from holdfast.base import Json, monotonic_s

if TYPE_CHECKING:
    from datetime import datetime

    from holdfast.store import Tx

DEFAULT_QUEUE = "default"


# Not frozen: a frozen one takes three times as long to make, and they are made by the thousand.
@dataclass(slots=True, kw_only=True)
class NewJob:
    """Work to be done once, later, by whichever worker has time."""

    kind: str
    """Which handler does it."""
    payload: Json = None
    """What the handler is given; anything JSON can say."""
    queue: str = DEFAULT_QUEUE
    """Where it waits."""
    priority: int = 0
    """Lower goes first."""
    delay_s: float = 0.0
    """Seconds from now before which the job does not start."""
    due: datetime | None = None
    """Not before this time on the database's clock, instead of `delay_s`; it names its zone."""
    dedupe_key: str | None = None
    """While a job of this tenant and queue with this key, of whatever kind, is queued, processing or complete, it is
    returned instead of a second one."""
    unique_s: float | None = None
    """How long the key keeps others out; without it, as long as the job exists and has not failed."""
    attempts: int | None = None
    """All attempts, instead of the handler's own rule."""
    timeout_s: float | None = None
    """How long one attempt may take, instead of the handler's own limit."""
    tenant: str = ""
    """Whose it is; dedupe keys of different tenants do not meet."""
    sequence: str | None = None
    """Jobs of one sequence, in whatever queue, run one after the other in the order in which they were enqueued."""


class Options(TypedDict, total=False):
    """What else may be said of a new job; each means what it means in `NewJob`."""

    queue: str
    priority: int
    delay_s: float
    due: datetime | None
    dedupe_key: str | None
    unique_s: float | None
    attempts: int | None
    timeout_s: float | None
    tenant: str
    sequence: str | None


class JobFilter(TypedDict, total=False):
    """Which jobs are meant; None leaves a filter out."""

    state: str | None
    """queued, processing, complete or failed."""
    queue: str | None
    kind: str | None
    tenant: str | None
    code: str | None
    """What they failed with."""


class Enqueued(NamedTuple):
    """The job that does the work: a new one, or the twin that was there already."""

    id: str
    created: bool
    """False when a twin with the same dedupe key was there; `id` is the twin's."""


Held = tuple[str, int]
"""A job's id and the token it is held with."""


class JobLost(Exception):
    """The job is no longer this worker's: its lease ran out, and what was done here must not be committed."""


@dataclass(slots=True, kw_only=True)
class Job:
    """A claimed job, as its handler sees it: `id`, `kind`, `payload`, `attempt`, `tenant`, `cancelled`, `finish`."""

    id: str
    """The same in every attempt; good for an idempotency key."""
    token: int
    """New with every claim; a settlement has to name it."""
    queue: str
    kind: str
    text: str = field(repr=False)
    """The payload as stored."""
    attempt: int
    """Which attempt this is, the first being 1; one that a dying worker took along is not counted."""
    attempt_count: int
    """How many were begun, counted or not."""
    attempts_max: int | None
    code_counts: str | None
    timeout_us: int | None
    claimed_us: int
    tenant: str
    trace: str | None
    worker: str
    waited_us: int = 0
    """How long before this claim the first attempt was claimed, by the database's clock."""
    claimed_s: float = field(default_factory=monotonic_s)
    started_s: float | None = None
    """When its handler was called, on the clock of `monotonic_s`."""
    took_us: int | None = None
    """How long the handler had worked when it finished the job inside a transaction of its own."""
    finishing: bool = False
    """Whether the handler has finished the job inside a transaction of its own, which may not have come through."""
    finished: bool = False
    """Whether that transaction has certainly come through; of a joined one only its owner knows."""
    cancelled: bool = False
    """Whether somebody asked to stop; a long handler looks now and then."""
    span: str = ""
    """The span of this attempt, where the job belongs to a trace."""
    sequence: str | None = None
    """What it is the head of, where it belongs to a sequence."""
    sequence_position: int = 0

    @property
    def held_as(self) -> Held:
        """What a settlement has to name."""
        return self.id, self.token

    @property
    def elapsed_s(self) -> float:
        """How long ago the first attempt began, whatever the clocks of the workers say."""
        return self.waited_us / 1_000_000 + monotonic_s() - self.claimed_s

    @property
    def payload(self) -> Json:
        """What was enqueued."""
        import json

        return json.loads(self.text)

    def failures_with(self, code: str) -> int:
        """How many attempts have failed with this code so far."""
        import json

        counts: dict[str, int] = json.loads(self.code_counts) if self.code_counts else {}
        return counts.get(code, 0)

    def finish(self, tx: Tx, result: Json = None) -> None:
        """Complete the job inside the handler's own transaction: its writes and the completion commit together.

        Args:
            tx: what `store.join(connection)` returns, or `store.atomic` hands over; the handler commits it.
            result: what `jobs.wait` returns; what the handler itself returns is not looked at any more.

        Raises:
            JobLost: the lease ran out; roll back, another worker does the work.
            TypeError: `tx` is a connection.
        """
        from holdfast.worker.attempt import result_text
        from holdfast.worker.ledger import finish_within

        text = None if result is None else result_text(result)
        before, self.finishing = self.finishing, True  # before the row is locked: the worker must not wait for it
        try:
            took_us = self._elapsed_us()
            finish_within(tx, self, text, took_us)
            tx.after_commit.append(self._come_through)
            self.took_us = took_us
        except BaseException as error:
            self.finishing = before
            if isinstance(error, AttributeError):
                from holdfast.store.transaction import refuse_connection

                refuse_connection(tx)
            raise

    def _elapsed_us(self) -> int:
        since_s = self.claimed_s if self.started_s is None else self.started_s
        return int((monotonic_s() - since_s) * 1_000_000)

    def _come_through(self) -> None:
        self.finished = True
