"""`holdfast prune`: delete what is too old, as workers do by themselves."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from holdfast.base.formatting import read_span
from holdfast.cli.actor import os_actor
from holdfast.cli.database import AsJson, DatabaseUrl, opened
from holdfast.cli.output import note, refuse, say, say_json
from holdfast.operate import retention
from holdfast.worker.retention import Retention

EXAMPLES = (
    ("holdfast prune", "what workers would delete: finished jobs after a week, events after a month"),
    ("holdfast prune --finished 1d --journal 7d", "sooner"),
    ("holdfast prune --failed 90d", "dead letters too, which are otherwise kept for ever"),
)


def prune(
    finished: Annotated[
        str, typer.Option(metavar="SPAN", help="Finished jobs that ended longer ago than this.")
    ] = "7d",
    journal: Annotated[str, typer.Option(metavar="SPAN", help="Events older than this.")] = "30d",
    failed: Annotated[
        str | None, typer.Option(metavar="SPAN", help="Dead letters older than this; without it, none.")
    ] = None,
    reason: Annotated[str | None, typer.Option(help="Why; it stands in the audit.", show_default=False)] = None,
    database: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Delete what is over and old, in small batches; at most so much in one run that it stays short."""
    import holdfast.delivery.pruning  # noqa: F401 - webhook events are pruned too

    rule = Retention(
        finished_s=_span("finished", finished),
        journal_s=_span("journal", journal),
        failed_s=None if failed is None else _span("failed", failed),
    )
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


def _span(option: str, text: str) -> float:
    try:
        return read_span(text)
    except ValueError as invalid:
        raise refuse(f"--{option}: {invalid}") from None
