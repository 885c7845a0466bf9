"""One job with everything that happened to it, as text or JSON."""

from __future__ import annotations

from typing import Any

from holdfast.base import redacted_json, redacted_text
from holdfast.base.formatting import age, clean, local_time, span
from holdfast.base.tracebacks import stored_traceback
from holdfast.catalog import Remote
from holdfast.cli.output import document, note, say, say_json
from holdfast.cli.table import Cell, Column, say_table, when
from holdfast.cli.traceback import traceback_lines
from holdfast.operate.jobs import JobView

TEXT_CHARS_MAX = 2_000
LABEL_CHARS = 11

COLUMNS = (
    Column("time"),
    Column("event"),
    Column("attempt", right=True),
    Column("code", cuttable=True),
    Column("upstream", right=True),
    Column("took", right=True),
    Column("next due"),
    Column("worker", cuttable=True),
    Column("reason", cuttable=True),
)


def say_job(found: JobView, *, as_json: bool) -> None:
    """The job, then its timeline; or both as one document."""
    assert found.job is not None
    if as_json:
        timeline = [document(event) for event in found.events]
        say_json({**document(found.job), "timeline": timeline, "timeline_left_out": found.left_out})
        return
    for label, text in _facts(found.job, found.now_us):
        if text:
            say(f"{label:<{LABEL_CHARS}} {clean(redacted_text(text))}")
    say("")
    if found.left_out:
        note("Earlier events are left out.")
    # Most jobs are called nowhere else and wait for nothing: columns that say nothing are not shown.
    rows = [_event(event, found.now_us) for event in found.events]
    kept = [number for number in range(len(COLUMNS)) if any(row[number] not in {None, "", _NEVER} for row in rows)]
    say_table(
        [COLUMNS[number] for number in kept],
        [[row[number] for number in kept] for row in rows],
        empty="Its history has been pruned.",
    )
    _say_traceback(found)


def _say_traceback(found: JobView) -> None:
    """That of the last attempt that has one; `--json` has those of all."""
    last = next((event for event in reversed(found.events) if event["traceback"]), None)
    if last is None:
        return
    say("")
    say(f"Traceback of attempt {last['attempt']}, the last call first:")
    for line in traceback_lines(stored_traceback(last["traceback"])):
        say(f"  {line}")


_NEVER = Cell("", "")


def _facts(job: dict[str, Any], now_us: int) -> list[tuple[str, str]]:
    def at(name: str) -> str:
        return f"{local_time(job[name])} ({age(job[name], now_us)})" if job[name] is not None else ""

    return [
        ("id", job["id"]),
        ("state", job["state"] + (", asked to stop" if job["cancel_us"] is not None else "")),
        ("kind", job["kind"]),
        ("queue", job["queue"]),
        ("tenant", job["tenant"]),
        ("priority", str(job["priority"]) if job["priority"] else ""),
        ("attempts", _attempts(job)),
        ("dedupe key", job["dedupe_key"] or ""),
        ("timeout", span(None if job["timeout_us"] is None else job["timeout_us"] / 1_000_000)),
        ("created", at("created_us")),
        ("due", at("due_us") if job["state"] == "queued" else ""),
        ("started", at("started_us")),
        ("finished", at("finished_us")),
        ("failed", at("failed_us")),
        ("worker", job["lease_owner"] or ""),
        ("lease until", at("lease_until_us")),
        ("trace", job["trace"] or ""),
        ("payload", _stored(job["payload"])),
        ("result", _stored(job["result"])),
        ("code", job["error_code"] or ""),
        ("message", job["error_message"] or ""),
        ("technical", job["error_technical"] or ""),
        ("raised at", job["error_place"] or ""),
        ("upstream", _remote(job)),
        ("fingerprint", job["fingerprint"] or ""),
    ]


def _remote(job: dict[str, Any]) -> str:
    """The upstream's own status, code and sentence."""
    told = (job["remote_status"], job["remote_code"] or "", job["remote_message"] or "")
    return str(Remote(*told))


def _attempts(job: dict[str, Any]) -> str:
    text = str(job["attempt_count"])
    if job["attempts_max"] is not None:
        text += f" of {job['attempts_max']}"
    if job["pardon_count"]:
        text += f", {job['pardon_count']} not held against it"
    if job["manual_retry_count"]:
        text += f", revived {job['manual_retry_count']} times"
    return text


def _stored(text: str | None) -> str:
    return redacted_json(text, chars_max=TEXT_CHARS_MAX, indent=None)


def _event(event: dict[str, Any], now_us: int) -> list[Cell | str | int | None]:
    return [
        when(event["at_us"], now_us),
        event["verb"],
        event["attempt"] or None,
        event["code"],
        event["upstream_status"],
        span(None if event["duration_us"] is None else event["duration_us"] / 1_000_000),
        when(event["due_us"], now_us),
        event["worker"],
        event["reason"],
    ]
