"""A chart the size of a word: how often, over time."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.console.charts.canvas import WIDTH, box, canvas
from holdfast.http.markup import Markup

SPARK_HEIGHT = 20


def sparkline(counts: Sequence[int], *, label: str) -> Markup:
    """A bar for each slice of time, the most filling the height; a count that is not zero can always be seen."""
    most = max(*counts, 1)
    width = WIDTH / max(len(counts), 1)
    drawn = [
        box(place * width, SPARK_HEIGHT - height, width * 0.8, height, "bar bad")
        for place, count in enumerate(counts)
        if count and (height := max(2.0, SPARK_HEIGHT * count / most))
    ]
    base = box(0, SPARK_HEIGHT - 0.5, WIDTH, 0.5, "base")
    return canvas(base, *drawn, label=label, kind="spark", height=SPARK_HEIGHT)
