"""Webhook deliveries, the newest event first: a bounded walk over events, each with all its receivers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from holdfast.store import Row, Tx
from holdfast.worker.dead_filter import EARLIEST_US, LATEST_US

PAGE_ROWS = 50
SCAN_EVENTS_MAX = 2_000
"""The number of events that one page looks at."""
NEWEST: tuple[int, str] = (LATEST_US, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryFilter:
    """Which deliveries are wanted; what is not given does not matter."""

    state: str | None = None
    """As the job's: queued, processing, complete or failed."""
    endpoint: str | None = None
    type: str | None = None
    code: str | None = None
    tenant: str | None = None
    text: str | None = None
    """Stands in the ids, the type or what it failed with."""


@dataclass(frozen=True, slots=True)
class DeliveryPage:
    """Some deliveries, and where the next page begins."""

    now_us: int
    rows: Sequence[dict[str, Any]]
    next: Row | None
    """The time and the id of the event behind which to go on; None on the last page."""
    cut: bool
    """Whether the walk ended before the page was full: there may be more that match."""


def list_deliveries(
    tx: Tx,
    wanted: DeliveryFilter,
    *,
    since_us: int | None = None,
    until_us: int | None = None,
    place: Sequence[Any] = NEWEST,
    count: int = PAGE_ROWS,
) -> DeliveryPage:
    """One page."""
    walk = {
        "since_us": EARLIEST_US if since_us is None else since_us,
        "until_us": LATEST_US if until_us is None else until_us,
        "before_us": place[0],
        "before_id": place[1],
    }
    asked = asdict(wanted)
    narrow = any(asked.values())
    scan = SCAN_EVENTS_MAX if narrow else count
    found = tx.records("console.deliveries", **walk, **asked, scan=scan, count=count + 1)
    if len(found) > count:
        shown = _whole_events(found)
        return DeliveryPage(tx.now_us(), shown, (shown[-1]["created_us"], shown[-1]["event_id"]), cut=False)
    end = tx.row("console.events_end", **walk, scan=scan - 1)
    return DeliveryPage(tx.now_us(), found, end, cut=end is not None and narrow)


def _whole_events(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows without those of the last event, which may have more receivers than fit; unless it is the only one."""
    last = found[-1]["event_id"], found[-1]["tenant"]
    whole = [one for one in found if (one["event_id"], one["tenant"]) != last]
    return whole or found[:-1]
