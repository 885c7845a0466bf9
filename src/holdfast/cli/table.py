"""Tables for people: with a ruled head on a terminal that is wide enough, a few short lines for each row on a narrow
one, and plain aligned columns in a pipe."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer
from rich.cells import cell_len, set_cell_size

from holdfast.base import redacted_text
from holdfast.base.formatting import CELL_CHARS_MAX, age, clean, cut, local_time

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

GAP = "  "
CUT_CHARS_MIN = 12
COLOURS = {
    "complete": "green",
    "processing": "cyan",
    "failed": "red",
    "paused": "yellow",
    "holding": "yellow",
    "no worker": "red",
    "expired": "red",
}


@dataclass(frozen=True, slots=True)
class Cell:
    """What stands in a cell, and a shorter form for where there is little room."""

    text: str
    short: str


Given = Cell | str | int | None


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its title, and whether its texts may be cut to make the table fit."""

    title: str
    cuttable: bool = False
    right: bool = False


def when(at_us: int | None, now_us: int) -> Cell:
    """A moment with its age; only the age where there is little room."""
    if at_us is None:
        return Cell("", "")
    return Cell(f"{local_time(at_us)} ({age(at_us, now_us)})", age(at_us, now_us))


def say_table(columns: Sequence[Column], rows: Sequence[Sequence[Given]], *, empty: str = "") -> None:
    """Print the rows; where there are none, the line that says so goes beside the answer."""
    if not rows:
        typer.echo(empty, err=True)
    elif sys.stdout.isatty():
        from rich.console import Console  # only a terminal needs it

        print_table(Console(highlight=False), columns, rows)
    else:
        for line in plain_lines(columns, rows):
            typer.echo(line)


def plain_lines(columns: Sequence[Column], rows: Sequence[Sequence[Given]]) -> Iterator[str]:
    """Aligned columns without decoration, as wide as they need to be."""
    texts = [[_text(given) for given in row] for row in rows]
    widths = _widths(columns, texts)
    for line in ([column.title.upper() for column in columns], *texts):
        cells = [_sized(text, width, column) for text, width, column in zip(line, widths, columns, strict=True)]
        yield GAP.join(cells).rstrip()


def print_table(console: Console, columns: Sequence[Column], rows: Sequence[Sequence[Given]]) -> None:
    """Print the widest form that fits the terminal."""
    from rich.text import Text

    for short in (False, True):
        texts = [[_text(given, short=short) for given in row] for row in rows]
        widths = _shrunk(columns, _widths(columns, texts), console.width)
        if widths is not None:
            console.print(_ruled(columns, texts, widths))
            return
    for row in rows:
        texts = [[_text(given, short=True) for given in row]]
        for line in _stacked(columns, texts[0], console.width):
            console.print(Text(line), soft_wrap=True)


def _ruled(columns: Sequence[Column], rows: Sequence[Sequence[str]], widths: Sequence[int]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for column, width in zip(columns, widths, strict=True):
        table.add_column(
            column.title, width=width, no_wrap=True, overflow="ellipsis", justify="right" if column.right else "left"
        )
    for row in rows:
        # As Text, so that square brackets in a message are not markup.
        table.add_row(*(Text(text, style=COLOURS.get(text, "")) for text in row))
    return table


def _stacked(columns: Sequence[Column], texts: Sequence[str], width: int) -> Iterator[str]:
    """The first cell alone on its line, the others below it."""
    yield texts[0]
    pairs = [f"{column.title} {text}" for column, text in zip(columns[1:], texts[1:], strict=True) if text]
    width = max(width, 2 * CUT_CHARS_MIN)
    yield from textwrap.wrap(
        " · ".join(pairs), width, initial_indent=GAP, subsequent_indent=GAP, break_on_hyphens=False
    )


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(len(column.title), *(cell_len(row[number]) for row in rows)) for number, column in enumerate(columns)]


def _shrunk(columns: Sequence[Column], widths: Sequence[int], width: int) -> list[int] | None:
    """The widths with the cuttable ones narrowed, the widest first, until all fit; None when they cannot."""
    narrowed = list(widths)
    while sum(narrowed) + len(GAP) * (len(narrowed) - 1) > width:
        room = [
            (size, number)
            for number, size in enumerate(narrowed)
            if columns[number].cuttable and size > max(CUT_CHARS_MIN, len(columns[number].title))
        ]
        if not room:
            return None
        narrowed[max(room)[1]] -= 1
    return narrowed


def _sized(text: str, width: int, column: Column) -> str:
    if column.right:
        return " " * (width - cell_len(text)) + text
    return set_cell_size(text, width)


def _text(given: Given, *, short: bool = False) -> str:
    if isinstance(given, Cell):
        return clean(given.short if short else given.text)
    return "" if given is None else cut(clean(redacted_text(str(given))), CELL_CHARS_MAX)
