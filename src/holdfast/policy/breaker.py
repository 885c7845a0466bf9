"""Breaker: stop calling what keeps failing, and find out by a few probes when it works again.

`Breaker` is the rule, a value. `Circuit` (`holdfast.policy.circuit`) is its state in one process; the breakers of
queues and endpoints keep theirs in the store. All of them follow this one rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from holdfast.base.arguments import numeric
from holdfast.catalog import Blame, Failure, Fault
from holdfast.policy.backoff import PolicyInvalid

_SPARED = frozenset({Blame.CLIENT, Blame.CONFLICT, Blame.NO_OP})


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """Open at `failure_ratio` of at least `calls_min` calls, in the last `window_s` or in the last `recent_s` alone."""

    failure_ratio: float = 0.5
    """Minimum share of the calls in the window that must have failed, above 0 and at most 1."""
    calls_min: int = 10
    """Fewer calls in the window say too little to open it."""
    window_s: float = 120.0
    """Calls older than this, and a tenth of it, are forgotten."""
    recent_s: float = 5.0
    """The calls of this time alone may open it too, however well it went before."""
    open_s: float = 1.0
    """How long nothing is called before the first probe."""
    open_max_s: float = 4.0
    """The pause doubles with each probe that fails, up to this; it is never shorter than `open_s`."""
    probes: int = 1
    """Number of probes that must succeed before it closes; no more than this many are let through until then."""
    probe_s: float = 30.0
    """A probe that is out for longer counts as lost."""

    def __post_init__(self) -> None:
        for name in ("failure_ratio", "window_s", "recent_s", "open_s", "open_max_s", "probe_s"):
            numeric(name, getattr(self, name), raises=PolicyInvalid)
        for name in ("calls_min", "probes"):
            numeric(name, getattr(self, name), whole=True, raises=PolicyInvalid)
        if not 0 < self.failure_ratio <= 1:
            raise PolicyInvalid(f"failure_ratio: {self.failure_ratio} is not above 0 and at most 1")
        if self.calls_min < 1:
            raise PolicyInvalid(f"calls_min: {self.calls_min} is not at least 1")
        if self.probes < 1:
            raise PolicyInvalid(f"probes: {self.probes} is not at least 1")
        for name in ("window_s", "recent_s", "open_s", "open_max_s", "probe_s"):
            seconds = getattr(self, name)
            if not (isfinite(seconds) and seconds > 0):
                raise PolicyInvalid(f"{name}: {seconds} is not a positive number of seconds")

    def trips(self, *, failures: int, calls: int) -> bool:
        """Whether these counts of a window open it."""
        return calls >= self.calls_min and failures >= self.failure_ratio * calls

    def pause_s(self, open_for_s: float) -> float:
        """How long nothing is called, after `open_for_s` seconds of not being closed: as long again, within bounds."""
        return max(self.open_s, min(open_for_s, self.open_max_s))

    @staticmethod
    def blames(failure: Failure) -> bool:
        """Whether a failure speaks against the callee: a 4xx, a 429 or a conflict never does."""
        return Breaker.blames_kind(failure.fault)

    @staticmethod
    def blames_kind(fault: Fault) -> bool:
        """The same of every failure of this kind."""
        if fault.breaker is not None:
            return fault.breaker
        return fault.status >= 500 and fault.blame not in _SPARED
