"""Events that could not be delivered: the dead letters of the delivery jobs, seen as events."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from holdfast.base import Json
from holdfast.catalog.durable import JOB_NOT_FOUND
from holdfast.delivery.endpoints import owner, show
from holdfast.delivery.faults import ENDPOINT_DISABLED
from holdfast.delivery.publishing import USUAL, Channel
from holdfast.delivery.receivable import blocked
from holdfast.store import Store, Tx
from holdfast.worker import DeadFilter, DeadLetters
from holdfast.worker.dead import Progress
from holdfast.worker.dead_moves import Letter, past_twins, pick_these, revive_free
from holdfast.worker.queues import wake_workers

PAGE = 50
"""Number of undelivered events that are read at once; each brings its body along."""
DELIVERIES_MAX = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Undelivered:
    """An event that one endpoint did not get."""

    event_id: str
    event_type: str
    payload: Json
    error_message: str
    status_code: int | None
    """What the endpoint answered last; None when it did not answer."""
    attempts: int
    last_attempt_at: datetime | None
    created_at: datetime
    """When it was given up."""
    endpoint_id: str
    error_code: str
    job_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UndeliveredFilter:
    """Which undelivered events are meant; what is not given does not matter."""

    endpoint_id: str | None = None
    event_type: str | None = None
    code: str | None = None
    text: str | None = None
    """Stands somewhere in the error message."""
    since: datetime | None = None
    """Given up at this time or later."""
    until: datetime | None = None

    def letters(self, by: Channel = USUAL) -> DeadFilter:
        """The dead letters among which they are; the type of the event is not known there."""
        return DeadFilter(
            queue=by.queue,
            kind=by.kind,
            endpoint=self.endpoint_id,
            code=self.code,
            text=self.text,
            since=self.since,
            until=self.until,
        )


@dataclass(frozen=True, slots=True)
class UndeliveredPage:
    """Some undelivered events, and where the next page begins."""

    events: Sequence[Undelivered]
    next: str | None
    """To be given as `before`; None on the last page."""


EVERY_ONE = UndeliveredFilter()


class UndeliveredEvents:
    """What could not be delivered, and how it is tried again. Threads may share it.

    What was for an endpoint that is disabled or removed stays as it is: it would only be given up again.
    """

    def __init__(self, store: Store, by: Channel = USUAL, *, tenant: str | None = None) -> None:
        """
        Args:
            tenant: whose events; those of others are not there. None is everybody's.
        """
        self.store = store
        self.tenant = tenant
        self._by = by
        self._letters = DeadLetters(store, tenant=tenant)

    def list(
        self, chosen: UndeliveredFilter = EVERY_ONE, *, count: int = 50, before: str | None = None
    ) -> UndeliveredPage:
        """A page, the one that was given up last first; with an event type it may hold fewer than `count`.

        Raises:
            Failure: BAD_REQUEST when `before` is not what a page gave as `next`.
        """
        page = self._letters.list(chosen.letters(self._by), count=count, before=before)
        events = self._read(page.letters)
        if chosen.event_type is not None:
            events = [event for event in events if event.event_type == chosen.event_type]
        return UndeliveredPage(events, page.next)

    def count(self, chosen: UndeliveredFilter = EVERY_ONE) -> int:
        """How many there are."""
        if chosen.event_type is None:
            return self._letters.count(chosen.letters(self._by))
        return sum(1 for _ in self._each(chosen))

    def replay(
        self,
        event_id: str,
        *,
        endpoint_id: str | None = None,
        reason: str | None = None,
        tenant: str | None = None,
    ) -> int:
        """Deliver one event again, to one endpoint or to all that did not get it; to how many.

        Args:
            tenant: whose event it is, as in `Deliveries.publish`.

        Raises:
            Failure: JOB_NOT_FOUND when there is nothing of this event to replay, also when another was faster;
                ENDPOINT_DISABLED or ENDPOINT_REMOVED when there is, and no endpoint would receive it.
        """
        whose = owner(self.tenant, tenant)

        def phase(tx: Tx) -> int:
            return replay_event(tx, self.store, whose, event_id, endpoint_id=endpoint_id, reason=reason)

        return past_twins(lambda: self.store.atomic(phase))

    def replay_all(self, chosen: UndeliveredFilter, *, reason: str | None = None) -> Progress:
        """Deliver again what matches and was given up when this began. Two operators may do it at once: each event
        is sent to each endpoint once.

        What is left because its endpoint is disabled or removed is counted as `refused`.

        Raises:
            Failure: ENDPOINT_DISABLED or ENDPOINT_NOT_FOUND when the filter names an endpoint that is.
        """
        if chosen.endpoint_id is not None:
            self._check_enabled(chosen.endpoint_id)
        replay = _Replay(self.store, chosen.event_type)
        ended = self._letters.each_batch(chosen.letters(self._by), replay, reason, None)
        if chosen.event_type is None:
            return ended
        return Progress(total=replay.matched, done=ended.done, refused=replay.matched - ended.done)

    def _each(self, chosen: UndeliveredFilter) -> Iterator[Undelivered]:
        before: str | None = None
        while True:
            page = self.list(chosen, count=PAGE, before=before)
            yield from page.events
            before = page.next
            if before is None:
                return

    def _check_enabled(self, endpoint_id: str) -> None:
        endpoint = self.store.atomic(lambda tx: show(tx, endpoint_id, tenant=self.tenant), write=False)
        if not endpoint.enabled:
            raise ENDPOINT_DISABLED(endpoint_id=endpoint_id, reason=endpoint.disabled_reason)

    def _read(self, letters: Sequence[dict[str, Any]]) -> Sequence[Undelivered]:
        ids = [letter["id"] for letter in letters]

        def phase(tx: Tx) -> dict[str, tuple[Any, ...]]:
            return {row[0]: row[1:] for row in tx.rows("delivery.undelivered", ids=ids)}

        known = self.store.atomic(phase, write=False) if ids else {}
        return [_undelivered(letter, *known[letter["id"]]) for letter in letters if letter["id"] in known]


class _Replay:
    """What is done to each batch of letters: those of the type are revived, where somebody would receive them."""

    def __init__(self, store: Store, event_type: str | None) -> None:
        self._store = store
        self._type = event_type
        self.matched = 0
        """How many were of the type."""

    def __call__(self, tx: Tx, letters: Sequence[Letter], reason: str | None) -> int:
        wanted = letters if self._type is None else self._of_type(tx, letters)
        lost = blocked(tx, [letter.id for letter in wanted])
        free = [letter for letter in wanted if letter.id not in lost]
        tx.after_commit.append(lambda: self._follow(len(wanted), {letter.queue for letter in free}))
        return revive_free(tx, free, reason) if free else 0

    def _of_type(self, tx: Tx, letters: Sequence[Letter]) -> Sequence[Letter]:
        found: set[str] = set()
        for start in range(0, len(letters), PAGE):
            ids = [letter.id for letter in letters[start : start + PAGE]]
            found |= {row[0] for row in tx.rows("delivery.undelivered", ids=ids) if row[3] == self._type}
        return [letter for letter in letters if letter.id in found]

    def _follow(self, matched: int, queues: set[str]) -> None:
        # Not before the commit: a batch that is run again must not be counted twice.
        self.matched += matched
        wake_workers(self._store, queues)


def replay_event(
    tx: Tx, store: Store, tenant: str, event_id: str, *, endpoint_id: str | None, reason: str | None
) -> int:
    """Put the dead deliveries of an event back into their queue; how many.

    Raises:
        Failure: JOB_NOT_FOUND; ENDPOINT_DISABLED or ENDPOINT_REMOVED when no endpoint would receive it.
    """
    rows = tx.records("delivery.deliveries", tenant=tenant, event_id=event_id, most=DELIVERIES_MAX)
    dead = [one["job_id"] for one in rows if one["state"] == "failed" and endpoint_id in {None, one["endpoint_id"]}]
    lost = blocked(tx, dead)
    free = pick_these(tx, [job_id for job_id in dead if job_id not in lost])
    if lost and not free:
        raise lost[dead[0]]
    revived = revive_free(tx, free, reason) if free else 0
    if not revived:
        raise JOB_NOT_FOUND("Nothing of this event waits to be replayed.", event_id=event_id)
    tx.after_commit.append(lambda: wake_workers(store, {letter.queue for letter in free}))
    return revived


def _undelivered(
    letter: dict[str, Any], endpoint_id: str, event_id: str, event_type: str, body: str, status: int | None
) -> Undelivered:
    return Undelivered(
        event_id=event_id,
        event_type=event_type,
        payload=json.loads(body),
        error_message=letter["error_message"],
        status_code=status,
        attempts=letter["attempt_count"],
        last_attempt_at=_moment(letter["last_attempt_us"]),
        created_at=_moment(letter["failed_us"]) or datetime.fromtimestamp(0, UTC),
        endpoint_id=endpoint_id,
        error_code=letter["error_code"],
        job_id=letter["id"],
    )


def _moment(wall_us: int | None) -> datetime | None:
    return None if wall_us is None else datetime.fromtimestamp(wall_us / 1_000_000, UTC)
