"""Reading the audit: who did what, when, from where, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from holdfast.base import id_floor, limits, new_id
from holdfast.base.formatting import us_of
from holdfast.operate.audit import RUNNING
from holdfast.operate.faults import ACTION_NOT_FOUND
from holdfast.store import Tx
from holdfast.worker.dead_filter import EARLIEST_US, LATEST_US

NEWEST_ID = "~"
"""Sorts after every id."""
INTERRUPTED = "interrupted"
SKEW_US = 86_400_000_000
"""An id has the time of the process that made it, whose clock may be off by this much."""
SILENT_US = 60_000_000
"""Work that has not moved for this long is taken to be interrupted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Which entries are wanted; what is not given does not matter."""

    who: str | None = None
    """The name of the actor."""
    kind: str | None = None
    """The door: console, command or api."""
    verb: str | None = None
    subject: str | None = None
    """A whole subject such as `job:ID`, or its beginning such as `job:`."""
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One action, as the audit has it."""

    id: str
    at_us: int
    actor_kind: str
    actor: str
    address: str
    verb: str
    subject: str
    reason: str | None
    state: str
    """`done`, `refused`, `running`, or `interrupted` for work that stopped moving."""
    result: str | None
    """`done`, or the code with which it was refused."""
    total: int | None
    """Of work on many: how many there were when it began."""
    done: int
    refused: int
    touched_us: int
    work: str | None


EVERY_ONE = AuditFilter()


def entries(tx: Tx, wanted: AuditFilter = EVERY_ONE, *, count: int = 50, before: str | None = None) -> Sequence[Entry]:
    """A page, the last first; `before` is the id of the last entry of the page before."""
    since_us = EARLIEST_US if wanted.since is None else us_of(wanted.since)
    found = tx.records(
        "audit.list",
        before=before or NEWEST_ID,
        since="" if wanted.since is None else id_floor(since_us - SKEW_US),
        since_us=since_us,
        until_us=LATEST_US if wanted.until is None else us_of(wanted.until),
        who=wanted.who,
        kind=wanted.kind,
        verb=wanted.verb,
        subject=wanted.subject,
        count=max(1, min(count, limits().page_rows_max)),
    )
    now_us = tx.now_us()
    return [_entry(one, now_us) for one in found]


def entry(tx: Tx, action_id: str) -> Entry:
    """One entry.

    Raises:
        Failure: ACTION_NOT_FOUND.
    """
    found = tx.records("audit.show", id=action_id[: len(new_id())])
    if not found:
        raise ACTION_NOT_FOUND(id=action_id[: len(new_id())])
    return _entry(found[0], tx.now_us())


def _entry(record: dict[str, Any], now_us: int) -> Entry:
    if record["state"] == RUNNING and now_us - record["touched_us"] > SILENT_US:
        record["state"] = INTERRUPTED
    return Entry(**record)
