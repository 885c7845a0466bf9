"""A chart the size of a word: how often, over time."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.console.charts.canvas import WIDTH, box, canvas, short
from holdfast.http.markup import Markup, element

SPARK_HEIGHT = 20


def sparkline(counts: Sequence[int], *, label: str) -> Markup:
    """A bar for each slice of time, the most filling the height; a count that is not zero can always be seen."""
    most = max(*counts, 1)
    width = WIDTH / max(len(counts), 1)
    heights = [max(2.0, SPARK_HEIGHT * count / most) if count else 0.0 for count in counts]
    bars = "".join(
        f"M{short(place * width)} {SPARK_HEIGHT}v{short(-height)}h{short(width * 0.8)}v{short(height)}z"
        for place, height in enumerate(heights)
        if height
    )
    base = box(0, SPARK_HEIGHT - 0.5, WIDTH, 0.5, "base")
    # All bars in one path: a page has a hundred of these.
    return canvas(base, element("path", d=bars, class_="bar bad"), label=label, kind="spark", height=SPARK_HEIGHT)
