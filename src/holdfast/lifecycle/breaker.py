"""How a breaker moves."""

from __future__ import annotations

from enum import StrEnum

from holdfast.lifecycle.moves import Move, Table


class BreakerState(StrEnum):
    """Whether calls go through: all, none, or a few probes."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


BREAKER: Table = (
    Move("closed", "trip", "open"),
    Move("open", "probe", "half_open"),
    Move("half_open", "trip", "open"),
    Move("half_open", "recover", "closed"),
)
