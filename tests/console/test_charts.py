"""Charts: what is drawn is what was measured."""

from __future__ import annotations

import re

import pytest

from holdfast.console.charts import (
    Bar,
    Line,
    Threshold,
    bars,
    columns,
    line_chart,
    line_table,
    schedule_chart,
    sparkline,
)
from holdfast.console.charts.canvas import nice_above
from holdfast.policy import Backoff, Spread

MINUTE_US = 60_000_000
STARTS = [number * MINUTE_US for number in range(5)]


def drawn(values: list[float | None], **settings: object) -> str:
    given = {"told": lambda value: f"{value:g}", "where": lambda start, end: f"/jobs?since={start}", "as_table": "/t"}
    return line_chart("Title", [Line("p50", "tone-1", values)], STARTS, MINUTE_US, **{**given, **settings})


def points(svg: str) -> list[list[tuple[float, float]]]:
    """The pieces of the line, each a list of places."""
    pieces = re.findall(r'<polyline points="([^"]+)"', svg)
    return [[tuple(map(float, one.split(","))) for one in piece.split(" ")] for piece in pieces]


def test_a_line_has_a_gap_where_nothing_is_known() -> None:
    assert [len(piece) for piece in points(drawn([1, 2, None, 3, 4]))] == [2, 2]


def test_a_lonely_point_can_be_seen() -> None:
    [piece] = points(drawn([None, None, 5, None, None]))
    assert piece[0][0] < piece[1][0]
    assert piece[0][1] == piece[1][1]


def test_higher_values_are_drawn_higher_and_none_outside() -> None:
    [piece] = points(drawn([0, 1, 5, 10, 10]))
    heights = [y for _, y in piece]
    assert heights == sorted(heights, reverse=True)
    assert all(0 <= y <= 100 for y in heights)
    assert heights[0] == 100


def test_a_threshold_is_drawn_at_its_value() -> None:
    svg = drawn([1, 2, 3, 4, 5], thresholds=[Threshold(50, "warn", "50 warning")])
    [y] = re.findall(r'<line x1="0" x2="1000" y1="([\d.]+)" [^>]*class="threshold warn"', svg)
    assert float(y) == pytest.approx(3, abs=0.1), "the scale reaches up to it"
    assert "50 warning" in svg


def test_each_step_leads_to_what_is_behind_it() -> None:
    svg = drawn([1, None, 2, 3, 4])
    assert re.findall(r'href="/jobs\?since=(\d+)"', svg) == [str(at) for at in (STARTS[0], *STARTS[2:])]
    assert svg.count('tabindex="-1"') == 4
    told = line_table(
        "Title", [Line("p50", "", [1, None, 2, 3, 4])], STARTS, MINUTE_US, told=str, where=lambda s, e: "/j"
    )
    assert told.count("<tr>") == 5, "a head and four rows; the keyboard goes this way"


def test_nothing_measured_is_said() -> None:
    assert "Nothing was measured" in drawn([None] * 5)
    assert "Nothing" in bars("t", [Bar("a", 0)], empty="Nothing.")
    assert "Nothing" in columns("t", [Bar("a", 0)], note="", empty="Nothing.")


def test_names_in_a_chart_stay_text() -> None:
    hostile = "<script>alert(1)</script>"
    for svg in (
        bars(hostile, [Bar(hostile, 1, "/x")], empty=""),
        columns("t", [Bar(hostile, 1)], note=hostile, empty=""),
    ):
        assert "<script" not in svg


def test_the_longest_bar_fills_its_place() -> None:
    widths = re.findall(r'width="([\d.]+)"', bars("t", [Bar("a", 8), Bar("b", 2)], empty=""))
    assert widths == ["1000", "250"]


def test_a_schedule_shows_the_earliest_and_the_latest_moment() -> None:
    svg = schedule_chart(Backoff.listed(10, 20, jitter=Spread(0.5)).schedule_s(3))
    assert re.findall(r"attempt (\d) starts after ([^\"]+)", svg) == [
        ("1", "0 s"), ("2", "5 s – 15 s"), ("3", "15 s – 45 s"),
    ]  # fmt: skip


def test_a_sparkline_shows_even_one_among_many() -> None:
    svg = sparkline([1, 0, 1_000], label="l")
    heights = [float(one) for one in re.findall(r"v-([\d.]+)h", svg)]
    assert heights == [2.0, 20.0]


@pytest.mark.parametrize(("value", "top"), [(0, 1), (1, 1), (1.1, 2), (7, 10), (24, 25), (99, 100), (0.03, 0.05)])
def test_scales_end_at_round_numbers(value: float, top: float) -> None:
    assert nice_above(value) == pytest.approx(top)
