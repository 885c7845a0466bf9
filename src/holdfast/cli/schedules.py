"""`holdfast schedules`: periodic jobs, when they fired last and when they are due."""

from __future__ import annotations

from typing import Any

from holdfast.cli.database import AsJson, DatabaseUrl, opened
from holdfast.cli.output import say_lines
from holdfast.cli.table import Column, say_table, when
from holdfast.worker.periodic import list_schedules

EXAMPLES = {
    "list": (
        ("holdfast schedules list", "every periodic job of every process"),
        ("holdfast schedules list --json", "the same for a program"),
    ),
}
COLUMNS = (
    Column("name", cuttable=True),
    Column("schedule"),
    Column("queue", cuttable=True),
    Column("kind", cuttable=True),
    Column("next"),
    Column("last"),
    Column("declared"),
)


def list_them(database: DatabaseUrl = None, as_json: AsJson = False) -> None:
    """List the periodic jobs that processes have declared: their schedule, the next firing and the last one."""
    with opened(database) as store:
        now_us, found = store.atomic(lambda tx: (tx.now_us(), list_schedules(tx)), write=False)
    if as_json:
        say_lines(found)
        return
    say_table(COLUMNS, [_row(one, now_us) for one in found], empty="No periodic job is declared.")


def _row(one: dict[str, Any], now_us: int) -> list[Any]:
    return [
        one["name"],
        one["schedule"],
        one["queue"],
        one["kind"],
        when(one["due_us"], now_us),
        when(one["fired_us"], now_us),
        when(one["vouched_us"], now_us),
    ]
