"""`holdfast endpoints`: webhook endpoints, how they stand; enable, disable, remove."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from holdfast.base.formatting import clean
from holdfast.cli.actor import os_actor
from holdfast.cli.database import AsJson, DatabaseUrl, opened
from holdfast.cli.jobs import Limit
from holdfast.cli.output import document, note, say, say_json, say_lines
from holdfast.cli.table import Column, say_table, when
from holdfast.delivery.deliveries import SCHEMES
from holdfast.delivery.endpoint import Endpoint
from holdfast.delivery.endpoints import Endpoints
from holdfast.operate import endpoints as operate_endpoints

EXAMPLES = {
    "list": (
        ("holdfast endpoints list", "every endpoint of every tenant"),
        ("holdfast endpoints list --tenant acme --json", "those of one tenant, for a program"),
    ),
    "show": (("holdfast endpoints show ep_1f0c…", "one endpoint; secrets are counted, never shown"),),
    "enable": (("holdfast endpoints enable ep_1f0c…", "send to it again"),),
    "disable": (('holdfast endpoints disable ep_1f0c… --reason "it moved"', "send nothing more to it"),),
    "remove": (("holdfast endpoints remove ep_1f0c… --yes", "forget it and its secrets for good"),),
}
COLUMNS = (
    Column("id"),
    Column("tenant", cuttable=True),
    Column("state"),
    Column("url", cuttable=True),
    Column("event types", cuttable=True),
    Column("created"),
    Column("why", cuttable=True),
)

EndpointId = Annotated[str, typer.Argument(metavar="ID", help="The id of the endpoint.")]
Tenant = Annotated[str | None, typer.Option(help="Only of this tenant.")]
Reason = Annotated[str | None, typer.Option(help="Why; it stands in the audit.", show_default=False)]


def list_endpoints(
    tenant: Tenant = None,
    limit: Limit = 50,
    after: Annotated[str, typer.Option(metavar="ID", help="Go on after this endpoint.")] = "",
    database: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """List webhook endpoints in the order of their ids."""
    with opened(database) as store:
        found = Endpoints(store, SCHEMES).list(tenant=tenant, count=limit, after=after)
        now_us = store.atomic(lambda tx: tx.now_us(), write=False)
    if as_json:
        say_lines(_record(one) for one in found)
        return
    say_table(COLUMNS, [_row(one, now_us) for one in found], empty="There is no endpoint.")
    if len(found) == limit:
        note(f"There may be more: --after {found[-1].id}")


def show(endpoint_id: EndpointId, database: DatabaseUrl = None, as_json: AsJson = False) -> None:
    """Show one endpoint: its address, its schedule, and whether it is enabled."""
    with opened(database) as store:
        shown = document(_record(Endpoints(store, SCHEMES).show(endpoint_id)))
    if as_json:
        say_json(shown)
        return
    for name, value in shown.items():
        if value not in {None, ""} if not isinstance(value, list) else value:
            text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            say(f"{name.replace('_', ' '):<18} {clean(text)}")


def enable(
    endpoint_id: EndpointId, reason: Reason = None, database: DatabaseUrl = None, as_json: AsJson = False
) -> None:
    """Send to an endpoint again; what it missed meanwhile is among the dead letters."""
    with opened(database) as store:
        changed = operate_endpoints.enable(store, endpoint_id, actor=os_actor(), reason=reason).changed
    _tell(endpoint_id, "enabled", changed, as_json=as_json)


def disable(
    endpoint_id: EndpointId,
    reason: Annotated[str, typer.Option(help="Why; everybody who looks at the endpoint reads it.", show_default=False)],
    database: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Send nothing more to an endpoint; what is under way ends among the dead letters."""
    with opened(database) as store:
        changed = operate_endpoints.disable(store, endpoint_id, actor=os_actor(), reason=reason).changed
    _tell(endpoint_id, "disabled", changed, as_json=as_json)


def remove(
    endpoint_id: EndpointId,
    reason: Reason = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    database: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Forget an endpoint and its secrets for good; what is under way ends among the dead letters."""
    from holdfast.cli.asking import agree

    with opened(database) as store:
        Endpoints(store, SCHEMES).show(endpoint_id)
        if not yes:
            agree(f"Remove {endpoint_id} and its secrets for good?", f"remove {endpoint_id}")
        operate_endpoints.remove(store, endpoint_id, actor=os_actor(), reason=reason)
    _tell(endpoint_id, "removed", True, as_json=as_json)


def _tell(endpoint_id: str, past: str, changed: bool, *, as_json: bool) -> None:
    if as_json:
        say_json({"id": endpoint_id, past: changed})
    else:
        say(f"{past.capitalize()} {endpoint_id}." if changed else f"{endpoint_id} was {past} already.")


def _record(one: Endpoint) -> dict[str, Any]:
    return {
        "id": one.id,
        "tenant": one.tenant,
        "url": one.url,
        "enabled": one.enabled,
        "disabled_reason": one.disabled_reason,
        "event_types": list(one.event_types),
        "scheme": one.scheme,
        "ordered": one.ordered,
        "delays_s": list(one.delays_s),
        "timeout_s": one.timeout_s,
        "in_flight_max": one.in_flight_max,
        "secrets_in_force": len(one.secrets),
        "created_us": one.created_us,
    }


def _row(one: Endpoint, now_us: int) -> list[Any]:
    return [
        one.id,
        one.tenant,
        "enabled" if one.enabled else "disabled",
        document({"url": one.url})["url"],
        ", ".join(one.event_types) or "all",
        when(one.created_us, now_us),
        one.disabled_reason,
    ]
