"""When each attempt of a retry rule starts: from the earliest to the latest moment that chance allows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from holdfast.base.formatting import duration
from holdfast.console.charts.canvas import WIDTH, box, canvas
from holdfast.console.parts import Column, table
from holdfast.http.markup import Markup, element

ROW_HEIGHT = 10
ATTEMPTS_SHOWN_MAX = 25
MARK = 6
"""How wide a moment is drawn."""


def schedule_chart(starts_s: Sequence[tuple[float, float]], *, of: str = "") -> Markup:
    """A row for each attempt; calls themselves are taken to be instant.

    Args:
        of: what is attempted, where a page has several such charts.
    """
    shown = starts_s[:ATTEMPTS_SHOWN_MAX]
    whole_s = shown[-1][1] or 1.0
    waits = [(0.0, 0.0), *((late[0] - early[0], late[1] - early[1]) for early, late in pairwise(shown))]
    rows = [
        [str(place), span_range(*wait) if place > 1 else "at once", span_range(*start), _row(start, whole_s, place)]
        for place, (start, wait) in enumerate(zip(shown, waits, strict=True), 1)
    ]
    columns = (
        Column("attempt", "number"),
        Column("wait before it", "short"),
        Column("starts after", "short"),
        Column("", "wide drawn"),
    )
    drawn = table(columns, rows, caption=f"When each attempt starts{of and f': {of}'}", empty="")
    if len(starts_s) <= ATTEMPTS_SHOWN_MAX:
        return drawn
    more = f"{len(starts_s) - ATTEMPTS_SHOWN_MAX} more attempts follow, up to {span_range(*starts_s[-1])}."
    return element("div", drawn, element("p", more, class_="note"))


def span_range(low_s: float, high_s: float) -> str:
    """`4 s`, `4 s – 6 s`."""
    low, high = duration(low_s), duration(high_s)
    return low if low == high else f"{low} – {high}"


def _row(start: tuple[float, float], whole_s: float, place: int) -> Markup:
    from_x, to_x = (WIDTH * moment_s / whole_s * (1 - MARK / WIDTH) for moment_s in start)
    waiting = box(0, ROW_HEIGHT / 2 - 0.5, from_x, 1, "waiting")
    return canvas(
        waiting,
        box(from_x, 0, max(to_x - from_x, 0) + MARK, ROW_HEIGHT, "bar tone-1"),
        label=f"attempt {place} starts after {span_range(*start)}",
        kind="row",
        height=ROW_HEIGHT,
    )
