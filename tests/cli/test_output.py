"""How records and tables are shown."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from holdfast.cli.command import application
from holdfast.cli.output import document
from holdfast.cli.table import Cell, Column, plain_lines, print_table

COLUMNS = (Column("id"), Column("count", right=True), Column("when"), Column("message", cuttable=True))
ROW = ("0198c0de-0000-7000-8000-000000000000", 3, Cell("2026-03-01T12:30:00+01:00 (3 min ago)", "3 min ago"), "m" * 50)


def on_terminal(width: int, rows: list[Any]) -> list[str]:
    console = Console(file=StringIO(), width=width, force_terminal=True, color_system=None, highlight=False)
    print_table(console, COLUMNS, rows)
    assert isinstance(console.file, StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_a_record_is_shown_with_times_in_utc_and_spans_in_seconds() -> None:
    record = {
        "at_us": 0,
        "due_us": None,
        "duration_us": 1_500_000,
        "payload": '{"token":"x"}',
        "error_technical": "401 for Authorization: Bearer abc",
        "breaker": {"opened_us": 1},
    }
    assert document(record) == {
        "at": "1970-01-01T00:00:00Z",
        "due_at": None,
        "duration_s": 1.5,
        "payload": {"token": "***"},
        "error_technical": "401 for Authorization: ***",
        "breaker": {"opened_at": "1970-01-01T00:00:00.000001Z"},
    }


def test_a_wide_terminal_gets_everything() -> None:
    head, rule, row = on_terminal(160, [ROW])
    assert head.split() == ["id", "count", "when", "message"]
    assert set(rule) == {"─"}
    assert row.endswith("m" * 50)
    assert "2026-03-01T12:30:00+01:00 (3 min ago)" in row


def test_a_middling_terminal_gets_short_times_and_cut_texts() -> None:
    _, _, row = on_terminal(90, [ROW])
    assert len(row) <= 90
    assert "2026" not in row
    assert "3 min ago" in row
    assert row.endswith("m…")
    assert ROW[0] in row


def test_a_narrow_terminal_gets_a_few_lines_for_each_row() -> None:
    lines = on_terminal(40, [ROW, ROW])
    assert lines.count(ROW[0]) == 2
    assert lines[1].startswith("  count 3 · when 3 min ago")
    assert all(len(line) <= 40 for line in lines)


def test_square_brackets_are_text_and_wide_letters_are_aligned() -> None:
    rows = [("[bold]a", 1, None, "日本語"), ("b", 20, None, "x")]
    assert "[bold]a" in "\n".join(on_terminal(80, rows))
    plain = list(plain_lines((Column("name"), Column("count", right=True)), [("日本", 1), ("b", 20)]))
    assert plain == ["NAME  COUNT", "日本      1", "b        20"]


@pytest.mark.parametrize(
    "words",
    [
        ["migrate"],
        ["worker"],
        ["workers"],
        *(["jobs", verb] for verb in ("list", "show", "enqueue", "cancel", "revive", "discard")),
        ["audit"],
        ["prune"],
        *(["dead", verb] for verb in ("list", "groups", "show", "revive", "discard", "resume")),
        *(["queues", verb] for verb in ("status", "pause", "resume", "probe")),
        *(["breakers", verb] for verb in ("list", "probe", "trip", "recover")),
        *(["endpoints", verb] for verb in ("list", "show", "enable", "disable", "remove")),
        *(["deliveries", verb] for verb in ("list", "show", "replay")),
        *(["keys", verb] for verb in ("create", "list", "revoke")),
        ["schedules", "list"],
    ],
    ids=" ".join,
)
def test_every_command_explains_itself_with_examples(words: list[str]) -> None:
    ended = CliRunner().invoke(application, [*words, "--help"], env={"COLUMNS": "160", "TERM": "dumb"})
    assert ended.exit_code == 0
    assert "Examples" in ended.stdout
    assert f"holdfast {' '.join(words)}" in ended.stdout.partition("Examples")[2]
    assert "--database" in ended.stdout
    assert "--json" in ended.stdout
