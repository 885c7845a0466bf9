"""Processing events: dedupe row, effect and answer in one transaction, for many events at once.

Always true: an event has its effect exactly once, however often and in however many processes it arrives; when the
process dies, either all three are there or none. What answers a repeat is what was written with the effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.base import Json
from holdfast.base.gathering import Gathering
from holdfast.store import Store, Tx
from holdfast_systems.credentials import tables
from holdfast_systems.credentials.model import (
    NOTHING,
    Event,
    EventType,
    Heard,
    Standing,
    Status,
    said_by,
    vouch,
    worth,
)

BATCH_MAX = 64
"""Maximum number of events that arrive together and share one commit."""


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
    """Processes the events of this process: those that come at the same time share a commit."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._gathering: Gathering[Event, Outcome | Exception] = Gathering(self._flush, most=BATCH_MAX)

    async def process(self, event: Event) -> Outcome:
        """Process the event, or learn what it came to before.

        Raises:
            Failure: the database's own; whatever it is, sending the event again is safe.
        """
        outcome = await self._gathering.submit(event)
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
        return self._store.atomic(lambda tx: process(tx, events), repeatable=True)


def process(tx: Tx, events: Sequence[Event]) -> list[Outcome]:
    """Process events inside a transaction, with as few statements as that takes.

    Those that arrive together have no order among each other: contributions come first, and what is said about them
    finds them there. Rows of one table are written in the order of their keys, so that two processes seldom wait for
    each other crosswise.
    """
    first = {tables.key(event): event for event in reversed(events)}
    begun = tables.begin(tx, first.values())
    new = [first[of] for of in sorted(begun)]
    results = _arrived(tx, [event for event in new if event.type is EventType.CONTRIBUTION_CREATED])
    results |= _vouched(tx, [event for event in new if event.type is EventType.VOUCH_SUBMITTED])
    stated = [event for event in new if tables.key(event) not in results]
    results |= {tables.key(event): _stated(tx, event) for event in sorted(stated, key=_rank)}
    tables.finish(tx, results)
    outcomes = []
    for event in events:
        of = tables.key(event)
        # The first that tells of an event is the one that it was processed for.
        repeated = of not in begun or first[of] is not event
        outcomes.append(Outcome(results[of] if of in results else tables.result_of(tx, *of), repeated))
    return outcomes


def _arrived(tx: Tx, events: Sequence[Event]) -> dict[tables.Key, Json]:
    """New contributions, and what they are worth with all that was said about them before they came."""
    first = {_contribution(event): event for event in reversed(events)}
    heard = tables.arrive(tx, first.values())
    results: dict[tables.Key, Json] = {}
    more: dict[tables.Key, Standing] = {}
    names: dict[tables.Key, str] = {}
    for event in events:
        said = heard.get(_contribution(event)) if first[_contribution(event)] is event else None
        if said is None:
            results[tables.key(event)] = _result(event, Status.KNOWN)
            continue
        waited = tables.apply_parked(tx, event) if said != Heard() else 0
        who, gained = (event.platform, event.actor_id), worth(said)
        more[who] = more.get(who, NOTHING).plus(gained)
        names[who] = event.actor_name
        results[tables.key(event)] = _result(
            event, Status.APPLIED, user_id=event.actor_id, delta=gained.reputation, released=waited
        )
    tables.add(tx, more, names)
    return results


def _vouched(tx: Tx, events: Sequence[Event]) -> dict[tables.Key, Json]:
    results: dict[tables.Key, Json] = {}
    more: dict[tables.Key, Standing] = {}
    for event in events:
        who, gained = (event.platform, event.vouchee_id), vouch(event.weight)
        tables.keep_vouch(tx, event)
        more[who] = more.get(who, NOTHING).plus(gained)
        results[tables.key(event)] = _result(event, Status.APPLIED, user_id=event.vouchee_id, delta=gained.reputation)
    tables.add(tx, more, {})
    return results


def _stated(tx: Tx, event: Event) -> Json:
    said = said_by(event)
    owner, heard = tables.state(tx, event, said)
    if owner is None:
        return _result(event, Status.PARKED)
    more = worth(heard).minus(worth(heard.without(said)))
    if more != NOTHING:
        tables.change(tx, event.platform, owner, more)
    return _result(event, Status.APPLIED, user_id=owner, delta=more.reputation)


def _contribution(event: Event) -> tables.Key:
    return event.platform, event.contribution_id


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
