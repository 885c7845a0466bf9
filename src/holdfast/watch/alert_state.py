"""Where an alert stands, and what the next reading makes of it. Pure: time and readings are arguments.

A condition that begins to hold makes the alert pending; when it has held for as long as the rule says, it fires; when
it no longer holds, a pending alert is forgotten and a firing one is resolved. Prometheus judges the same way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import assert_never

from holdfast.lifecycle import Move
from holdfast.watch.rules import Rule

SECOND_US = 1_000_000

ALERT = (
    Move("inactive", "exceed", "pending"),
    Move("pending", "subside", "inactive"),
    Move("pending", "fire", "firing"),
    Move("firing", "resolve", "resolved"),
    Move("resolved", "exceed", "pending"),
)


class Phase(StrEnum):
    """Where an alert stands: pending until it has lasted long enough to fire."""

    INACTIVE = "inactive"
    PENDING = "pending"
    FIRING = "firing"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertState:
    """One cause: a rule, and one value of its label where it has one."""

    phase: Phase = Phase.INACTIVE
    began_us: int | None = None
    """Since when the condition holds, or when it began to hold the last time."""
    fired_us: int | None = None
    resolved_us: int | None = None
    value: float | None = None
    """What was read at the last move."""
    at_us: int = 0
    """When that was."""


QUIET = AlertState()


def judge(rule: Rule, reading: float | None, state: AlertState, now_us: int) -> AlertState:
    """The state after a reading; the same value when nothing moved. A missing reading does not raise an alert."""
    if now_us < state.at_us:
        return state  # another process has seen more recent numbers
    exceeded = reading is not None and rule.exceeded_by(reading)
    match state.phase:
        case Phase.INACTIVE | Phase.RESOLVED:
            if not exceeded:
                return state
            begun = AlertState(phase=Phase.PENDING, began_us=now_us, value=reading, at_us=now_us)
            return _fired(rule, reading, begun, now_us)
        case Phase.PENDING:
            if not exceeded:
                return AlertState(value=reading, at_us=now_us)
            return _fired(rule, reading, state, now_us)
        case Phase.FIRING:
            if exceeded:
                return state
            return replace(state, phase=Phase.RESOLVED, resolved_us=now_us, value=reading, at_us=now_us)
        case _:
            assert_never(state.phase)


def _fired(rule: Rule, reading: float | None, state: AlertState, now_us: int) -> AlertState:
    assert state.began_us is not None
    if now_us - state.began_us < rule.for_s * SECOND_US:
        return state
    return replace(state, phase=Phase.FIRING, fired_us=now_us, value=reading, at_us=now_us)
