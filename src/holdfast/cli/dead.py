"""`holdfast dead`: what has used its attempts, alone or in groups, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from holdfast.cli.actor import os_actor
from holdfast.cli.bulk_progress import do_to_all, run_work
from holdfast.cli.database import AsJson, DatabaseUrl, opened
from holdfast.cli.dead_options import (
    Code,
    Endpoint,
    Fingerprint,
    Kind,
    Queue,
    RemoteCode,
    Since,
    Tenant,
    Text,
    Until,
    chosen,
)
from holdfast.cli.job_text import say_job
from holdfast.cli.jobs import JobId, Limit, Reason, job_view, move_these
from holdfast.cli.output import note, refuse, say_lines
from holdfast.cli.table import Column, say_table, when
from holdfast.operate import bulk
from holdfast.operate.bulk import Verb
from holdfast.worker.dead import DeadLetters
from holdfast.worker.dead_filter import DeadFilter, place_text

EXAMPLES = {
    "list": (
        ("holdfast dead list --since 2h", "what died in the last two hours"),
        ("holdfast dead list --code NETWORK_TIMEOUT --queue mail", "of one cause in one queue"),
        ("holdfast dead list --remote-code card_declined", "where the upstream gave this code"),
    ),
    "groups": (("holdfast dead groups", "what died of the same thing, the most frequent first"),),
    "show": (("holdfast dead show 0198c0de-…", "one dead letter with its whole timeline"),),
    "revive": (
        ("holdfast dead revive 0198c0de-…", "one"),
        ("holdfast dead revive --all-matching --code NETWORK_TIMEOUT", "shows how many, and asks"),
        ("holdfast dead revive --all-matching --fingerprint 1f0c… --yes", "in a script"),
    ),
    "resume": (("holdfast dead resume 0198c0de-…", "the id is that of the entry in `holdfast audit`"),),
    "discard": (("holdfast dead discard --all-matching --kind old.kind", "shows how many, and asks"),),
}
LETTERS = (
    Column("id"),
    Column("queue", cuttable=True),
    Column("kind", cuttable=True),
    Column("attempts", right=True),
    Column("died"),
    Column("code", cuttable=True),
    Column("message", cuttable=True),
)
GROUPS = (
    Column("fingerprint"),
    Column("count", right=True),
    Column("code", cuttable=True),
    Column("upstream's", cuttable=True),
    Column("kind", cuttable=True),
    Column("place", cuttable=True),
    Column("first"),
    Column("last"),
    Column("message", cuttable=True),
)

JobIds = Annotated[list[str] | None, typer.Argument(metavar="ID", help="Ids of dead letters, or beginnings of ids.")]
AllMatching = Annotated[bool, typer.Option("--all-matching", help="All that match the filter instead of ids.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def list_dead(
    queue: Queue = None,
    kind: Kind = None,
    code: Code = None,
    remote_code: RemoteCode = None,
    tenant: Tenant = None,
    endpoint: Endpoint = None,
    fingerprint: Fingerprint = None,
    text: Text = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 50,
    before: Annotated[str | None, typer.Option(metavar="PLACE", help="Go on where the last page ended.")] = None,
    database: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """List dead letters, the one that died last first."""
    wanted = chosen(queue, kind, code, remote_code, tenant, endpoint, fingerprint, text, since, until)
    with opened(database) as store:
        page = DeadLetters(store).list(wanted, count=limit, before=before)
        now_us = store.atomic(lambda tx: tx.now_us(), write=False)
    if as_json:
        say_lines({**one, "place": place_text(one["failed_us"], one["id"])} for one in page.letters)
        return
    say_table(LETTERS, [_letter(one, now_us) for one in page.letters], empty="No dead letter matches.")
    if page.next is not None:
        note(f"There may be older ones: --before {page.next}")


def groups(
    queue: Queue = None,
    kind: Kind = None,
    code: Code = None,
    remote_code: RemoteCode = None,
    tenant: Tenant = None,
    endpoint: Endpoint = None,
    fingerprint: Fingerprint = None,
    text: Text = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 50,
    database: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Group dead letters that died of the same thing: how many, first and last seen."""
    wanted = chosen(queue, kind, code, remote_code, tenant, endpoint, fingerprint, text, since, until)
    with opened(database) as store:
        found = DeadLetters(store).groups(wanted, count=limit)
        now_us = store.atomic(lambda tx: tx.now_us(), write=False)
    if as_json:
        say_lines(found)
    else:
        say_table(GROUPS, [_group(one, now_us) for one in found], empty="No dead letter matches.")


def show(job_id: JobId, database: DatabaseUrl = None, as_json: AsJson = False) -> None:
    """Show one dead letter: what it died of, its payload with secrets masked, and its whole timeline."""
    with opened(database) as store:
        found = store.atomic(lambda tx: job_view(tx, job_id), write=False)
        DeadLetters(store).show(found.id)  # which raises for a job that is not dead
        say_job(found, as_json=as_json)


def _mover(verb: Verb, says: str) -> Callable[..., None]:
    """The command that moves dead letters: those with the given ids, or all that match the filter."""

    def move(
        job_ids: JobIds = None,
        all_matching: AllMatching = False,
        queue: Queue = None,
        kind: Kind = None,
        code: Code = None,
        remote_code: RemoteCode = None,
        tenant: Tenant = None,
        endpoint: Endpoint = None,
        fingerprint: Fingerprint = None,
        text: Text = None,
        since: Since = None,
        until: Until = None,
        reason: Reason = None,
        yes: Yes = False,
        database: DatabaseUrl = None,
        as_json: AsJson = False,
    ) -> None:
        wanted = chosen(queue, kind, code, remote_code, tenant, endpoint, fingerprint, text, since, until)
        _check(job_ids, all_matching, wanted)
        with opened(database) as store:
            if job_ids:
                move_these(store, verb, job_ids, reason, as_json=as_json)
            else:
                do_to_all(store, verb, wanted, reason, yes=yes, as_json=as_json)

    move.__doc__ = says
    return move


def _check(job_ids: list[str] | None, all_matching: bool, wanted: DeadFilter) -> None:
    """Either ids or a filter, and the filter only when it is asked for by name."""
    if job_ids and (all_matching or wanted != DeadFilter()):
        raise refuse("give ids, or --all-matching with a filter, not both")
    if not job_ids and not all_matching:
        raise refuse("give the ids of dead letters, or --all-matching for all that match the filter")


def _letter(one: dict[str, Any], now_us: int) -> list[Any]:
    return [
        one["id"],
        one["queue"],
        one["kind"],
        one["attempt_count"],
        when(one["failed_us"], now_us),
        one["error_code"],
        one["error_message"],
    ]


def _group(one: dict[str, Any], now_us: int) -> list[Any]:
    return [
        one["fingerprint"],
        one["count"],
        one["code"],
        one["remote_code"],
        one["kind"],
        one["place"],
        when(one["first_seen_us"], now_us),
        when(one["last_seen_us"], now_us),
        one["technical"],
    ]


def resume(
    action_id: Annotated[str, typer.Argument(metavar="ID", help="The id of the entry in the audit.")],
    database: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Go on with work on many dead letters that was interrupted."""
    with opened(database) as store:
        work = bulk.resume(store, action_id, actor=os_actor())
        run_work(store, work, as_json=as_json)


revive = _mover(Verb.REVIVE, "Put dead letters back into their queues; their attempts start anew.")
discard = _mover(Verb.DISCARD, "Delete dead letters; their history stays for as long as the journal is kept.")
