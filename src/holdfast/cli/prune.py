"""`holdfast prune`: delete what is too old, as workers do by themselves."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from holdfast.cli.actor import os_actor
from holdfast.cli.database import AsJson, DatabaseUrl, opened
from holdfast.cli.keeping import Keep, retention_of
from holdfast.cli.output import note, say, say_json
from holdfast.operate import retention

EXAMPLES = (
    ("holdfast prune", "what workers would delete: finished jobs after a week, events after a month"),
    ("holdfast prune --keep finished=1d --keep journal=7d", "sooner"),
    ("holdfast prune --keep failed=90d", "dead letters too, which are otherwise kept for ever"),
)


def prune(
    keep: Keep = None,
    reason: Annotated[str | None, typer.Option(help="Why; it stands in the audit.", show_default=False)] = None,
    database: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Delete what has ended and is old, in small batches; one run deletes a limited number of rows to stay short."""
    rule = retention_of(keep or [])
    with opened(database) as store:
        _, pruned = retention.prune(store, rule, actor=os_actor(), reason=reason)
    if as_json:
        say_json(asdict(pruned))
        return
    counts = {"finished jobs": pruned.finished, "dead letters": pruned.failed, "events": pruned.journal}
    for name, count in {**counts, "workers": pruned.workers, **pruned.others}.items():
        if count:
            say(f"{count:>9,} {name}")
    if pruned.more:
        note("There is more: run it again.")
