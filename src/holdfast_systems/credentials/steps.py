"""Processing events: dedupe row, effect and answer in one transaction, for many events at once.

Always true: an event has its effect exactly once, however often and in however many processes it arrives; when the
process dies, either all three are there or none. What answers a repeat is what was written with the effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.base import Json
from holdfast.store import Store, Tx
from holdfast.worker import Combiner
from holdfast_systems.credentials import tables
from holdfast_systems.credentials.model import NOTHING, Event, EventType, Heard, Status, said_by, vouch, worth

BATCH_MAX = 64
"""So many events that arrive together share one commit."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an event."""

    result: Json
    repeated: bool

    @property
    def status(self) -> int:
        """202 says that it waits for its contribution; a repeat is always answered with 200."""
        return 202 if not self.repeated and self.result["status"] == Status.PARKED else 200


class Processor:
    """Processes the events of this process. Threads may share it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._combiner: Combiner[Event, Outcome | Exception] = Combiner(self._flush, most=BATCH_MAX)

    def process(self, event: Event) -> Outcome:
        """Process the event, or learn what it came to before.

        Raises:
            Failure: the database's own; whatever it is, sending the event again is safe.
        """
        outcome = self._combiner.submit(event)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def repeated(self, platform: str, event_id: str) -> Outcome | None:
        """What the event came to, if it was processed before."""
        found = self._store.atomic(lambda tx: tables.result_of(tx, platform, event_id), write=False)
        return None if found is None else Outcome(found, repeated=True)

    def _flush(self, events: Sequence[Event]) -> Sequence[Outcome | Exception]:
        """All in one transaction; when that fails, each in one of its own, so that no event suffers for another."""
        try:
            return self._together(events)
        except Exception as error:  # noqa: BLE001 - each caller gets what became of its own event
            if len(events) == 1:
                return [error]
            return [self._flush([event])[0] for event in events]

    def _together(self, events: Sequence[Event]) -> Sequence[Outcome]:
        # In one order everywhere, so that two processes seldom wait for each other crosswise.
        places = sorted(range(len(events)), key=lambda place: _rank(events[place]))

        def phase(tx: Tx) -> list[Outcome]:
            done = {place: process(tx, events[place]) for place in places}
            return [done[place] for place in range(len(events))]

        return self._store.atomic(phase, repeatable=True)


def process(tx: Tx, event: Event) -> Outcome:
    """Process one event inside a transaction."""
    if not tables.begin(tx, event):
        result = tables.result_of(tx, event.platform, event.id)
        return Outcome(result, repeated=True)
    result = _EFFECTS[event.type](tx, event)
    tables.finish(tx, event, result)
    return Outcome(result, repeated=False)


def _arrived(tx: Tx, event: Event) -> Json:
    heard = tables.arrive(tx, event)
    if heard is None:
        return _result(event, Status.KNOWN)
    waited = tables.apply_parked(tx, event) if heard != Heard() else 0
    more = worth(heard)
    tables.add(tx, event.platform, event.actor_id, more, username=event.actor_name)
    return _result(event, Status.APPLIED, user_id=event.actor_id, delta=more.reputation, released=waited)


def _stated(tx: Tx, event: Event) -> Json:
    said = said_by(event)
    owner, heard = tables.state(tx, event, said)
    if owner is None:
        return _result(event, Status.PARKED)
    more = worth(heard).minus(worth(heard.without(said)))
    if more != NOTHING:
        tables.change(tx, event.platform, owner, more)
    return _result(event, Status.APPLIED, user_id=owner, delta=more.reputation)


def _vouched(tx: Tx, event: Event) -> Json:
    more = vouch(event.weight)
    tables.keep_vouch(tx, event)
    tables.add(tx, event.platform, event.vouchee_id, more)
    return _result(event, Status.APPLIED, user_id=event.vouchee_id, delta=more.reputation)


_EFFECTS = {
    EventType.CONTRIBUTION_CREATED: _arrived,
    EventType.POR_EVIDENCE: _stated,
    EventType.CONTRIBUTION_VERIFIED: _stated,
    EventType.CONTRIBUTION_REJECTED: _stated,
    EventType.VOUCH_SUBMITTED: _vouched,
}


def _result(
    event: Event, status: Status, *, user_id: str | None = None, delta: int | None = None, released: int = 0
) -> dict[str, Any]:
    """What the sender is told, and told again when it repeats itself."""
    told: dict[str, Any] = {
        "processed": int(status is not Status.PARKED),
        "event_id": event.id,
        "event_type": event.type.value,
        "status": status.value,
        "contribution_id": event.contribution_id or None,
        "user_id": user_id,
        "reputation_delta": delta,
        "released": released or None,
    }
    return {name: value for name, value in told.items() if value is not None}


def _rank(event: Event) -> tuple[str, str, str]:
    return event.platform, event.contribution_id or event.vouchee_id, event.id
