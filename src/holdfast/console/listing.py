"""Reading jobs page by page, fast however many there are.

A page follows one index: dead letters in the order of death, queued jobs in the order in which they will be claimed,
running ones by worker, all others by age. It never walks further than `SCAN_ROWS_MAX` rows; a filter that found too
little by then says so, and the next page goes on from there. What is inserted meanwhile moves no page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast.base import CodecError, decode, encode, id_floor
from holdfast.catalog.core import BAD_REQUEST
from holdfast.console.filters import Filter
from holdfast.lifecycle import JobState
from holdfast.store import Row, Tx
from holdfast.worker.dead_filter import EARLIEST_US, LATEST_US

PAGE_ROWS = 50
SCAN_ROWS_MAX = 5_000
NEWEST_ID = "~"
"""Sorts after every id."""
Record = dict[str, Any]
Place = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Listing:
    """Some jobs, and where the next page begins."""

    jobs: Sequence[Record]
    next: str | None
    """To be given as `before`; None when there is nothing more."""
    order: str
    """In which order they are, for people."""
    cut: bool = False
    """Whether the walk ended before the page was full: there may be more that match."""


@dataclass(frozen=True, slots=True)
class _Walk:
    """How one kind of list is walked."""

    order: str
    first: Callable[[Filter], Place]
    """Where it begins."""
    page: Callable[[Tx, Filter, Place, Place | None, int], list[Record]]
    end: Callable[[Tx, Filter, Place], Row | None]
    """The place at which a walk of the maximum number of rows ends; None when there are fewer."""
    place: Callable[[Record], Place]


def listed(tx: Tx, wanted: Filter, *, before: str | None = None, count: int = PAGE_ROWS) -> Listing:
    """One page.

    Raises:
        Failure: BAD_REQUEST when `before` is not what a page gave as `next`.
    """
    if _names_a_death(wanted) and wanted.state not in {None, JobState.FAILED}:
        return Listing((), None, _FAILED.order)  # only what failed has a code
    walk = _walk_of(wanted)
    start = walk.first(wanted) if before is None else read_place(before, walk.first(wanted))
    end = walk.end(tx, wanted, start)
    found = walk.page(tx, wanted, start, end, count + 1)
    if len(found) > count:
        return Listing(found[:count], encode(list(walk.place(found[count - 1]))), walk.order)
    if end is not None:
        return Listing(found, encode(list(end)), walk.order, cut=True)
    return Listing(found, None, walk.order)


def _walk_of(wanted: Filter) -> _Walk:
    if wanted.fingerprint is not None and wanted in _only_alike(wanted.fingerprint):
        return _ALIKE
    if wanted.state == JobState.FAILED or _names_a_death(wanted):
        return _FAILED
    if wanted.state == JobState.QUEUED:
        return _QUEUED
    return _PROCESSING if wanted.state == JobState.PROCESSING else _NEWEST


def _names_a_death(wanted: Filter) -> bool:
    """Whether it asks for what only failed jobs have."""
    return any((wanted.code, wanted.remote_code, wanted.fingerprint, wanted.endpoint))


def read_place(text: str, like: Place) -> Place:
    """The place that a page gave as its next one.

    Raises:
        Failure: BAD_REQUEST.
    """
    try:
        place = decode(text)
    except CodecError:
        place = None
    fits = isinstance(place, list) and [type(part) for part in place] == [type(part) for part in like]
    if not fits or any(isinstance(part, int) and abs(part) > LATEST_US for part in place):
        raise BAD_REQUEST("{field} is not what a page gave as the next one.", field="before")
    return list(place)


def _newest_page(tx: Tx, wanted: Filter, start: Place, end: Place | None, count: int) -> list[Record]:
    return tx.records(
        "console.newest",
        before=min(start[0], _id_at(wanted.until_us, NEWEST_ID)),
        since=_id_at(wanted.since_us, ""),
        end_id="" if end is None else end[0],
        state=wanted.state,
        queue=wanted.queue,
        kind=wanted.kind,
        tenant=wanted.tenant,
        text=wanted.text,
        count=count,
    )


def _newest_end(tx: Tx, wanted: Filter, start: Place) -> Row | None:
    if not any((wanted.state, wanted.queue, wanted.kind, wanted.tenant, wanted.text)):
        return None  # every row matches: the walk is as long as the page
    before = min(start[0], _id_at(wanted.until_us, NEWEST_ID))
    since = _id_at(wanted.since_us, "")
    return tx.row("console.newest_end", before=before, since=since, scan=SCAN_ROWS_MAX)


def _failed_page(tx: Tx, wanted: Filter, start: Place, end: Place | None, count: int) -> list[Record]:
    end_us, end_id = (EARLIEST_US, "") if end is None else end
    return tx.records(
        "console.failed",
        **wanted.dead().parameters(),
        before_us=start[0],
        before_id=start[1],
        end_us=end_us,
        end_id=end_id,
        count=count,
    )


def _failed_end(tx: Tx, wanted: Filter, start: Place) -> Row | None:
    asked = wanted.dead().parameters()
    span = {name: asked.pop(name) for name in ("since_us", "until_us")}
    if not any(asked.values()):
        return None
    return tx.row("dead.walk_end", **span, before_us=start[0], before_id=start[1], scan=SCAN_ROWS_MAX)


def _only_alike(fingerprint: str) -> tuple[Filter, Filter]:
    return Filter(fingerprint=fingerprint), Filter(fingerprint=fingerprint, state=JobState.FAILED)


def _alike_page(tx: Tx, wanted: Filter, start: Place, _end: Place | None, count: int) -> list[Record]:
    place = {"before_us": start[0], "before_id": start[1]}
    return tx.records("console.alike", fingerprint=wanted.fingerprint, **place, count=count)


def _queued_page(tx: Tx, wanted: Filter, start: Place, end: Place | None, count: int) -> list[Record]:
    ends = ("", "", 0, 0, "") if end is None else end
    names = ("end_queue", "end_lane", "end_priority", "end_due_us", "end_id")
    return tx.records(
        "console.queued",
        **_queued_start(start),
        **dict(zip(names, ends, strict=True)),
        endless=int(end is None),
        **_others(wanted),
        count=count,
    )


def _queued_end(tx: Tx, wanted: Filter, start: Place) -> Row | None:
    return tx.row("console.queued_end", **_queued_start(start), scan=SCAN_ROWS_MAX) if _narrow(wanted) else None


def _queued_start(start: Place) -> dict[str, Any]:
    return dict(zip(("queue_from", "lane", "priority", "due_us", "id"), start, strict=True))


def _processing_page(tx: Tx, wanted: Filter, start: Place, _end: Place | None, count: int) -> list[Record]:
    return tx.records("console.processing", owner=start[0], id=start[1], **_others(wanted), count=count)


def _others(wanted: Filter) -> dict[str, str | None]:
    return {
        "queue": wanted.queue,
        "kind": wanted.kind,
        "tenant": wanted.tenant,
        "text": wanted.text,
        "since": None if wanted.since_us is None else _id_at(wanted.since_us, ""),
        "until": None if wanted.until_us is None else _id_at(wanted.until_us, NEWEST_ID),
    }


def _narrow(wanted: Filter) -> bool:
    return any(_others(wanted).values())


def _id_at(at_us: int | None, otherwise: str) -> str:
    return otherwise if at_us is None else id_floor(at_us)


_NEWEST = _Walk("the newest first", lambda _: (NEWEST_ID,), _newest_page, _newest_end, lambda job: (job["id"],))
_FAILED = _Walk(
    "the one that failed last first",
    lambda _: (LATEST_US, ""),
    _failed_page,
    _failed_end,
    lambda job: (job["failed_us"], job["id"]),
)
_ALIKE = replace(_FAILED, page=_alike_page, end=lambda *_: None)
_QUEUED = _Walk(
    "in the order in which they will be claimed",
    lambda wanted: (wanted.queue or "", "", 0, 0, ""),  # before every lane of the queue
    _queued_page,
    _queued_end,
    lambda job: (job["queue"], job["lane"], job["priority"], job["due_us"], job["id"]),
)
_PROCESSING = _Walk(
    "by worker", lambda _: ("", ""), _processing_page, lambda *_: None, lambda job: (job["lease_owner"], job["id"])
)
