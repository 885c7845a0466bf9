"""How time is cut: fine slices for the last minutes, coarser ones the longer ago it is.

Always true: what was counted is in exactly one slice. It is written to the finest; when that is old enough, it is
folded into the next coarser one. So a series has at most `SLICES_MAX` rows, however many processes count it.
"""

from __future__ import annotations

from dataclasses import dataclass

SHORT_S = 10


@dataclass(frozen=True, slots=True)
class Level:
    """Slices of one width."""

    width_s: int
    kept_s: int
    """How long they stay as they are; then they are folded, or deleted where there is nothing coarser."""


LEVELS = (
    # A window of five minutes, which most alerts look at, begins in slices of ten seconds.
    Level(SHORT_S, 330),
    Level(30, 1_260),
    Level(60, 7_800),
    Level(300, 26 * 3_600),
    Level(3_600, 14 * 86_400 + 3_600),
)
WIDTHS_S = tuple(level.width_s for level in LEVELS)
"""The statements that read slices name them too."""
FOLD_S = 30
"""How often slices that are old enough are folded."""


def slices_max(levels: tuple[Level, ...] = LEVELS) -> int:
    """Maximum number of rows of a series: the slices of each level, and those that wait for the next turn."""
    rows, since_s = 0, 0
    for level, coarser in zip(levels, (*levels[1:], levels[-1]), strict=True):
        # A slice is folded when the whole coarser slice that it belongs to is old enough.
        span_s = level.kept_s + coarser.width_s + 2 * FOLD_S - since_s
        rows += -(-span_s // level.width_s) + 1
        since_s = level.kept_s
    return rows


SLICES_MAX = slices_max()


def width_at(age_s: float) -> int:
    """Width in seconds of the coarsest slices that may count something that happened `age_s` seconds ago."""
    return next((level.width_s for level in LEVELS if age_s <= level.kept_s), LEVELS[-1].width_s)
