"""Rows of figures, and how they are shown: as a table for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

NUMBERS_FROM = 1
"""The first column holds names; all after it but the verdict hold numbers and are set to the right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A target and what was reached."""

    bound: float
    reached: float
    unit: str
    at_most: bool = True
    """Whether less is better; otherwise the bound is the least that will do."""

    @property
    def met(self) -> bool:
        return self.reached <= self.bound if self.at_most else self.reached >= self.bound

    @property
    def text(self) -> str:
        return f"{'≤' if self.at_most else '≥'} {_number(self.bound)} {self.unit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure of a suite; rows of the same group stand together."""

    group: str
    name: str
    figure: float
    unit: str
    ratios: dict[str, float] = field(default_factory=dict)
    """How the figure compares: `{"× loop": 3.1}`; each key becomes a column."""
    asked: Asked | None = None


def rendered(title: str, rows: Sequence[Row]) -> str:
    """The suite as one plain-text table."""
    ratios = list(dict.fromkeys(key for row in rows for key in row.ratios))
    heads = ["", "figure", *ratios, "asked", "reached", ""]
    groups = [(group, [_cells(row, ratios) for row in members]) for group, members in groupby(rows, lambda r: r.group)]
    every = [heads, *(cells for _, members in groups for cells in members)]
    widths = [max(map(len, column)) for column in zip(*every, strict=True)]
    lines = [title, "=" * len(title), _line(heads, widths)]
    for group, members in groups:
        lines += ["", group, *(_line(cells, widths) for cells in members)]
    return "\n".join([*lines, "", _summary(rows)])


def as_json(row: Row) -> dict[str, object]:
    """The row as JSON can say it."""
    asked = row.asked and {
        "target": row.asked.text,
        "bound": row.asked.bound,
        "reached": round(row.asked.reached, 3),
        "unit": row.asked.unit,
        "met": row.asked.met,
    }
    return {
        "group": row.group,
        "name": row.name,
        "figure": round(row.figure, 3),
        "unit": row.unit,
        "ratios": {key: round(ratio, 3) for key, ratio in row.ratios.items()},
        "asked": asked,
    }


def _cells(row: Row, ratios: Sequence[str]) -> list[str]:
    compared = [_number(row.ratios[key]) if key in row.ratios else "" for key in ratios]
    verdict = ["", "", ""]
    if row.asked:
        reached = f"{_number(row.asked.reached)} {row.asked.unit}"
        verdict = [row.asked.text, reached, "ok" if row.asked.met else "SHORT"]
    return [f"  {row.name}", f"{_number(row.figure)} {row.unit}", *compared, *verdict]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    last = len(cells) - 1
    aligned = (
        cell.rjust(width) if NUMBERS_FROM <= place < last else cell.ljust(width)
        for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join(aligned).rstrip()


def _summary(rows: Sequence[Row]) -> str:
    asked = [row.asked for row in rows if row.asked]
    return f"{sum(target.met for target in asked)} of {len(asked)} targets met"


def _number(value: float) -> str:
    """Three figures are as many as a measurement on a shared machine can bear."""
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
