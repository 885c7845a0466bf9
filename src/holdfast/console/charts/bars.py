"""Counts side by side: rows with names, or columns of a distribution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.base.formatting import number
from holdfast.console.charts.canvas import HEIGHT, WIDTH, box, canvas, down, nice_above
from holdfast.console.parts import link
from holdfast.http.markup import Markup, element

ROW_HEIGHT = 10


@dataclass(frozen=True, slots=True)
class Bar:
    """One count, what it is called, and where to see what is behind it."""

    name: str
    value: float
    where: str = ""
    tone: str = "tone-1"
    words: str = ""
    """Said on a closer look."""


def bars(title: str, shown: Sequence[Bar], *, empty: str) -> Markup:
    """A row for each, the longest filling its place."""
    if not any(bar.value for bar in shown):
        return element("p", empty, class_="empty")
    most = max(bar.value for bar in shown)
    rows = [
        element(
            "li",
            element("span", _named(bar), class_="name"),
            canvas(
                box(0, 0, WIDTH * bar.value / most, ROW_HEIGHT, f"bar {bar.tone}"),
                label=f"{bar.name}: {number(bar.value)}",
                kind="row",
                height=ROW_HEIGHT,
            ),
            element("span", number(bar.value), class_="value"),
        )
        for bar in shown
    ]
    return element("ul", *rows, class_="bars", aria_label=title)


def columns(title: str, shown: Sequence[Bar], *, threshold_after: int | None = None, note: str, empty: str) -> Markup:
    """A column for each, in order; the threshold is a line after `threshold_after` of them."""
    if not any(bar.value for bar in shown):
        return element("p", empty, class_="empty")
    most = nice_above(max(bar.value for bar in shown))
    width = WIDTH / len(shown)
    drawn = [
        box(
            (place + 0.12) * width,
            HEIGHT * (1 - bar.value / most),
            0.76 * width,
            HEIGHT * bar.value / most,
            f"bar {bar.tone}",
            element("title", bar.words or f"{bar.name}: {number(bar.value)}"),
        )
        for place, bar in enumerate(shown)
    ]
    if threshold_after is not None and threshold_after < len(shown):
        drawn.append(down(threshold_after * width, "threshold warn"))
    label = f"{title}: " + ", ".join(f"{bar.name}: {number(bar.value)}" for bar in shown)
    side = element("div", element("span", number(most)), element("span", "0"), class_="side", aria_hidden="true")
    names = element("div", *(element("span", bar.name) for bar in shown), class_="below even")
    return element(
        "figure",
        element("div", side, canvas(*drawn, label=label, kind="columns"), names, class_="plot"),
        element("figcaption", note),
        class_="chart",
    )


def _named(bar: Bar) -> Markup:
    text = element("code", bar.name)
    return link(bar.where, text) if bar.where else text
