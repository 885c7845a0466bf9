"""Policies as pictures: Mermaid for states and decisions, plain text for schedules. Pure functions of the policies.

Always true: what is drawn is read from the tables and rules that run, so a picture cannot disagree with the code.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.lifecycle import BREAKER, Stop, mermaid
from holdfast.policy import Backoff

SCHEDULE_COLUMNS = 48


@dataclass(frozen=True, slots=True)
class Step:
    """One question that is asked after a failed attempt; yes ends the call for the reason."""

    asks: str
    reason: Stop


DECISION_ORDER: tuple[Step, ...] = (
    Step("Has a link inside retried it already?", Stop.RETRIED_INSIDE),
    Step("Does the fault's rule say never, and `on` not name it?", Stop.NOT_RETRYABLE),
    Step("Is it a write without a key?", Stop.WRITE_WITHOUT_KEY),
    Step("Are all attempts used?", Stop.ATTEMPTS_USED),
    Step("Are the attempts of this code used?", Stop.CODE_ATTEMPTS_USED),
    Step("Is it unknown, and a write or seen too often?", Stop.UNKNOWN_FAILURE),
    Step("Does `on` or `when` refuse this occurrence?", Stop.CONDITION_UNMET),
    Step("Is the wait longer than the deadline leaves?", Stop.DEADLINE_TOO_NEAR),
    Step("Would the attempt start after within_s?", Stop.TIME_USED),
    Step("Is the Retry-After longer than a call without a time limit waits?", Stop.WAIT_TOO_LONG),
    Step("Is the retry budget spent?", Stop.BUDGET_SPENT),
)
"""The order in which the questions are asked: the first yes counts. `decide()` asks all but the first and the last,
which look at what the link remembers."""


def breaker_states() -> str:
    """How a breaker moves, as a Mermaid state diagram."""
    return mermaid(BREAKER)


def decision_order(steps: tuple[Step, ...] = DECISION_ORDER) -> str:
    """The questions after a failed attempt, as a Mermaid flowchart."""
    lines = ["flowchart TD", "    failed([an attempt failed]) --> q1"]
    for number, step in enumerate(steps, 1):
        following = f"q{number + 1}" if number < len(steps) else "again([wait, then try again])"
        lines.append(f'    q{number}{{"{step.asks}"}} -- yes --> s{number}["{step.reason}"]')
        lines.append(f"    q{number} -- no --> {following}")
    return "\n".join(lines)


def schedule(backoff: Backoff, attempts: int, *, columns: int = SCHEDULE_COLUMNS) -> str:
    """When each attempt starts, one line for each: `─` is waiting, `█` is when it may start."""
    starts = backoff.schedule_s(attempts)
    whole_s = starts[-1][1] or 1.0
    times = [_times(early_s, late_s) for early_s, late_s in starts]
    widest = max(map(len, times))
    lines = []
    for number, ((early_s, late_s), text) in enumerate(zip(starts, times, strict=True), 1):
        before = round(early_s / whole_s * (columns - 1))
        during = round(late_s / whole_s * (columns - 1)) - before + 1
        lines.append(f"attempt {number:>2}  {text:<{widest}}  {'─' * before}{'█' * during}")
    return "\n".join(lines)


def _times(early_s: float, late_s: float) -> str:
    early, late = f"{early_s:.4g}", f"{late_s:.4g}"
    return f"{early} s" if early == late else f"{early} – {late} s"
