"""What may happen next: move tables and decisions, as plain values."""

from typing import TYPE_CHECKING

from holdfast.base.lazy import lazily
from holdfast.lifecycle.decision import Decision, GiveUp, RetryAfter, Stop

if TYPE_CHECKING:
    from holdfast.lifecycle.breaker import BREAKER, BreakerState
    from holdfast.lifecycle.job import JOB, Cancel, HandlerAnswer, JobState, RetryIn, Snooze
    from holdfast.lifecycle.moves import Move, MoveRefused, Table, mermaid, moved, states, verbs

# A plain call has neither a breaker nor a job: loaded when first used.
__getattr__ = lazily(
    __name__,
    globals(),
    dict.fromkeys(("BREAKER", "BreakerState"), "holdfast.lifecycle.breaker")
    | dict.fromkeys(("JOB", "Cancel", "HandlerAnswer", "JobState", "RetryIn", "Snooze"), "holdfast.lifecycle.job")
    | dict.fromkeys(
        ("Move", "MoveRefused", "Table", "mermaid", "moved", "states", "verbs"), "holdfast.lifecycle.moves"
    ),
)

__all__ = [
    "BREAKER",
    "JOB",
    "BreakerState",
    "Cancel",
    "Decision",
    "GiveUp",
    "HandlerAnswer",
    "JobState",
    "Move",
    "MoveRefused",
    "RetryAfter",
    "RetryIn",
    "Snooze",
    "Stop",
    "Table",
    "mermaid",
    "moved",
    "states",
    "verbs",
]
