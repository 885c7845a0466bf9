"""`holdfast jobs`: list, show, enqueue, cancel; and revive and discard, which are for those that have failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from holdfast.base import id_time_us, limits
from holdfast.catalog.durable import JOB_NOT_FOUND
from holdfast.cli.actor import os_actor
from holdfast.cli.database import AsJson, DatabaseUrl, opened
from holdfast.cli.enqueue import enqueue
from holdfast.cli.job_text import say_job
from holdfast.cli.output import note, refuse, say, say_json, say_lines
from holdfast.cli.table import Column, say_table, when
from holdfast.lifecycle import JobState
from holdfast.operate import dead_letters
from holdfast.operate import jobs as operate_jobs
from holdfast.operate.bulk import Verb
from holdfast.operate.jobs import JobView, find, view
from holdfast.store import Store, Tx
from holdfast.worker import Jobs

__all__ = ["cancel", "discard", "enqueue", "list_jobs", "revive", "show"]

EXAMPLES = {
    "list": (
        ("holdfast jobs list", "the newest fifty"),
        ("holdfast jobs list --state failed --queue mail", "what failed in one queue"),
        ("holdfast jobs list --json | jq -r .id", "only the ids"),
    ),
    "show": (("holdfast jobs show 0198c0de-…", "one job with its whole timeline; the beginning of the id is enough"),),
    "enqueue": (
        ("""holdfast jobs enqueue mail.send --payload '{"to": "ann@example.com"}'""", "prints the id"),
        ("holdfast jobs enqueue report.build --payload @report.json --delay 5m", "the payload from a file, later"),
    ),
    "cancel": (("holdfast jobs cancel 0198c0de-…", "at once when queued, at the handler's next look when it runs"),),
    "revive": (("holdfast jobs revive 0198c0de-…", "a failed job goes back to its queue with all its attempts"),),
    "discard": (("holdfast jobs discard 0198c0de-…", "delete a failed job"),),
}
COLUMNS = (
    Column("id"),
    Column("state"),
    Column("queue", cuttable=True),
    Column("kind", cuttable=True),
    Column("attempts", right=True),
    Column("created"),
    Column("due"),
    Column("code", cuttable=True),
)

JobId = Annotated[str, typer.Argument(metavar="ID", help="The id of the job, or enough of its beginning.")]
Reason = Annotated[str | None, typer.Option(help="Why; it stands in its history and in the audit.", show_default=False)]
Limit = Annotated[int, typer.Option(help="Show at most so many.", min=1, max=limits().page_rows_max)]


def list_jobs(
    state: Annotated[JobState | None, typer.Option(help="Only in this state.")] = None,
    queue: Annotated[str | None, typer.Option(help="Only of this queue.")] = None,
    kind: Annotated[str | None, typer.Option(help="Only of this kind.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Only of this tenant.")] = None,
    code: Annotated[str | None, typer.Option(help="Only failed with this code.")] = None,
    limit: Limit = 50,
    before: Annotated[str | None, typer.Option(metavar="ID", help="Only older than this job.")] = None,
    database: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """List jobs, the newest first."""
    _check_before(before)
    with opened(database) as store:
        found = Jobs(store).list(
            count=limit, before=before, state=state, queue=queue, kind=kind, tenant=tenant, code=code
        )
        now_us = store.atomic(lambda tx: tx.now_us(), write=False)
    if as_json:
        say_lines(found)
        return
    say_table(COLUMNS, [_row(one, now_us) for one in found], empty="No job matches.")
    if len(found) == limit:
        note(f"There may be older ones: --before {found[-1]['id']}")


def show(job_id: JobId, database: DatabaseUrl = None, as_json: AsJson = False) -> None:
    """Show one job: its payload with secrets masked, its result or error, and every attempt with what came of it."""
    with opened(database) as store:
        say_job(store.atomic(lambda tx: job_view(tx, job_id), write=False), as_json=as_json)


def cancel(job_id: JobId, reason: Reason = None, database: DatabaseUrl = None, as_json: AsJson = False) -> None:
    """Cancel a job: at once when it is queued; a running one is asked to stop, and its handler decides when."""
    with opened(database) as store:
        job_id = found_id(store, job_id)
        _, stopped = operate_jobs.cancel(store, job_id, actor=os_actor(), reason=reason)
        if as_json:
            state = JobState.FAILED if stopped else JobState.PROCESSING
            say_json({"id": job_id, "cancelled": stopped, "state": state})
        elif stopped:
            say(f"Cancelled {job_id}.")
        else:
            say(f"Asked {job_id} to stop; it runs, and its handler looks now and then.")


def revive(job_id: JobId, reason: Reason = None, database: DatabaseUrl = None, as_json: AsJson = False) -> None:
    """Put a failed job back into its queue; its attempts start anew."""
    with opened(database) as store:
        move_these(store, Verb.REVIVE, [job_id], reason, as_json=as_json)


def discard(job_id: JobId, reason: Reason = None, database: DatabaseUrl = None, as_json: AsJson = False) -> None:
    """Delete a failed job; its history stays for as long as the journal is kept."""
    with opened(database) as store:
        move_these(store, Verb.DISCARD, [job_id], reason, as_json=as_json)


def move_these(store: Store, verb: Verb, job_ids: Sequence[str], reason: str | None, *, as_json: bool) -> None:
    """Revive or discard one after the other; the first that cannot be stops it."""
    act = {Verb.REVIVE: dead_letters.revive, Verb.DISCARD: dead_letters.discard}[verb]
    for beginning in job_ids:
        job_id = found_id(store, beginning)
        act(store, job_id, actor=os_actor(), reason=reason)
        if as_json:
            say_json({"id": job_id, verb.past: True})
        else:
            say(f"{verb.past.capitalize()} {job_id}.")


def found_id(store: Store, beginning: str) -> str:
    """The id that begins like this.

    Raises:
        Failure: JOB_NOT_FOUND; ID_AMBIGUOUS names the candidates.
    """
    return store.atomic(lambda tx: find(tx, beginning), write=False)


def job_view(tx: Tx, beginning: str) -> JobView:
    """The job whose id begins like this.

    Raises:
        Failure: JOB_NOT_FOUND, also when only its history is left; ID_AMBIGUOUS.
    """
    job_id = find(tx, beginning)
    found = view(tx, job_id)
    if found.job is None:
        raise JOB_NOT_FOUND(job_id=job_id)
    return found


def _check_before(job_id: str | None) -> None:
    if job_id is None:
        return
    try:
        id_time_us(job_id)
    except ValueError:
        raise refuse(f"--before: {job_id!r} is not the id of a job; give the last one of the page before") from None


def _row(one: dict[str, Any], now_us: int) -> list[Any]:
    return [
        one["id"],
        one["state"],
        one["queue"],
        one["kind"],
        one["attempt_count"],
        when(one["created_us"], now_us),
        when(one["due_us"] if one["state"] == JobState.QUEUED else None, now_us),
        one["error_code"],
    ]
