"""`holdfast workers`: who works, where, on what, and for how long the lease still holds."""

from __future__ import annotations

from holdfast.base.formatting import span
from holdfast.cli.database import AsJson, DatabaseUrl, opened
from holdfast.cli.output import say_lines
from holdfast.cli.table import Column, say_table, when

EXAMPLES = (
    ("holdfast workers", "every worker process on every machine"),
    ("holdfast workers --json", "the same for a program"),
)
COLUMNS = (
    Column("id"),
    Column("host", cuttable=True),
    Column("process", right=True),
    Column("queues", cuttable=True),
    Column("held", right=True),
    Column("lease left"),
    Column("started"),
)


def workers(database: DatabaseUrl = None, as_json: AsJson = False) -> None:
    """List the worker processes: id, host, process, queues, held jobs and how long the lease still holds."""
    with opened(database) as store:
        found, now_us = store.atomic(lambda tx: (tx.records("worker.list"), tx.now_us()), write=False)
        for one in found:
            one["lease_left_s"] = (one["lease_until_us"] - now_us) / 1_000_000
            one["queues"] = one["queues"].split(",")
    if as_json:
        say_lines(found)
        return
    rows = [
        (
            one["id"],
            one["host"],
            one["process"],
            ",".join(one["queues"]),
            one["held"],
            span(one["lease_left_s"]) if one["lease_left_s"] > 0 else "expired",
            when(one["started_us"], now_us),
        )
        for one in found
    ]
    say_table(COLUMNS, rows, empty="No worker is running.")
