"""Values over time: a line for each, thresholds drawn in, a place to click for every step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from holdfast.base.formatting import moment_of
from holdfast.console.charts.canvas import HEIGHT, WIDTH, across, box, canvas, nice_above, short, stroke
from holdfast.console.parts import Column, link, table
from holdfast.http.markup import Markup, element, joined

HEADROOM = 3
"""Above the highest value, so that a line on it can be seen whole."""
NOTHING = "Nothing was measured in this time."
ROWS_MAX = 500
"""Maximum number of steps that the table shows: the last ones."""
SPANS_REMEMBERED = 4_096
"""All charts of a page have the same steps, and so has the page a moment later."""
Told = Callable[[float], str]
Where = Callable[[int, int], str]
"""The address of what is behind a step, from its beginning to its end."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line; None is a step of which nothing is known."""

    name: str
    tone: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Threshold:
    """A value from which on somebody is told."""

    value: float
    tone: str
    words: str


@dataclass(frozen=True, slots=True)
class _Scale:
    least: float
    most: float

    def y(self, value: float) -> float:
        share = (value - self.least) / (self.most - self.least)
        return HEADROOM + (HEIGHT - HEADROOM) * (1 - min(max(share, 0.0), 1.0))


def line_chart(
    title: str,
    lines: Sequence[Line],
    starts_us: Sequence[int],
    step_us: int,
    *,
    told: Told,
    where: Where,
    as_table: str,
    thresholds: Sequence[Threshold] = (),
    least: float | None = None,
    most: float | None = None,
) -> Markup:
    """The chart with its legend and the way to its table; a sentence when nothing is known at all."""
    known = [value for line in lines for value in line.values if value is not None]
    if not known:
        return element("p", NOTHING, class_="empty")
    scale = _scale(known, thresholds, least, most)
    drawn = [across(scale.y(one.value), f"threshold {one.tone}") for one in thresholds if one.value >= scale.least]
    drawn += [part for line in lines for part in _strokes(line, scale)]
    # The table has the same links: here they would be hundreds of stops for the keyboard and for a screen reader.
    drawn.append(element("g", *_hits(lines, starts_us, step_us, told, where), aria_hidden="true"))
    plot = canvas(*drawn, label=_label(title, lines, told), kind="lines", role="group")
    table_link = link(as_table, "As a table", class_="as-table")
    return element(
        "figure",
        element("div", _side(scale, told), plot, _below(starts_us, step_us), class_="plot"),
        element("figcaption", *_legend(lines, thresholds, told), table_link),
        class_="chart",
    )


def line_table(
    title: str, lines: Sequence[Line], starts_us: Sequence[int], step_us: int, *, told: Told, where: Where
) -> Markup:
    """The same as numbers, the last first."""
    rows = []
    for place, start_us in list(enumerate(starts_us))[-ROWS_MAX:][::-1]:
        values = [line.values[place] for line in lines]
        if any(value is not None for value in values):
            span = link(where(start_us, start_us + step_us), span_text(start_us, start_us + step_us))
            rows.append([span, *("" if value is None else told(value) for value in values)])
    columns = [Column("time"), *(Column(line.name, "number") for line in lines)]
    return table(columns, rows, caption=title, empty=NOTHING)


@lru_cache(SPANS_REMEMBERED)
def span_text(start_us: int, end_us: int) -> str:
    """`14:00–14:05`, with the date where a step is long."""
    start, end = moment_of(start_us), moment_of(end_us)
    if end_us - start_us >= 3_600_000_000:
        return f"{start:%m-%d %H:%M}–{end:%H:%M}"
    return f"{start:%H:%M}–{end:%H:%M}" if (end_us - start_us) % 60_000_000 == 0 else f"{start:%H:%M:%S}–{end:%H:%M:%S}"


def _scale(known: Sequence[float], thresholds: Sequence[Threshold], least: float | None, most: float | None) -> _Scale:
    bottom = 0.0 if least is None else least
    top = nice_above(max(*known, *(one.value for one in thresholds), 0.0)) if most is None else most
    return _Scale(bottom, top if top > bottom else bottom + 1)


def _strokes(line: Line, scale: _Scale) -> Iterator[Markup]:
    """The line in pieces: where nothing is known there is a gap. A lonely step is a short dash."""
    width = WIDTH / max(len(line.values), 1)
    piece: list[str] = []
    for place, value in enumerate([*line.values, None]):
        if value is not None:
            piece.append(f"{short((place + 0.5) * width)},{short(scale.y(value))}")
        elif piece:
            if len(piece) == 1:
                x, y = piece[0].split(",")
                piece = [f"{short(float(x) - width / 3)},{y}", f"{short(float(x) + width / 3)},{y}"]
            yield stroke(" ".join(piece), f"line {line.tone}")
            piece = []


def _hits(lines: Sequence[Line], starts_us: Sequence[int], step_us: int, told: Told, where: Where) -> Iterator[Markup]:
    width = WIDTH / max(len(starts_us), 1)
    for place, start_us in enumerate(starts_us):
        values = [f"{line.name} {told(value)}" for line in lines if (value := line.values[place]) is not None]
        if values:
            end_us = start_us + step_us
            says = joined(f"{span_text(start_us, end_us)}: {', '.join(values)}")
            hit = box(place * width, 0, width, HEIGHT, "hit", Markup(f"<title>{says}</title>"))
            yield Markup(f'<a href="{joined(where(start_us, end_us))}" tabindex="-1">{hit}</a>')


def _side(scale: _Scale, told: Told) -> Markup:
    middle = (scale.least + scale.most) / 2
    marks = [element("span", told(value)) for value in (scale.most, middle, scale.least)]
    return element("div", *marks, class_="side", aria_hidden="true")


def _below(starts_us: Sequence[int], step_us: int) -> Markup:
    ends = [starts_us[0], starts_us[len(starts_us) // 2], starts_us[-1] + step_us]
    long = ends[-1] - ends[0] > 86_400_000_000
    shape = "%m-%d %H:%M" if long else "%H:%M"
    return element("div", *(element("span", moment_of(at_us).strftime(shape)) for at_us in ends), class_="below")


def _legend(lines: Sequence[Line], thresholds: Sequence[Threshold], told: Told) -> Iterator[Markup]:
    for line in lines:
        last = next((value for value in reversed(line.values) if value is not None), None)
        value = element("b", "–" if last is None else told(last))
        yield element("span", _swatch(f"line {line.tone}"), f"{line.name} ", value)
    for one in thresholds:
        yield element("span", _swatch(f"threshold {one.tone}"), one.words)


def _swatch(kind: str) -> Markup:
    drawn = element("line", x1="0", x2="16", y1="5", y2="5", class_=kind)
    return element("svg", drawn, viewBox="0 0 16 10", class_="swatch", aria_hidden="true")


def _label(title: str, lines: Sequence[Line], told: Told) -> str:
    parts = []
    for line in lines:
        known = [value for value in line.values if value is not None]
        if known:
            parts.append(f"{line.name} between {told(min(known))} and {told(max(known))}, last {told(known[-1])}")
    return f"{title}: {'; '.join(parts)}"
