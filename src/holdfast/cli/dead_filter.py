"""The filter of dead letters, as options of a command."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from holdfast.base import now_us
from holdfast.cli.wording import moment_of
from holdfast.worker.dead_filter import DeadFilter


def _moment(text: str) -> datetime:
    try:
        return moment_of(text, now_us())
    except ValueError as invalid:
        raise typer.BadParameter(str(invalid)) from None


Queue = Annotated[str | None, typer.Option(help="Only of this queue.")]
Kind = Annotated[str | None, typer.Option(help="Only of this kind.")]
Code = Annotated[str | None, typer.Option(help="Only died of this code.")]
Tenant = Annotated[str | None, typer.Option(help="Only of this tenant.")]
Fingerprint = Annotated[str | None, typer.Option(help="Only of this group.")]
Text = Annotated[str | None, typer.Option(help="Only with this somewhere in the message.")]
Since = Annotated[
    datetime | None, typer.Option(parser=_moment, metavar="WHEN", help="Died then or later: 30m, 2h, an ISO time.")
]
Until = Annotated[datetime | None, typer.Option(parser=_moment, metavar="WHEN", help="Died before then.")]


def chosen(
    queue: str | None,
    kind: str | None,
    code: str | None,
    tenant: str | None,
    fingerprint: str | None,
    text: str | None,
    since: datetime | None,
    until: datetime | None,
) -> DeadFilter:
    """The options as a filter."""
    return DeadFilter(
        queue=queue,
        kind=kind,
        code=code,
        tenant=tenant,
        fingerprint=fingerprint,
        text=text,
        since=since,
        until=until,
    )
