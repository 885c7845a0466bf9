"""The filter of dead letters, as options of a command."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from holdfast.base import now_us
from holdfast.base.formatting import read_moment
from holdfast.cli.output import refuse
from holdfast.worker.dead_filter import DeadFilter

Queue = Annotated[str | None, typer.Option(help="Only of this queue.")]
Kind = Annotated[str | None, typer.Option(help="Only of this kind.")]
Code = Annotated[str | None, typer.Option(help="Only died of this code.")]
RemoteCode = Annotated[str | None, typer.Option("--remote-code", help="Only where the upstream gave this code.")]
Tenant = Annotated[str | None, typer.Option(help="Only of this tenant.")]
Endpoint = Annotated[str | None, typer.Option(help="Only deliveries to this webhook endpoint.")]
Fingerprint = Annotated[str | None, typer.Option(help="Only of this group.")]
Text = Annotated[str | None, typer.Option(help="Only with this somewhere in the message.")]
Since = Annotated[str | None, typer.Option(metavar="WHEN", help="Died then or later: 30m, 2h, an ISO time.")]
Until = Annotated[str | None, typer.Option(metavar="WHEN", help="Died before then.")]


def chosen(
    queue: str | None,
    kind: str | None,
    code: str | None,
    remote_code: str | None,
    tenant: str | None,
    endpoint: str | None,
    fingerprint: str | None,
    text: str | None,
    since: str | None,
    until: str | None,
) -> DeadFilter:
    """The options as a filter; one that cannot be read is refused."""
    return DeadFilter(
        queue=queue,
        kind=kind,
        code=code,
        remote_code=remote_code,
        tenant=tenant,
        endpoint=endpoint,
        fingerprint=fingerprint,
        text=text,
        since=moment_option("since", since),
        until=moment_option("until", until),
    )


def moment_option(option: str, text: str | None) -> datetime | None:
    """The moment that an option names; one that cannot be read is refused."""
    try:
        return None if text is None else read_moment(text, now_us(), local=True)
    except ValueError as invalid:
        raise refuse(f"--{option}: {invalid}") from None
