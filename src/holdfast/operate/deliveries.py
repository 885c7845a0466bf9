"""Webhook deliveries that were given up: replay one event, reprocess or discard the oldest of a tenant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from holdfast.catalog import Failure
from holdfast.delivery.dead import replay_event
from holdfast.delivery.receivable import blocked
from holdfast.operate.actor import Actor
from holdfast.operate.audit import DONE, REFUSED, RUNNING, Action, Outcome, end, new_action, perform, write
from holdfast.operate.bulk import Verb
from holdfast.store import Row, Store, Tx
from holdfast.worker.dead_moves import discard, past_twins, pick_these, revive_free
from holdfast.worker.queues import wake_workers

BATCH = 500
"""The number of dead letters that one transaction moves."""
EVENT_IDS_MAX = 1_000
"""The number of events that are named; all are counted."""
FIRST = (-1, "")

Place = tuple[int, str]


@dataclass(slots=True)
class Moved:
    """What came of it."""

    done: int = 0
    event_ids: list[str] = field(default_factory=list)
    """Of those that were moved, the first `EVENT_IDS_MAX`."""
    rejected: dict[str, tuple[int, Failure]] = field(default_factory=dict)
    """The endpoints that would not receive anything, with how many dead letters they have here, and why."""


def replay(
    store: Store,
    event_id: str,
    *,
    actor: Actor,
    tenant: str = "",
    endpoint_id: str | None = None,
    reason: str | None = None,
) -> tuple[Outcome, int]:
    """Deliver one event again, to one endpoint or to all that did not get it; to how many.

    Raises:
        Failure: JOB_NOT_FOUND when nothing of this event waits; ENDPOINT_DISABLED or ENDPOINT_REMOVED when no endpoint
            would receive it.
    """
    action = new_action(actor, "replay", f"event:{event_id}", reason)

    def change(tx: Tx) -> int:
        return replay_event(tx, store, tenant, event_id, endpoint_id=endpoint_id, reason=reason)

    sent = perform(store, action, change, atomic=lambda phase: past_twins(lambda: store.atomic(phase)))
    return Outcome(action.id), sent


def move_oldest(
    store: Store,
    verb: Verb,
    *,
    actor: Actor,
    tenant: str,
    limit: int | None = None,
    event_id: str | None = None,
    endpoint_id: str | None = None,
    reason: str | None = None,
) -> Moved:
    """Reprocess or discard the deliveries of a tenant that were given up, the oldest first, in batches.

    What no endpoint would receive stays as it is, with its cause, and does not count against the limit. Operators may
    do it at once: each delivery is moved once.

    Args:
        limit: maximum number of deliveries to move; None is all that were dead when this began.

    Raises:
        Failure: ENDPOINT_DISABLED or ENDPOINT_REMOVED when an event or an endpoint is named and nothing of it could be
            reprocessed for that reason.
    """
    named = {"event": event_id, "endpoint": endpoint_id, "tenant": tenant or None}
    subject = "deliveries: " + (" ".join(f"{name}={value}" for name, value in named.items() if value) or "all")
    action = new_action(actor, "reprocess" if verb is Verb.REVIVE else verb.value, subject, reason)
    wanted = {"tenant": tenant, "event_id": event_id, "endpoint_id": endpoint_id}

    def begin(tx: Tx) -> int:
        write(tx, action, state=RUNNING, result="")
        return tx.now_us() + 1

    until_us = store.atomic(begin, repeatable=True)
    moved = Moved()
    try:
        _move_all(_Walk(store, action, verb, wanted, until_us), moved, limit)
        if verb is Verb.REVIVE and not moved.done and moved.rejected and (event_id or endpoint_id):
            raise next(iter(moved.rejected.values()))[1]
    except Failure as failure:
        end(store, action, REFUSED, failure.code)
        raise
    end(store, action, DONE, DONE)
    return moved


@dataclass(frozen=True, slots=True)
class _Walk:
    store: Store
    action: Action
    verb: Verb
    wanted: dict[str, str | None]
    until_us: int
    """Only what was given up before this time."""


def _move_all(walk: _Walk, moved: Moved, limit: int | None) -> None:
    place: Place | None = FIRST
    while place is not None and (limit is None or moved.done < limit):
        most = BATCH if limit is None else min(BATCH, limit - moved.done)
        place = _batch(walk, moved, place, most)


def _batch(walk: _Walk, moved: Moved, place: Place, most: int) -> Place | None:
    """One transaction; where it ended, or None when there was nothing left."""

    def phase(tx: Tx) -> tuple[Sequence[Row], dict[str, Failure], set[str]]:
        asked = {"until_us": walk.until_us, "after_us": place[0], "after_id": place[1], "count": most}
        rows = tx.rows("delivery.dead_oldest", **walk.wanted, **asked)
        ids = [row[0] for row in rows]
        lost = blocked(tx, ids) if walk.verb is Verb.REVIVE else {}
        letters = pick_these(tx, [job_id for job_id in ids if job_id not in lost])
        act = revive_free if walk.verb is Verb.REVIVE else discard
        done = act(tx, letters, walk.action.reason) if letters else 0
        tx.run("audit.progress", id=walk.action.id, done=done, refused=len(rows) - done)
        tx.after_commit.append(lambda: wake_workers(walk.store, {letter.queue for letter in letters}))
        return rows, lost, {letter.id for letter in letters}

    rows, lost, held = past_twins(lambda: walk.store.atomic(phase))
    for job_id, event_id, endpoint_id, _ in rows:
        if job_id in lost:
            count, _ = moved.rejected.get(endpoint_id, (0, None))
            moved.rejected[endpoint_id] = count + 1, lost[job_id]
        elif job_id in held:
            moved.done += 1
            if len(moved.event_ids) < EVENT_IDS_MAX:
                moved.event_ids.append(event_id)
    return (rows[-1][3], rows[-1][0]) if len(rows) == most else None
