"""`holdfast audit`: who did what, when, from where, and what came of it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from holdfast.base import redacted_text
from holdfast.cli.database import AsJson, DatabaseUrl, opened
from holdfast.cli.dead_options import moment_option
from holdfast.cli.jobs import Limit
from holdfast.cli.output import note, say_lines
from holdfast.cli.table import Column, say_table, when
from holdfast.operate import ActorKind
from holdfast.operate.audit_log import AuditFilter, Entry, entries

EXAMPLES = (
    ("holdfast audit", "the last fifty actions, on the console, the command line and through the API"),
    ("holdfast audit --since 1d --who ann", "what one person did in the last day"),
    ("holdfast audit --subject queue:mail --verb pause", "who paused one queue"),
    ("holdfast audit --through command --json", "what was done on the command line, for a program"),
)
COLUMNS = (
    Column("when"),
    Column("who", cuttable=True),
    Column("through"),
    Column("from", cuttable=True),
    Column("verb"),
    Column("what", cuttable=True),
    Column("result", cuttable=True),
    Column("why", cuttable=True),
)


def audit(
    who: Annotated[str | None, typer.Option(help="Only of this person, user or token.")] = None,
    through: Annotated[ActorKind | None, typer.Option(help="Only through this door.")] = None,
    verb: Annotated[str | None, typer.Option(help="Only this verb, such as revive.")] = None,
    subject: Annotated[
        str | None, typer.Option(help="Only what begins like this: job:, queue:mail, breaker:bank.")
    ] = None,
    since: Annotated[str | None, typer.Option(metavar="WHEN", help="Then or later: 30m, 2h, an ISO time.")] = None,
    until: Annotated[str | None, typer.Option(metavar="WHEN", help="Before then.")] = None,
    limit: Limit = 50,
    before: Annotated[str | None, typer.Option(metavar="ID", help="Only older than this entry.")] = None,
    database: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """List what was done by hand, the last first: on the console, on the command line and through the API."""
    wanted = AuditFilter(
        who=who,
        kind=None if through is None else through.value,
        verb=verb,
        subject=subject,
        since=moment_option("since", since),
        until=moment_option("until", until),
    )
    with opened(database) as store:
        now_us, found = store.atomic(
            lambda tx: (tx.now_us(), entries(tx, wanted, count=limit, before=before)), write=False
        )
    if as_json:
        say_lines(_record(one) for one in found)
        return
    say_table(COLUMNS, [_row(one, now_us) for one in found], empty="No action matches.")
    if len(found) == limit:
        note(f"There may be older ones: --before {found[-1].id}")


def _record(one: Entry) -> dict[str, Any]:
    shown = asdict(one)
    del shown["work"]
    shown["outcome"] = shown.pop("result")
    return shown


def _row(one: Entry, now_us: int) -> list[Any]:
    counts = f" {one.done} of {one.total}" if one.total is not None else ""
    told = f" {one.result}" if one.state == "refused" and one.result else ""
    return [
        when(one.at_us, now_us),
        one.actor,
        one.actor_kind,
        one.address,
        one.verb,
        one.subject,
        f"{one.state}{counts}{told}",
        redacted_text(one.reason or ""),
    ]
