"""What may happen next: move tables and decisions, as plain values."""

from holdfast.lifecycle.breaker import BREAKER, BreakerState
from holdfast.lifecycle.decision import Decision, GiveUp, RetryAfter, Stop
from holdfast.lifecycle.moves import Move, MoveRefused, Table, mermaid, moved, states, verbs

__all__ = [
    "BREAKER",
    "BreakerState",
    "Decision",
    "GiveUp",
    "Move",
    "MoveRefused",
    "RetryAfter",
    "Stop",
    "Table",
    "mermaid",
    "moved",
    "states",
    "verbs",
]
