"""Dead letters by what they died of, read within bounds: a page walks a limited number of letters, newest first, and
the next page goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.base import encode
from holdfast.store import Row, Tx
from holdfast.worker.dead_filter import EARLIEST_US, LATEST_US, DeadFilter

WALK_ROWS_MAX = 10_000
"""The number of dead letters that one page looks at."""
COUNT_MAX = 10_000
"""Counting stops here."""
COUNT_WALK_MAX = 50_000
GLANCE_ROWS_MAX = 2_000
"""The number that the overview looks at."""
SLICES = 24
SLICE_US = 3_600 * 1_000_000
GROUPS_SHOWN_MAX = 100
SUMMARY_GROUPS_MAX = 5


@dataclass(slots=True)
class Group:
    """Letters that died of the same thing."""

    fingerprint: str
    count: int = 0
    first_us: int = LATEST_US
    last_us: int = 0
    example_id: str = ""
    slices: list[int] = field(default_factory=lambda: [0] * SLICES)
    """How many died in each slice of the last day, the oldest first."""
    code: str = ""
    kind: str = ""
    queue: str = ""
    message: str = ""
    technical: str = ""
    place: str = ""
    remote_code: str = ""


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups of one walk."""

    groups: Sequence[Group]
    """The most recent ones, up to the page size."""
    group_count: int
    letter_count: int
    """Of all groups, also those that are not shown."""
    next: str | None
    """Where the next walk begins; None when all have been walked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The letters that match a filter, as far as they were counted."""

    count: int
    more: bool
    """Whether there may be more than were counted."""
    queues: Mapping[str, int]
    """How many of each queue, most first."""
    groups: Sequence[Group]
    """The largest ones, up to `SUMMARY_GROUPS_MAX`."""
    group_count: int
    oldest_us: int | None
    newest_us: int | None


def latest_groups(tx: Tx, wanted: DeadFilter, place: Sequence[Any]) -> Groups:
    """The groups among the next letters, the one that died last first."""
    groups, end = _walk(tx, wanted, place, WALK_ROWS_MAX)
    latest = sorted(groups, key=lambda group: group.last_us, reverse=True)[:GROUPS_SHOWN_MAX]
    _describe(tx, latest)
    _date(tx, latest)
    letters = sum(group.count for group in groups)
    return Groups(latest, len(groups), letters, None if end is None else encode(list(end)))


def most_frequent(tx: Tx, wanted: DeadFilter, count: int, *, deliveries: bool = False) -> Sequence[Group]:
    """The largest groups among the last letters.

    Args:
        deliveries: only letters that are deliveries, of whichever sender; of the filter only the time counts then.
    """
    groups, _ = _walk(tx, wanted, (LATEST_US, ""), GLANCE_ROWS_MAX, deliveries=deliveries)
    largest = sorted(groups, key=lambda group: group.count, reverse=True)[:count]
    _describe(tx, largest)
    return largest


def _walk(
    tx: Tx, wanted: DeadFilter, place: Sequence[Any], rows_max: int, *, deliveries: bool = False
) -> tuple[list[Group], Row | None]:
    """The groups among `rows_max` letters from a place on, and where the walk ended; None when there are fewer."""
    now_us = tx.now_us()
    before = {"before_us": place[0], "before_id": place[1]}
    end: Row | None = tx.row("dead.walk_end", **_span(wanted), **before, scan=rows_max)
    rows = tx.rows(
        "dead.walk_deliveries" if deliveries else "dead.walk",
        **(_span(wanted) if deliveries else wanted.parameters()),
        **before,
        end_us=EARLIEST_US if end is None else end[0],
        end_id="" if end is None else end[1],
        slice_from_us=now_us - SLICES * SLICE_US,
        slice_us=SLICE_US,
    )
    return list(_grouped(rows).values()), end


def summary_of(tx: Tx, wanted: DeadFilter) -> Summary:
    """What work on all that match would be about, told before it begins; counting stops at `COUNT_MAX`."""
    end: Row | None = None
    if wanted == DeadFilter(fingerprint=wanted.fingerprint) and wanted.fingerprint is not None:
        rows = tx.rows("dead.alike_summary", fingerprint=wanted.fingerprint, most=COUNT_MAX + 1)
    else:
        end, asked = _count_span(tx, wanted)
        rows = tx.rows("dead.bounded_summary", **asked, most=COUNT_MAX + 1)
    queues: dict[str, int] = {}
    groups: dict[str, Group] = {}
    for queue, fingerprint, counted, first_us, last_us, example_id in rows:
        queues[queue] = queues.get(queue, 0) + counted
        group = groups.setdefault(fingerprint or "", Group(fingerprint or ""))
        group.count += counted
        group.first_us, group.example_id = min(group.first_us, first_us), max(group.example_id, example_id)
        group.last_us = max(group.last_us, last_us)
    largest = sorted(groups.values(), key=lambda group: -group.count)[:SUMMARY_GROUPS_MAX]
    _describe(tx, largest)
    total = sum(queues.values())
    return Summary(
        count=min(total, COUNT_MAX),
        more=total > COUNT_MAX or end is not None,
        queues=dict(sorted(queues.items(), key=lambda item: (-item[1], item[0]))),
        groups=largest,
        group_count=len(groups),
        oldest_us=min((group.first_us for group in groups.values()), default=None),
        newest_us=max((group.last_us for group in groups.values()), default=None),
    )


def count_blocked(tx: Tx, wanted: DeadFilter) -> int:
    """How many of them are deliveries that no endpoint would receive; counted as far as `summary_of` counts."""
    if tx.row("dead.any_delivery") is None:
        return 0
    found = tx.row("dead.blocked_count", **_count_span(tx, wanted)[1], most=COUNT_MAX)
    return int(found[0]) if found else 0


def _count_span(tx: Tx, wanted: DeadFilter) -> tuple[Row | None, dict[str, Any]]:
    """Where counting ends, and what to ask of the letters before that."""
    end: Row | None = tx.row("dead.walk_end", **_span(wanted), before_us=LATEST_US, before_id="", scan=COUNT_WALK_MAX)
    end_us, end_id = (EARLIEST_US, "") if end is None else end
    return end, {**wanted.parameters(), "end_us": end_us, "end_id": end_id}


def _span(wanted: DeadFilter) -> dict[str, int]:
    asked = wanted.parameters()
    return {"since_us": asked["since_us"], "until_us": asked["until_us"]}


def _grouped(rows: Sequence[Row]) -> dict[str, Group]:
    groups: dict[str, Group] = {}
    for fingerprint, slice_, count, first_us, last_us, example_id in rows:
        group = groups.setdefault(fingerprint or "", Group(fingerprint or ""))
        group.count += count
        group.first_us = min(group.first_us, first_us)
        if last_us >= group.last_us:
            group.last_us, group.example_id = last_us, example_id
        if 0 <= slice_ < SLICES:
            group.slices[slice_] += count
        elif slice_ >= SLICES:
            group.slices[-1] += count
    return groups


def _describe(tx: Tx, groups: Sequence[Group]) -> None:
    """What each died of."""
    if not groups:
        return
    rows = tx.rows("dead.examples", ids=[group.example_id for group in groups])
    examples = {row[0]: row[1:] for row in rows}
    for group in groups:
        row = (text or "" for text in examples.get(group.example_id, ("",) * 7))
        group.code, group.kind, group.queue, group.message, group.technical, group.place, group.remote_code = row


def _date(tx: Tx, groups: Sequence[Group]) -> None:
    """When each was first seen, however long ago that is."""
    if not groups:
        return
    asked = [group.fingerprint for group in groups]
    first: dict[str, int | None] = dict(tx.rows("dead.first_seen", fingerprints=asked))
    for group in groups:
        group.first_us = first.get(group.fingerprint) or group.first_us
