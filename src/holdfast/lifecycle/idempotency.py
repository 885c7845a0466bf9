"""How an idempotency key moves, and what those who come with it are told.

A key whose lease is over is nobody's: its holder released it or died, and the next caller begins again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from holdfast.base import encode
from holdfast.catalog.failure import Failure
from holdfast.catalog.fault import NEVER_REPLAYED
from holdfast.lifecycle.moves import Move, Table

NOBODY = 0
"""The token of a key that was released."""
STATUSES = range(100, 600)


class KeyState(StrEnum):
    WORKING = "working"
    DONE = "done"


KEY: Table = (
    Move("working", "renew", "working"),
    Move("working", "release", "working"),
    Move("working", "begin", "working"),
    Move("working", "finish", "done"),
    Move("done", "replay", "done"),
    Move("done", "begin", "working"),
)
"""A working key is begun again when its lease is over, a done one when it has expired."""


class AnswerInvalid(ValueError):
    """An answer that cannot be kept: with what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What an operation answered, and the ids of what it created."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    resources: Mapping[str, str] = field(default_factory=dict)
    """Names and ids of what was created, such as `{"instanceId": "inst_7"}`."""

    def __post_init__(self) -> None:
        if type(self.status) is not int or self.status not in STATUSES:
            raise AnswerInvalid(f"{self.status!r} is not an HTTP status")
        if not isinstance(self.body, bytes):
            raise AnswerInvalid(f"the body is {type(self.body).__name__}; bytes are replayed exactly as they are")

    @classmethod
    def of_json(cls, value: object, *, status: int = 200, resources: Mapping[str, str] | None = None) -> Answer:
        """The value as a JSON response.

        Raises:
            SecretLeak, TypeError, ValueError: the value has no JSON form.
        """
        return cls(status, (("Content-Type", "application/json"),), encode(value).encode(), resources or {})


@dataclass(slots=True, kw_only=True, eq=False)
class Started:
    """The caller holds the key, does the work, and finishes or releases the key."""

    tenant: str
    operation: str
    key: str
    token: int
    first_seen_us: int
    began_s: float
    """On the monotonic clock of the holder."""
    finished: bool = False
    """Whether the answer is certainly stored."""
    within: Callable[[], bool] | None = None
    """Whether the transaction in which the answer was stored still goes on; None when there was none."""
    answer: Answer | None = None
    """The answer that was stored in that transaction."""
    rolled_back: bool = False
    """Whether that transaction is gone, and the answer with it."""
    lost: bool = False
    """Whether another caller has the key by now; long work checks this now and then."""


@dataclass(frozen=True, slots=True)
class Replay:
    """The request was answered before: this is the answer."""

    answer: Answer


@dataclass(frozen=True, slots=True)
class InProgress:
    """Another caller works on the same request right now."""

    retry_after_s: float


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The key was used for a different request."""


@dataclass(frozen=True, slots=True)
class Free:
    """Nobody holds the key: it may be begun again."""

    reason: str


Begun = Started | Replay | InProgress | Mismatch
"""What `begin` answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """A key as it was found, and the time on the database's clock."""

    request_hash: str
    state: str
    token: int
    lease_until_us: int | None
    answer: Answer | None
    first_seen_us: int
    expires_us: int
    now_us: int

    @property
    def lease_left_s(self) -> float:
        """How long its holder still has; zero where nobody holds it."""
        return max(0.0, ((self.lease_until_us or self.now_us) - self.now_us) / 1_000_000)


def judged(seen: Sighting, *, request_hash: str) -> Replay | InProgress | Mismatch | Free:
    """What a caller with this request is told about a key that was there before."""
    if seen.expires_us <= seen.now_us and not seen.lease_left_s:
        return Free("expired")
    if seen.request_hash != request_hash:
        return Mismatch()
    if seen.answer is not None:
        return Replay(seen.answer)
    if seen.lease_left_s:
        return InProgress(seen.lease_left_s)
    return Free("released" if seen.token == NOBODY else "lapsed")


def is_replayed(failure: Failure) -> bool:
    """Whether repeats are answered with this failure; otherwise the same request may run again.

    Never a refusal of the caller. Else the fault says so itself, or: what is retried runs again, and everything else
    is an answer.
    """
    if failure.status in NEVER_REPLAYED:
        return False
    declared = failure.fault.replayed
    if declared is not None:
        return declared
    return not failure.retryable
