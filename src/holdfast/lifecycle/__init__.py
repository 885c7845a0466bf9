"""What may happen next: move tables and decisions, as plain values."""

from holdfast.lifecycle.breaker import BREAKER, BreakerState
from holdfast.lifecycle.decision import Decision, GiveUp, RetryAfter, Stop
from holdfast.lifecycle.job import JOB, Cancel, HandlerAnswer, JobState, RetryIn, Snooze
from holdfast.lifecycle.moves import Move, MoveRefused, Table, mermaid, moved, states, verbs

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
