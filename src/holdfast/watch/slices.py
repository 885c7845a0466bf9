"""How time is cut: fine slices for the last hours, coarse ones for the last days. Each flush writes them all."""

from __future__ import annotations

SHORT_S = 10
MIDDLE_S = 60
LONG_S = 300
WIDTHS_S = (SHORT_S, MIDDLE_S, LONG_S)
REACH_S = {SHORT_S: 2 * 3_600, MIDDLE_S: 86_400, LONG_S: 14 * 86_400}
"""So far back a question may reach in each."""
KEPT_S = {width_s: reach_s + 2 * LONG_S for width_s, reach_s in REACH_S.items()}
"""A little longer, so that nothing is pruned that is being read."""
SHARP_S = 1_800
"""A window that is shorter is counted in the finest slices; for a longer one a minute matters little."""


def width_of_window(over_s: float, age_s: float) -> int:
    """In which slices a window is counted that is so long, and begins so long ago."""
    if over_s < SHARP_S and age_s <= REACH_S[SHORT_S]:
        return SHORT_S
    return MIDDLE_S if age_s <= REACH_S[MIDDLE_S] else LONG_S


def width_of_step(step_s: float, age_s: float) -> int:
    """In which slices a chart is counted that has such steps, and begins so long ago: the coarsest that fit."""
    fitting = [width_s for width_s in WIDTHS_S if step_s % width_s == 0 and age_s <= REACH_S[width_s]]
    if fitting:
        return max(fitting)
    return next((width_s for width_s in WIDTHS_S if age_s <= REACH_S[width_s]), LONG_S)
