"""`holdfast jobs enqueue`: ask for work by hand."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from holdfast.base import CodecError, Json, decode, limits
from holdfast.base.formatting import read_span
from holdfast.cli.database import AsJson, DatabaseUrl, opened
from holdfast.cli.output import note, refuse, say, say_json
from holdfast.worker import DEFAULT_QUEUE, Jobs

STANDARD_INPUT = "-"
FILE = "@"


def enqueue(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="What is to be done: the name a handler goes by.")],
    payload: Annotated[
        str, typer.Option(metavar="JSON", help="What the handler is given: JSON, @file, or - for standard input.")
    ] = "null",
    queue: Annotated[str, typer.Option(help="Where it waits.")] = DEFAULT_QUEUE,
    priority: Annotated[int, typer.Option(help="Lower goes first.")] = 0,
    delay: Annotated[str | None, typer.Option(metavar="SPAN", help="Not before this is over: 90, 5m, 2h, 1d.")] = None,
    dedupe_key: Annotated[str | None, typer.Option(help="A twin with this key is returned, not doubled.")] = None,
    unique: Annotated[
        str | None, typer.Option(metavar="SPAN", help="How long the dedupe key keeps others out.")
    ] = None,
    attempts: Annotated[int | None, typer.Option(help="All attempts, instead of the handler's rule.", min=1)] = None,
    timeout: Annotated[str | None, typer.Option(metavar="SPAN", help="How long one attempt may take.")] = None,
    tenant: Annotated[str, typer.Option(help="Whose it is.")] = "",
    database: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Enqueue a job and print its id; it is on disk then."""
    content = _payload(payload)
    delay_s, unique_s, timeout_s = _span("delay", delay), _span("unique", unique), _span("timeout", timeout)
    with opened(database) as store:
        jobs = Jobs(store)
        enqueued = jobs.enqueue(
            kind,
            content,
            queue=queue,
            priority=priority,
            delay_s=delay_s or 0.0,
            dedupe_key=dedupe_key,
            unique_s=unique_s,
            attempts=attempts,
            timeout_s=timeout_s,
            tenant=tenant,
        )
        jobs.close()
    if as_json:
        say_json({"id": enqueued.id, "created": enqueued.created})
        return
    say(enqueued.id)
    if not enqueued.created:
        note("A job with this dedupe key was there already; this is its id.")


def _span(option: str, text: str | None) -> float | None:
    try:
        return None if text is None else read_span(text)
    except ValueError as invalid:
        raise refuse(f"--{option}: {invalid}") from None


def _payload(given: str) -> Json:
    try:
        return decode(_read(given), bytes_max=limits().payload_bytes_max)
    except CodecError as invalid:
        raise refuse(f"--payload is not JSON: {invalid}") from None
    except OSError as unread:
        raise refuse(f"--payload: {unread.filename or 'standard input'}: {unread.strerror}") from None


def _read(given: str) -> str | bytes:
    # One byte more than is allowed is enough to know that it is too large.
    most = limits().payload_bytes_max + 1
    if given == STANDARD_INPUT:
        return sys.stdin.buffer.read(most)
    if given.startswith(FILE):
        with Path(given.removeprefix(FILE)).open("rb") as file:
            return file.read(most)
    return given
