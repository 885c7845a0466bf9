"""`holdfast queues`: how deep, how late, whether they are held; pause, resume, probe."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from holdfast.base.formatting import clean, span
from holdfast.cli.actor import os_actor
from holdfast.cli.database import AsJson, DatabaseUrl, opened
from holdfast.cli.output import note, say, say_json, say_lines
from holdfast.cli.table import Column, say_table
from holdfast.operate import queues as operate_queues
from holdfast.worker.queues import DEPTH_MAX, Queues, QueueStatus, is_known

EXAMPLES = {
    "status": (("holdfast queues status", "every queue"),),
    "pause": (('holdfast queues pause mail --reason "provider is down"', "let no job of the queue start"),),
    "resume": (("holdfast queues resume mail", "let jobs start again"),),
    "probe": (("holdfast queues probe mail", "let one job through an open breaker"),),
}
COLUMNS = (
    Column("queue", cuttable=True),
    Column("state"),
    Column("ready", right=True),
    Column("waiting", right=True),
    Column("processing", right=True),
    Column("workers", right=True),
    Column("oldest"),
    Column("why", cuttable=True),
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the queue.")]
Reason = Annotated[str | None, typer.Option(help="Why; it stands in the audit.", show_default=False)]


def status(database: DatabaseUrl = None, as_json: AsJson = False) -> None:
    """Show every queue: how many jobs are ready, wait and run, how late the oldest is, and what keeps it."""
    with opened(database) as store:
        found = Queues(store).status()
    if as_json:
        say_lines(_record(one) for one in found)
        return
    rows = [
        (
            one.name,
            one.state,
            _count(one.ready, one),
            _count(one.waiting, one),
            one.processing,
            one.workers,
            span(one.oldest_ready_s),
            one.why,
        )
        for one in found
    ]
    say_table(COLUMNS, rows, empty="There is no queue yet.")


def pause(
    name: Name,
    reason: Annotated[str, typer.Option(help="Why; everybody who looks at the queue reads it.", show_default=False)],
    database: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Let no job of the queue start until it is resumed. What runs goes on; jobs may still be enqueued."""
    with opened(database) as store:
        unused = not store.atomic(lambda tx: is_known(tx, name), write=False)
        operate_queues.pause(store, name, actor=os_actor(), reason=reason)
        if unused:
            note(f"No job and no worker has used a queue named {name} so far; is it spelt right?")
        if as_json:
            say_json({"queue": name, "paused": True, "reason": reason})
        else:
            say(f"Paused {clean(name)}: {clean(reason)}")


def resume(name: Name, reason: Reason = None, database: DatabaseUrl = None, as_json: AsJson = False) -> None:
    """Let jobs of the queue start again."""
    with opened(database) as store:
        resumed = operate_queues.resume(store, name, actor=os_actor(), reason=reason).changed
        if as_json:
            say_json({"queue": name, "paused": False, "resumed": resumed})
        else:
            say(f"Resumed {clean(name)}." if resumed else f"{clean(name)} was not paused.")


def probe(name: Name, reason: Reason = None, database: DatabaseUrl = None, as_json: AsJson = False) -> None:
    """Let one job through the queue's open breaker, to test whether its target works again."""
    with opened(database) as store:
        probed = operate_queues.probe(store, name, actor=os_actor(), reason=reason).changed
        if as_json:
            say_json({"queue": name, "probed": probed})
        else:
            say(f"One job of {clean(name)} may try." if probed else f"The breaker of {clean(name)} is closed.")


def _record(one: QueueStatus) -> dict[str, object]:
    return {**asdict(one), "state": one.state}


def _count(count: int, one: QueueStatus) -> str:
    return f"{count}+" if one.more and count >= DEPTH_MAX else str(count)
