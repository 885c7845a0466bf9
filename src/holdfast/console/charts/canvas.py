"""What all charts are drawn on: a box that stretches with the page while its strokes keep their width."""

from __future__ import annotations

from math import ceil, floor, log10

from holdfast.http.markup import Markup, element, joined

WIDTH = 1_000
HEIGHT = 100


def canvas(*content: Markup, label: str, kind: str, height: int = HEIGHT, role: str = "img") -> Markup:
    """An SVG that fills its place; what it says is also in its label. One with links inside is a `group`."""
    return element(
        "svg",
        *content,
        viewBox=f"0 0 {WIDTH} {height}",
        preserveAspectRatio="none",
        class_=kind,
        role=role,
        aria_label=label,
    )


def stroke(points: str, kind: str) -> Markup:
    """An open line."""
    return element("polyline", points=points, class_=kind, fill="none", vector_effect="non-scaling-stroke")


def across(y: float, kind: str) -> Markup:
    """A line from the left to the right."""
    at = short(y)
    return element("line", x1="0", x2=str(WIDTH), y1=at, y2=at, class_=kind, vector_effect="non-scaling-stroke")


def down(x: float, kind: str, height: int = HEIGHT) -> Markup:
    """A line from the top to the bottom."""
    at = short(x)
    return element("line", x1=at, x2=at, y1="0", y2=str(height), class_=kind, vector_effect="non-scaling-stroke")


def box(x: float, y: float, width: float, height: float, kind: str, *inside: Markup) -> Markup:
    """A filled rectangle."""
    # Written out, because a page has hundreds of them; the numbers need no escaping.
    placed = f'x="{short(x)}" y="{short(y)}" width="{short(max(width, 0))}" height="{short(max(height, 0))}"'
    return Markup(f'<rect class="{joined(kind)}" {placed}>{joined(*inside)}</rect>')


def short(number: float) -> str:
    """A coordinate without digits that nobody sees."""
    return f"{number:.1f}".removesuffix(".0")


def nice_above(value: float) -> float:
    """The next round number: 1, 2, 2.5, 5 or 10 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** floor(log10(value))
    share = value / power
    return next(step for step in (1, 2, 2.5, 5, 10) if share <= step + 1e-9) * power


def floor_tenth(value: float) -> float:
    """The next lower tenth."""
    return floor(value * 10 + 1e-9) / 10


def spread(count: int, shown: int) -> list[int]:
    """Which of `count` places have their names written below: at even distances, from the first on."""
    if count <= shown:
        return list(range(count))
    step = ceil((count - 1) / (shown - 1))
    return list(range(0, count, step))
