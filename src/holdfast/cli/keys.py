"""`holdfast keys`: API keys; create, list, revoke."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from holdfast.base.formatting import read_span
from holdfast.cli.actor import os_actor
from holdfast.cli.database import AsJson, DatabaseUrl, opened
from holdfast.cli.jobs import Limit
from holdfast.cli.output import document, note, refuse, say, say_json
from holdfast.cli.table import Column, say_table, when
from holdfast.http.keys import ApiKeys
from holdfast.operate import api_keys

EXAMPLES = {
    "create": (
        ('holdfast keys create "billing service" --tenant acme --expires 90d', "prints the key, this once"),
        ("holdfast keys create ci --json | jq -r .key", "only the key"),
    ),
    "list": (("holdfast keys list", "every key by its prefix; the keys themselves are stored nowhere"),),
    "revoke": (('holdfast keys revoke 0198c0de-… --reason "it leaked"', "refused everywhere within a second"),),
}
COLUMNS = (
    Column("id"),
    Column("prefix"),
    Column("name", cuttable=True),
    Column("tenant", cuttable=True),
    Column("state"),
    Column("created"),
    Column("expires"),
)

Reason = Annotated[str | None, typer.Option(help="Why; it stands in the audit.", show_default=False)]


def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who or what uses it.")],
    tenant: Annotated[str, typer.Option(help="Whose it is.")] = "",
    expires: Annotated[
        str | None, typer.Option(metavar="SPAN", help="For how long it is good: 12h, 90d. Without it, until revoked.")
    ] = None,
    reason: Reason = None,
    database: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Create an API key and print it. Only a hash is stored: it cannot be shown again."""
    try:
        expires_s = None if expires is None else read_span(expires)
    except ValueError as invalid:
        raise refuse(f"--expires: {invalid}") from None
    with opened(database) as store:
        _, issued = api_keys.create(store, name, actor=os_actor(), tenant=tenant, expires_s=expires_s, reason=reason)
    key = issued.secret.reveal()
    if as_json:
        # Not through `document`, which masks what is named like a secret: this is the one time to read it.
        say_json({"id": issued.key.id, "key": key, "prefix": issued.key.prefix, "name": name, "tenant": tenant})
    else:
        say(key)
        note(f"Its id is {issued.key.id}. It is not shown again.")


def list_keys(
    tenant: Annotated[str | None, typer.Option(help="Only of this tenant.")] = None,
    limit: Limit = 50,
    after: Annotated[str, typer.Option(metavar="ID", help="Go on after this key.")] = "",
    database: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """List API keys, the oldest first: prefix, name, tenant, and whether they are in force."""
    with opened(database) as store:
        found = ApiKeys(store).list(tenant=tenant, after=after, count=limit)
        now_us = store.atomic(lambda tx: tx.now_us(), write=False)
    if as_json:
        for one in found:
            # A prefix is meant to be shown, though it looks like the beginning of a secret.
            say_json({**document(one), "prefix": one["prefix"], "state": _state(one, now_us)})
        return
    rows = [
        (
            one["id"],
            one["prefix"],
            one["name"],
            one["tenant"],
            _state(one, now_us),
            when(one["created_us"], now_us),
            when(one["expires_us"], now_us),
        )
        for one in found
    ]
    say_table(COLUMNS, rows, empty="There is no API key.")
    if len(found) == limit:
        note(f"There may be more: --after {found[-1]['id']}")


def revoke(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="The id of the key.")],
    reason: Reason = None,
    database: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Refuse a key from now on, in every process within a second."""
    with opened(database) as store:
        changed = api_keys.revoke(store, key_id, actor=os_actor(), reason=reason).changed
    if as_json:
        say_json({"id": key_id, "revoked": changed})
    else:
        say(f"Revoked {key_id}." if changed else f"{key_id} was revoked already.")


def _state(one: dict[str, Any], now_us: int) -> str:
    if one["revoked_us"] is not None:
        return "revoked"
    expired = one["expires_us"] is not None and one["expires_us"] <= now_us
    return "expired" if expired else "in force"
