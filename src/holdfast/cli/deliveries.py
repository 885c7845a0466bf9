"""`holdfast deliveries`: events and who got them; replay what was given up."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from holdfast.base import redacted, redacted_text
from holdfast.base.formatting import us_of
from holdfast.cli.actor import os_actor
from holdfast.cli.database import AsJson, DatabaseUrl, opened
from holdfast.cli.dead_options import moment_option
from holdfast.cli.jobs import Limit
from holdfast.cli.output import document, note, refuse, say, say_json, say_lines
from holdfast.cli.table import Column, say_table, when
from holdfast.delivery import Deliveries
from holdfast.lifecycle import JobState
from holdfast.operate import deliveries as operate_deliveries
from holdfast.operate.delivery_list import NEWEST, DeliveryFilter, list_deliveries
from holdfast.worker import Jobs
from holdfast.worker.dead_filter import place_of, place_text

EXAMPLES = {
    "list": (
        ("holdfast deliveries list --state failed --endpoint ep_1f0c…", "what one endpoint did not get"),
        ("holdfast deliveries list --type order.paid --since 2h", "events of one type"),
    ),
    "show": (("holdfast deliveries show evt_1f0c…", "one event, and every attempt at every endpoint"),),
    "replay": (
        ("holdfast deliveries replay evt_1f0c…", "to every endpoint that did not get it"),
        ("holdfast deliveries replay evt_1f0c… --endpoint ep_1f0c…", "to one of them"),
    ),
}
COLUMNS = (
    Column("event"),
    Column("type", cuttable=True),
    Column("tenant", cuttable=True),
    Column("endpoint"),
    Column("state"),
    Column("attempts", right=True),
    Column("published"),
    Column("code", cuttable=True),
)
ATTEMPTS = (
    Column("endpoint"),
    Column("when"),
    Column("what"),
    Column("attempt", right=True),
    Column("status", right=True),
    Column("code", cuttable=True),
    Column("why", cuttable=True),
)

EventId = Annotated[str, typer.Argument(metavar="EVENT", help="The id of the event.")]
Tenant = Annotated[str, typer.Option(help="Whose event it is.")]


def list_them(
    state: Annotated[JobState | None, typer.Option(help="Only in this state.")] = None,
    endpoint: Annotated[str | None, typer.Option(help="Only to this endpoint.")] = None,
    event_type: Annotated[str | None, typer.Option("--type", help="Only events of this type.")] = None,
    code: Annotated[str | None, typer.Option(help="Only failed with this code.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Only of this tenant.")] = None,
    text: Annotated[str | None, typer.Option(help="Only with this in the ids or the message.")] = None,
    since: Annotated[str | None, typer.Option(metavar="WHEN", help="Published then or later: 30m, 2h.")] = None,
    until: Annotated[str | None, typer.Option(metavar="WHEN", help="Published before then.")] = None,
    limit: Limit = 50,
    before: Annotated[str | None, typer.Option(metavar="PLACE", help="Go on where the last page ended.")] = None,
    database: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """List deliveries, the newest event first: each event with every endpoint that it goes to."""
    since_at, until_at = moment_option("since", since), moment_option("until", until)
    wanted = DeliveryFilter(
        state=None if state is None else state.value,
        endpoint=endpoint,
        type=event_type,
        code=code,
        tenant=tenant,
        text=text,
    )
    with opened(database) as store:
        place = NEWEST if before is None else place_of(before)
        page = store.atomic(
            lambda tx: list_deliveries(
                tx,
                wanted,
                since_us=None if since_at is None else us_of(since_at),
                until_us=None if until_at is None else us_of(until_at),
                place=place,
                count=limit,
            ),
            write=False,
        )
    if as_json:
        say_lines(page.rows)
        return
    say_table(COLUMNS, [_row(one, page.now_us) for one in page.rows], empty="No delivery matches.")
    if page.next is not None:
        note(f"There may be older ones: --before {place_text(*page.next)}")


def show(event_id: EventId, tenant: Tenant = "", database: DatabaseUrl = None, as_json: AsJson = False) -> None:
    """Show one event: its payload with secrets masked, and every attempt at every endpoint."""
    with opened(database) as store:
        jobs = Jobs(store)
        found = Deliveries(store, jobs).history(event_id, tenant=tenant)
        jobs.close()
        now_us = store.atomic(lambda tx: tx.now_us(), write=False)
    sent = [
        {
            "endpoint_id": one.endpoint_id,
            "job_id": one.job_id,
            "state": one.state,
            "attempts": one.attempts,
            "error_code": one.error_code,
            "error_message": one.error_message,
            "timeline": [document(event) for event in one.events],
        }
        for one in found.deliveries
    ]
    whole = document({"id": found.id, "type": found.type, "tenant": found.tenant, "created_us": found.created_us})
    if as_json:
        say_json({**whole, "payload": redacted(found.payload), "deliveries": sent})
        return
    for name, value in whole.items():
        say(f"{name:<12} {value}")
    say("")
    rows = [_attempt(one.endpoint_id, event, now_us) for one in found.deliveries for event in one.events]
    say_table(ATTEMPTS, rows, empty="No endpoint wanted it.")


def replay(
    event_id: EventId,
    endpoint: Annotated[str | None, typer.Option(help="Only to this endpoint.")] = None,
    tenant: Tenant = "",
    reason: Annotated[str | None, typer.Option(help="Why; it stands in the audit.", show_default=False)] = None,
    database: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Deliver an event again to the endpoints that did not get it; one that is disabled or removed is refused."""
    if not event_id:
        raise refuse("EVENT is empty")
    with opened(database) as store:
        _, sent = operate_deliveries.replay(
            store, event_id, actor=os_actor(), tenant=tenant, endpoint_id=endpoint, reason=reason
        )
    if as_json:
        say_json({"id": event_id, "replayed": sent})
    else:
        say(f"Replayed {event_id} to {sent} endpoint{'' if sent == 1 else 's'}.")


def _row(one: dict[str, Any], now_us: int) -> list[Any]:
    return [
        one["event_id"],
        one["type"],
        one["tenant"],
        one["endpoint_id"],
        one["state"] or "complete",
        one["attempt_count"],
        when(one["created_us"], now_us),
        one["error_code"],
    ]


def _attempt(endpoint_id: str, event: dict[str, Any], now_us: int) -> list[Any]:
    return [
        endpoint_id,
        when(event["at_us"], now_us),
        event["verb"],
        event["attempt"] or None,
        event["upstream_status"],
        event["code"],
        redacted_text(event["reason"] or ""),
    ]
