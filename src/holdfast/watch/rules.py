"""An alert rule, as data: what is looked at, from which value on it matters, for how long, and what is to be done.

```python
Rule(
    name="orders_slow", severity=Severity.WARNING, summary="Orders take too long.",
    what=Quantile(of=Counted(JOB_DURATION, only=(("queue", ("orders",)),)), share=0.95, over_s=300),
    above=30, for_s=600,
)
```
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite

from holdfast.catalog.fault import Severity
from holdfast.watch.rules_measure import Measure, labels_of

FOR_S_MAX = 7 * 86_400.0

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")


class Action(StrEnum):
    """What is done besides telling."""

    SWITCH_PROVIDER = "switch_provider"
    """The switch whose primary link is the cause goes to its fallback, and back when it is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """When an alert fires. Exactly one of `above` and `below` is set."""

    name: str
    severity: Severity
    summary: str
    """One sentence: what is wrong."""
    remedy: str = ""
    """One sentence: what to look at first."""
    what: Measure
    above: float | None = None
    """It matters while the reading is higher than this."""
    below: float | None = None
    """It matters while the reading is lower than this."""
    for_s: float = 0.0
    """How long it has to matter before the alert fires; 0 is at once."""
    per: str | None = None
    """Each value of this label is a cause of its own, told and resolved by itself."""
    action: Action | None = None
    enabled: bool = True

    def __post_init__(self) -> None:
        if not _NAME.match(self.name):
            raise ValueError(f"{self.name!r} is not a name for a rule: small letters, digits and _, at most 64")
        if self.severity not in {Severity.WARNING, Severity.CRITICAL}:
            raise ValueError(f"{self.name}: severity is warning or critical")
        if (self.above is None) == (self.below is None):
            raise ValueError(f"{self.name}: give above or below")
        if not isfinite(self.threshold):
            raise ValueError(f"{self.name}: the threshold is not a finite number")
        if not 0 <= self.for_s <= FOR_S_MAX:
            raise ValueError(f"{self.name}: for_s is between 0 and {FOR_S_MAX:g}")
        known = labels_of(self.what)
        if self.per is not None and self.per not in known:
            raise ValueError(f"{self.name}: per is one of {', '.join(sorted(known)) or 'nothing'}, not {self.per}")

    @property
    def threshold(self) -> float:
        """The value itself, whichever side matters."""
        found = self.above if self.above is not None else self.below
        assert found is not None
        return found

    @property
    def sign(self) -> str:
        """`>` or `<`."""
        return ">" if self.above is not None else "<"

    def exceeded_by(self, reading: float) -> bool:
        """Whether the reading is on the wrong side; exactly the threshold is not."""
        return reading > self.threshold if self.above is not None else reading < self.threshold


def key(rule: str, cause: str) -> str:
    """One cause of one rule, in a word: what receivers deduplicate by."""
    return f"{rule}/{cause}" if cause else rule
